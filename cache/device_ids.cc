#include "cache/device_ids.h"

#include <fmt/format.h>

namespace numafit::cache {
namespace {

// GPUStack spreads the ids of a card's shared tokens over the units of the card.
constexpr int kSharedTokenStep = 160'000;
// sriov-network-device-plugin: functions 0 and 1 are the ports, virtual functions follow.
constexpr int kFirstVirtualFunction = 2;

bool HasSuffix(std::string_view text, std::string_view suffix) {
  return text.size() > suffix.size() && text.ends_with(suffix);
}

std::string Uuid(int number) {
  return fmt::format("00000000-0000-4000-8000-{:012x}", number);
}

std::string Named(std::string_view prefix, std::string_view own, int number) {
  return fmt::format("{}{}", prefix.empty() ? own : prefix, number);
}

std::string Card(std::string_view prefix, std::string_view own, int number) {
  return prefix.empty() ? fmt::format("{}{}", own, Uuid(number))
                        : fmt::format("{}{}", prefix, number);
}

std::string WithReplica(std::string id, DeviceOrdinal ordinal) {
  return ordinal.tokens > 1 ? fmt::format("{}::{}", id, ordinal.token) : id;
}

std::string PciAddress(int bus, int function) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", bus / 256, bus % 256, function / 8 % 32,
                     function % 8);
}

std::string Fallback(std::string_view resource, DeviceOrdinal ordinal, std::string_view prefix) {
  const std::size_t slash = resource.rfind('/');
  const std::string own =
      fmt::format("{}-", slash == std::string_view::npos ? resource : resource.substr(slash + 1));
  const std::string device = Named(prefix, own, ordinal.device);
  return ordinal.tokens > 1 ? fmt::format("{}-{}", device, ordinal.token) : device;
}

}  // namespace

std::string MakeDeviceId(std::string_view resource, DeviceOrdinal ordinal,
                         std::string_view prefix) {
  const int number = ordinal.device;
  const int counted_through = ordinal.device * ordinal.tokens + ordinal.token;
  if (resource.starts_with("device.gpustack.ai/rdma.partitioned")) {
    const std::string port = Named(prefix, "ib", number);
    return fmt::format("{0}:{0}v{1}:0000", port, ordinal.token);
  }
  if (resource.starts_with("device.gpustack.ai/rdma")) {
    return fmt::format("{0}:{0}:{1:04}", Named(prefix, "ib", number), ordinal.token);
  }
  if (HasSuffix(resource, ".shared") && !resource.starts_with("nvidia.com/mig-")) {
    return fmt::format("card:{}:{:04}", Card(prefix, "GPU-", number),
                       ordinal.token * kSharedTokenStep);
  }
  if (HasSuffix(resource, ".sliced") || HasSuffix(resource, ".partitioned")) {
    return fmt::format("card:{}:{:04}", Card(prefix, "GPU-", number), ordinal.token);
  }
  if (resource.starts_with("nvidia.com/mig-")) {
    return WithReplica(Card(prefix, "MIG-", number), ordinal);
  }
  if (resource == "nvidia.com/gpu") return WithReplica(Card(prefix, "GPU-", number), ordinal);
  if (prefix.empty() && resource == "amd.com/gpu" && ordinal.tokens == 1) {
    return PciAddress(0x19 + 0x10 * number, 0);
  }
  if (resource.starts_with("rdma/")) return fmt::format("{}{}", prefix, counted_through);
  if (resource.starts_with("rdma.io/")) return Named(prefix, "rdma-", counted_through);
  if (prefix.empty() &&
      (resource.starts_with("intel.com/") || resource.starts_with("openshift.io/") ||
       resource.starts_with("mellanox.com/"))) {
    return PciAddress(0x3b + counted_through / 64, kFirstVirtualFunction + counted_through % 64);
  }
  return Fallback(resource, ordinal, prefix);
}

}  // namespace numafit::cache
