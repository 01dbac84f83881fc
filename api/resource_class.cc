#include "api/resource_class.h"

#include <array>
#include <iterator>

namespace numafit::api {
namespace {

using enum ResourceKind;

constexpr std::array<std::pair<ResourceKind, std::string_view>, 7> kKindNames = {{
    {kAccelerator, "accelerator"},
    {kEndpointExclusive, "endpoint-exclusive"},
    {kEndpointShared, "endpoint-shared"},
    {kEndpointPartition, "endpoint-partition"},
    {kEndpointVirtual, "endpoint-virtual"},
    {kCounter, "counter"},
    {kOther, "other"},
}};

// GPUStack serves the same family of keys below the base name of each manufacturer.
constexpr std::string_view kGpustackBases[] = {
    "nvidia.com/gpu",     "amd.com/gpu",      "huawei.com/npu",
    "cambricon.com/mlu",  "hygon.com/dcu",    "iluvatar.com/gpu",
    "metax-tech.com/gpu", "mthreads.com/gpu", "alibabacloud.com/ppu",
};

struct BuiltIn {
  std::string_view pattern;
  ResourceKind kind;
};

// Below a base: the ownership modes are tokens with a card behind them; what follows a mode
// (".sliced.units", ".sliced.memory-mib", ".partitioned.mig-3g.40gb") is a number that the
// operator patches into the node status.
constexpr BuiltIn kGpustackFamily[] = {
    {"", kAccelerator},
    {".shared", kAccelerator},
    {".sliced", kAccelerator},
    {".sliced.*", kCounter},
    {".partitioned", kAccelerator},
    {".partitioned.*", kCounter},
    {".shared.*", kCounter},
    {".units", kCounter},
    {".visibility", kCounter},
    {".cores-percentage", kCounter},
    {".memory-*", kCounter},
};

constexpr BuiltIn kBuiltIn[] = {
    // GPUStack, RDMA side. Exclusive and shared draw on the same endpoints. The last rule is for
    // families of other releases (".sliced" was a pool of shared tokens).
    {"device.gpustack.ai/rdma", kEndpointExclusive},
    {"device.gpustack.ai/rdma.shared", kEndpointShared},
    {"device.gpustack.ai/rdma.partitioned", kEndpointPartition},
    {"device.gpustack.ai/rdma.partitioned.*", kEndpointPartition},
    {"device.gpustack.ai/rdma.*", kEndpointShared},
    // A sidecar looking at cards that another container owns: must not drive placement.
    {"device.gpustack.ai/*.visibility", kCounter},
    {"credits.gpustack.ai/*", kCounter},

    // NVIDIA: whole and partitioned cards, time-sliced replicas of both, GPUs for virtual machines.
    {"nvidia.com/mig-*", kAccelerator},
    {"nvidia.com/pgpu", kAccelerator},
    {"nvidia.com/vgpu", kAccelerator},
    {"nvidia.com/NVIDIA_*", kAccelerator},
    {"nvidia.com/GRID_*", kAccelerator},
    // HAMi: shares of the card that its nvidia.com/gpu token stands for.
    {"nvidia.com/gpumem*", kCounter},
    {"nvidia.com/gpucores", kCounter},
    {"nvidia.com/priority", kCounter},
    {"nvidia.com/gpu*", kAccelerator},

    // AMD: compute and memory partitions are named like spx_nps1, cpx_nps4.
    {"amd.com/gpu*", kAccelerator},
    {"amd.com/*_nps*", kAccelerator},
    {"amd.com/nic", kEndpointExclusive},
    {"amd.com/vnic", kEndpointPartition},

    // Ascend: cards, virtual NPUs (Ascend910-2c), and shares of a card.
    {"huawei.com/Ascend*-memory", kCounter},
    {"huawei.com/npu-core", kCounter},
    {"huawei.com/Ascend*", kAccelerator},

    // Cambricon: mlu370, .share, .mim-2m.8gb, and shares of a card.
    {"cambricon.com/mlu*.vcore", kCounter},
    {"cambricon.com/mlu*.vmemory", kCounter},
    {"cambricon.com/mlu*", kAccelerator},

    // Intel GPU. The monitoring resource gives access to every card of the node.
    {"gpu.intel.com/*_monitoring", kCounter},
    {"gpu.intel.com/millicores", kCounter},
    {"gpu.intel.com/memory.max", kCounter},
    {"gpu.intel.com/tiles", kCounter},
    {"gpu.intel.com/*", kAccelerator},

    {"habana.ai/*", kAccelerator},
    // Trainium and Inferentia sit beside EFA endpoints.
    {"aws.amazon.com/neuron*", kAccelerator},

    // One token = one adapter.
    {"vpc.amazonaws.com/efa", kEndpointExclusive},
    // k8s-rdma-shared-dev-plugin: every grant injects all adapters of the pool.
    {"rdma/*", kEndpointVirtual},
    // k8s-rdma-device-plugin: a hundred slots per node, all adapters to every container.
    {"rdma.io/*", kEndpointVirtual},
    // sriov-network-device-plugin: the pool's name is free, the prefix tells who installed it.
    {"intel.com/*", kEndpointPartition},
    {"openshift.io/*", kEndpointPartition},
    {"mellanox.com/*", kEndpointPartition},
    {"nvidia.com/*", kEndpointPartition},
};

std::vector<ResourceClasses::Rule> WithBuiltIn(std::vector<ResourceClasses::Rule> rules) {
  rules.reserve(rules.size() + std::size(kGpustackBases) * std::size(kGpustackFamily) +
                std::size(kBuiltIn));
  for (const std::string_view base : kGpustackBases) {
    for (const BuiltIn& member : kGpustackFamily) {
      rules.push_back({std::string(base).append(member.pattern), member.kind});
    }
  }
  for (const BuiltIn& rule : kBuiltIn) rules.push_back({std::string(rule.pattern), rule.kind});
  return rules;
}

// Greedy matching with one point of return: linear in practice, never exponential.
bool Matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool AllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsHex(char c) {
  return AllDigits({&c, 1}) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !IsHex(text[i])) return false;
  }
  return true;
}

// A port or node GUID as sysfs prints it, "a088:c203:00e5:1234": its last group is no index.
bool IsGuid(std::string_view text) {
  if (text.size() != 19) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i % 5 == 4 ? text[i] != ':' : !IsHex(text[i])) return false;
  }
  return true;
}

// "<group>:<device>:<index>" with an index of four digits or more. A virtual function without a
// network device has an empty device part, "ib0::0000"; NVIDIA does not pad its replica numbers.
std::string_view GpustackKey(std::string_view id) {
  const std::size_t last = id.rfind(':');
  if (last == std::string_view::npos || last == 0) return {};
  const std::string_view index = id.substr(last + 1);
  if (index.size() < 4 || !AllDigits(index) || IsGuid(id)) return {};
  const std::string_view key = id.substr(0, last);
  if (key.find(':') == std::string_view::npos) return {};
  if (key.ends_with(':') && index[0] != '0') return {};
  return key;
}

std::string_view NvidiaReplicaKey(std::string_view id) {
  const std::size_t separator = id.rfind("::");
  if (separator == std::string_view::npos || separator == 0) return {};
  return AllDigits(id.substr(separator + 2)) ? id.substr(0, separator) : std::string_view{};
}

std::string_view HamiKey(std::string_view id) {
  constexpr std::size_t kLength = 4 + 36;  // "GPU-" or "MIG-" and the UUID
  if (!id.starts_with("GPU-") && !id.starts_with("MIG-")) return {};
  if (id.size() < kLength + 2 || id[kLength] != '-' || !IsUuid(id.substr(4, 36))) return {};
  return AllDigits(id.substr(kLength + 1)) ? id.substr(0, kLength) : std::string_view{};
}

std::string_view GkeKey(std::string_view id) {
  const std::size_t slash = id.find('/');
  if (slash == std::string_view::npos || !id.starts_with("nvidia")) return {};
  return AllDigits(id.substr(6, slash - 6)) ? id.substr(0, slash) : std::string_view{};
}

std::string_view IntelKey(std::string_view id) {
  const std::size_t dash = id.find('-');
  if (dash == std::string_view::npos || !id.starts_with("card") || dash < 4) return {};
  const bool fits = AllDigits(id.substr(4, dash - 4)) && AllDigits(id.substr(dash + 1));
  return fits ? id.substr(0, dash) : std::string_view{};
}

}  // namespace

std::string_view ResourceKindName(ResourceKind kind) {
  for (const auto& [value, name] : kKindNames) {
    if (value == kind) return name;
  }
  return "other";
}

std::optional<ResourceKind> ParseResourceKind(std::string_view name) {
  for (const auto& [value, word] : kKindNames) {
    if (word == name) return value;
  }
  return std::nullopt;
}

ResourceClasses::ResourceClasses() : ResourceClasses(std::vector<Rule>{}) {}

ResourceClasses::ResourceClasses(std::vector<Rule> overrides)
    : rules_(WithBuiltIn(std::move(overrides))) {}

ResourceKind ResourceClasses::Classify(std::string_view resource) const {
  for (const Rule& rule : rules_) {
    if (Matches(rule.pattern, resource)) return rule.kind;
  }
  return kOther;
}

std::string_view EndpointKey(std::string_view device_id) {
  for (const auto parse : {GpustackKey, NvidiaReplicaKey, HamiKey, GkeKey, IntelKey}) {
    if (const std::string_view key = parse(device_id); !key.empty()) return key;
  }
  return device_id;
}

}  // namespace numafit::api
