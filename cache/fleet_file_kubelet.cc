// The fleet file's `kubelet`: named and checked as a KubeletConfiguration is.
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "api/quantity.h"
#include "cache/fleet_file_reader.h"
#include "policy/cpu_set.h"

namespace numafit::cache {
namespace {

constexpr int kMaxNumaNodes = 64;
constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kMemory = "memory";
constexpr std::string_view kHugepages = "hugepages-";
constexpr std::string_view kMemoryAvailable = "memory.available";
// The kubelet's own, where evictionHard is not set (eviction/defaults_linux.go).
constexpr std::int64_t kDefaultEvictionBytes = std::int64_t{100} << 20;

// What a word of the file may be, as the kubelet's own configuration spells it.
template <typename T>
T Word(const api::TreeReader& place, std::optional<T> (*parse)(std::string_view),
       std::string_view known, T fallback) {
  if (place.IsNull()) return fallback;
  const std::string text = place.Text();
  if (const std::optional<T> value = parse(text)) return *value;
  place.Fail(fmt::format("is \"{}\", expected one of {}", text, known));
  return fallback;
}

std::optional<policy::CpuPolicy> ParseCpuPolicy(std::string_view name) {
  if (name == "none") return policy::CpuPolicy::kNone;
  if (name == "static") return policy::CpuPolicy::kStatic;
  return std::nullopt;
}

std::optional<policy::MemoryPolicy> ParseMemoryPolicy(std::string_view name) {
  if (name == "None") return policy::MemoryPolicy::kNone;
  if (name == "Static") return policy::MemoryPolicy::kStatic;
  return std::nullopt;
}

void ReadTopologyOptions(const api::TreeReader& options, policy::KubeletSettings& settings) {
  options.AllowOnly({"prefer-closest-numa-nodes", "max-allowable-numa-nodes"});
  settings.prefer_closest_numa_nodes = options["prefer-closest-numa-nodes"].Bool(false);
  settings.max_allowable_numa_nodes =
      static_cast<int>(options["max-allowable-numa-nodes"].Int(8, kMaxNumaNodes, 8));
}

// An amount of 0 or more.
api::Quantity ReadAmount(const api::TreeReader& place) {
  if (place.IsNull()) return {};
  const std::string text = place.Text();
  const absl::StatusOr<api::Quantity> quantity = api::Quantity::Parse(text);
  if (quantity.ok() && quantity->milli() >= 0) return *quantity;
  place.Fail(fmt::format("is \"{}\", expected an amount like 4 or 512Mi", text));
  return {};
}

struct Reserved {
  std::int64_t cpu_milli = 0;
  std::int64_t memory = 0;  // bytes
};

// kubeReserved or systemReserved; `written` is filled as the file has it.
Reserved ReadReserved(const api::TreeReader& place, api::StringMap& written) {
  place.AllowOnly({kCpu, kMemory});
  written = place.TextMap();
  return {ReadAmount(place[kCpu]).milli(), ReadAmount(place[kMemory]).value()};
}

std::int64_t ReadEviction(const api::TreeReader& place, api::StringMap& written) {
  if (place.IsNull()) return kDefaultEvictionBytes;
  place.AllowOnly({kMemoryAvailable});
  place[kMemoryAvailable].Require();
  written = place.TextMap();
  return ReadAmount(place[kMemoryAvailable]).value();
}

void ReadReservedCpus(const api::TreeReader& place, policy::KubeletSettings& settings) {
  if (place.IsNull()) return;
  const absl::StatusOr<policy::CpuSet> cpus = policy::ParseCpuSet(place.Text());
  if (!cpus.ok()) {
    place.Fail(fmt::format("is \"{}\": {}", place.Text(), std::string(cpus.status().message())));
    return;
  }
  cpus->ForEach([&](int id) { settings.reserved_cpus.push_back(id); });
}

// One entry of reservedMemory; `taken` finds those that are given twice.
policy::MemoryReservation ReadMemoryReservation(const api::TreeReader& entry,
                                                std::set<std::pair<int, std::string>>& taken) {
  entry.AllowOnly({"numaNode", "limits"});
  policy::MemoryReservation reservation;
  entry["numaNode"].Require();
  reservation.numa = static_cast<int>(entry["numaNode"].Int(0, kMaxNumaNodes - 1, 0));
  entry["limits"].Require();
  entry["limits"].ForEachField([&](const std::string& type, const api::TreeReader& value) {
    if (type != kMemory && !std::string_view(type).starts_with(kHugepages)) {
      value.Fail("unknown type, expected memory or hugepages-<size>");
    }
    if (!taken.emplace(reservation.numa, type).second) {
      value.Fail(fmt::format("is given twice for NUMA {}", reservation.numa));
    }
    reservation.limits[type] = value.Units(0);
  });
  return reservation;
}

// memorymanager's validateReservedMemory: what is reserved NUMA node by NUMA node is what the node
// keeps from Pods. kubeReserved and systemReserved know no hugepages.
void CheckReservedMemory(const api::TreeReader& place, const policy::KubeletSettings& settings,
                         std::int64_t kept) {
  std::map<std::string, std::int64_t> sums = {{std::string(kMemory), 0}};
  for (const policy::MemoryReservation& entry : settings.reserved_memory) {
    for (const auto& [type, bytes] : entry.limits) sums[type] += bytes;
  }
  for (const auto& [type, bytes] : sums) {
    const std::int64_t expected = type == kMemory ? kept : 0;
    if (bytes == expected) continue;
    place.Fail(fmt::format(
        "{} adds up to {}, expected {}: a kubelet with memoryManagerPolicy Static starts only if "
        "that is the sum of kubeReserved, systemReserved and evictionHard (100Mi when not given)",
        type, FormatBytes(bytes), FormatBytes(expected)));
  }
}

void ReadManagers(const api::TreeReader& kubelet, policy::KubeletSettings& settings,
                  KubeletReservations& written) {
  settings.cpu_policy = Word<policy::CpuPolicy>(kubelet["cpuManagerPolicy"], ParseCpuPolicy,
                                                "none, static", policy::CpuPolicy::kNone);
  for (const auto& [option, value] : kubelet["cpuManagerPolicyOptions"].TextMap()) {
    settings.cpu_options[option] = value;
  }
  kubelet["featureGates"].ForEachField([&](const std::string& gate, const api::TreeReader& value) {
    settings.feature_gates[gate] = value.Bool(false);
  });
  ReadReservedCpus(kubelet["reservedSystemCPUs"], settings);
  const Reserved kube = ReadReserved(kubelet["kubeReserved"], written.kube);
  const Reserved system = ReadReserved(kubelet["systemReserved"], written.system);
  const std::int64_t eviction = ReadEviction(kubelet["evictionHard"], written.eviction_hard);
  // reservedSystemCPUs takes the place of both (cmd/kubelet/app/server.go).
  if (settings.reserved_cpus.empty())
    settings.reserved_cpu_milli = kube.cpu_milli + system.cpu_milli;
  settings.memory_policy =
      Word<policy::MemoryPolicy>(kubelet["memoryManagerPolicy"], ParseMemoryPolicy, "None, Static",
                                 policy::MemoryPolicy::kNone);
  std::set<std::pair<int, std::string>> taken;
  kubelet["reservedMemory"].ForEach([&](const api::TreeReader& entry) {
    settings.reserved_memory.push_back(ReadMemoryReservation(entry, taken));
  });
  if (settings.memory_policy == policy::MemoryPolicy::kStatic) {
    CheckReservedMemory(kubelet["reservedMemory"], settings,
                        kube.memory + system.memory + eviction);
  }
}

}  // namespace

std::string FormatBytes(std::int64_t bytes) {
  constexpr std::string_view kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

void ReadKubelet(const api::TreeReader& kubelet, KubeletEntry& entry) {
  kubelet.AllowOnly({"version", "topologyManagerPolicy", "topologyManagerScope",
                     "topologyManagerPolicyOptions", "cpuManagerPolicy", "cpuManagerPolicyOptions",
                     "reservedSystemCPUs", "kubeReserved", "systemReserved", "evictionHard",
                     "memoryManagerPolicy", "reservedMemory", "featureGates"});
  policy::KubeletSettings& settings = entry.settings;
  entry.version =
      kubelet["version"].Text(fmt::format("v1.{}.0", policy::KubeletVersion::kNewestMinor));
  // A version whose rules are not known is judged by the nearest that are; explanations say so.
  const auto version = policy::KubeletVersion::TryParse(entry.version);
  if (version) {
    settings.version = *version;
  } else {
    kubelet["version"].Fail(
        fmt::format("is \"{}\", expected a version such as v1.36.3", entry.version));
  }
  settings.policy = Word<policy::TopologyPolicy>(
      kubelet["topologyManagerPolicy"], policy::ParseTopologyPolicy,
      "none, best-effort, restricted, single-numa-node", policy::TopologyPolicy::kNone);
  settings.scope =
      Word<policy::TopologyScope>(kubelet["topologyManagerScope"], policy::ParseTopologyScope,
                                  "container, pod", policy::TopologyScope::kContainer);
  ReadTopologyOptions(kubelet["topologyManagerPolicyOptions"], settings);
  ReadManagers(kubelet, settings, entry.reservations);
}

}  // namespace numafit::cache
