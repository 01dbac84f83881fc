// What a resource name means to numafit, and which endpoint or card is behind a device id.
//
// Defaults cover every system we know of (GPUStack's keys and all its vendors' accelerator
// keys, NVIDIA with MIG and replicas, AMD, Ascend, Cambricon, Intel, Habana, SR-IOV pools,
// Mellanox shared pools, rdma.io/hca, EFA); configuration adds or overrides.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace numafit::api {

enum class ResourceKind {
  kAccelerator,        // a whole card, a replica or a partition of one: has to sit near endpoints
  kEndpointExclusive,  // one token = one endpoint of its own
  kEndpointShared,     // several tokens may be the same endpoint
  kEndpointPartition,  // one token = one virtual function
  kEndpointVirtual,    // tokens that name no endpoint (every container gets all adapters)
  kCounter,            // a number in the node status, no device behind it
  kOther,              // cpu, memory, and every name that nothing claims
};

[[nodiscard]] constexpr bool IsEndpoint(ResourceKind kind) {
  return kind == ResourceKind::kEndpointExclusive || kind == ResourceKind::kEndpointShared ||
         kind == ResourceKind::kEndpointPartition || kind == ResourceKind::kEndpointVirtual;
}

// "accelerator", "endpoint-exclusive", …: the words of configuration files and JSON.
[[nodiscard]] std::string_view ResourceKindName(ResourceKind kind);
// The inverse; nothing for any other word.
[[nodiscard]] std::optional<ResourceKind> ParseResourceKind(std::string_view name);

// Ordered rules, first match wins. Immutable after construction; safe to share between threads.
class ResourceClasses {
 public:
  // A pattern is an exact name; each '*' in it stands for any run of characters, also none.
  struct Rule {
    std::string pattern;
    ResourceKind kind;
  };

  // The built-in rules.
  ResourceClasses();
  // `overrides` are looked at before the built-in rules.
  explicit ResourceClasses(std::vector<Rule> overrides);

  [[nodiscard]] ResourceKind Classify(std::string_view resource) const;

 private:
  std::vector<Rule> rules_;
};

// The key of the endpoint or card behind a device id: equal keys = the same hardware. Told from the
// shape of the id alone, because one resource name is served by plugins with different ids:
//   GPUStack  "ib0:ib0:0003"            -> "ib0:ib0"   (index of four digits or more)
//   NVIDIA    "GPU-<uuid>::2"           -> "GPU-<uuid>"
//   HAMi      "GPU-<uuid>-2"            -> "GPU-<uuid>"
//   GKE       "nvidia0/gi1/vgpu1"       -> "nvidia0"
//   Intel     "card0-3"                 -> "card0"
// and the id itself for every other shape: PCI addresses of SR-IOV and ROCm, "rdma-7", "12".
// The result points into `device_id`.
[[nodiscard]] std::string_view EndpointKey(std::string_view device_id);

}  // namespace numafit::api
