#include "agent/kubelet/configuration.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/json_reader.h"
#include "api/quantity.h"

namespace numafit::agent {
namespace {

using api::JsonReader;
using nlohmann::json;

// Texts; numbers and booleans that a person forgot to quote count as text.
std::string TextOf(const JsonReader& place) {
  const json& value = place.Raw();
  return value.is_number() || value.is_boolean() ? value.dump() : place.String();
}

api::Quantity ReadQuantity(const JsonReader& place) {
  if (place.IsNull()) return {};
  const absl::StatusOr<api::Quantity> quantity = api::Quantity::Parse(TextOf(place));
  if (quantity.ok()) return *quantity;
  place.Fail(std::string(quantity.status().message()));
  return {};
}

void ReadTextMap(const JsonReader& place, google::protobuf::Map<std::string, std::string>* out) {
  place.ForEachMember(
      [out](const std::string& key, const JsonReader& value) { (*out)[key] = TextOf(value); });
}

void ReadReservedMemory(const JsonReader& place, v1alpha1::Kubelet* kubelet) {
  place.ForEach([kubelet](const JsonReader& item) {
    v1alpha1::MemoryReservation* reservation = kubelet->add_reserved_memory();
    reservation->set_numa_node(static_cast<int>(item["numaNode"].Int(0, 4095)));
    item["limits"].ForEachMember([reservation](const std::string& type, const JsonReader& limit) {
      (*reservation->mutable_limits())[type] = std::to_string(ReadQuantity(limit).value());
    });
  });
}

}  // namespace

absl::StatusOr<v1alpha1::Kubelet> ReadKubeletConfiguration(const json& configuration) {
  absl::Status status;
  const JsonReader root(configuration, status);
  v1alpha1::Kubelet kubelet;
  kubelet.set_topology_manager_policy(root["topologyManagerPolicy"].String());
  kubelet.set_topology_manager_scope(root["topologyManagerScope"].String());
  ReadTextMap(root["topologyManagerPolicyOptions"],
              kubelet.mutable_topology_manager_policy_options());
  kubelet.set_cpu_manager_policy(root["cpuManagerPolicy"].String());
  ReadTextMap(root["cpuManagerPolicyOptions"], kubelet.mutable_cpu_manager_policy_options());
  kubelet.set_reserved_system_cpus(TextOf(root["reservedSystemCPUs"]));
  const std::int64_t reserved = ReadQuantity(root["kubeReserved"]["cpu"]).milli() +
                                ReadQuantity(root["systemReserved"]["cpu"]).milli();
  if (reserved < 0 || reserved > std::numeric_limits<std::int32_t>::max()) {
    root["kubeReserved"].Fail("more CPU than a machine can have");
  } else {
    kubelet.set_reserved_cpu_milli(static_cast<std::int32_t>(reserved));
  }
  kubelet.set_memory_manager_policy(root["memoryManagerPolicy"].String());
  ReadReservedMemory(root["reservedMemory"], &kubelet);
  root["featureGates"].ForEachMember([&](const std::string& gate, const JsonReader& on) {
    (*kubelet.mutable_feature_gates())[gate] = on.Bool();
  });
  if (!status.ok()) return status;
  return kubelet;
}

absl::StatusOr<v1alpha1::Kubelet> ParseConfigz(std::string_view text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("kubeletconfig") ||
      !document["kubeletconfig"].is_object()) {
    return absl::InvalidArgumentError("configz: the answer has no object kubeletconfig");
  }
  absl::StatusOr<v1alpha1::Kubelet> kubelet = ReadKubeletConfiguration(document["kubeletconfig"]);
  if (!kubelet.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("configz: kubeletconfig.{}", std::string(kubelet.status().message())));
  }
  kubelet->set_confirmed(true);
  return kubelet;
}

}  // namespace numafit::agent
