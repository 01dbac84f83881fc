// A machine as its kubelet sees it: NUMA nodes, the kubelet's settings, device pools.
//
// TopologySpec is the description that people and reports write (device ids and all); Topology is
// the same, checked once and compiled for questions. Devices that the kubelet cannot tell apart
// (same resource, same NUMA set, same health) form one DeviceClass, and everything that is decided
// is decided on counts per class. Where a plugin's preference order is known
// (TopologySpec::preferred_allocation) every device is a class of its own, in that order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "policy/kubelet_version.h"
#include "policy/numa_mask.h"

namespace numafit::policy {

enum class TopologyPolicy { kNone, kBestEffort, kRestricted, kSingleNumaNode };
enum class TopologyScope { kContainer, kPod };

// "none", "best-effort", … as in KubeletConfiguration.
[[nodiscard]] std::string_view TopologyPolicyName(TopologyPolicy policy);
[[nodiscard]] std::optional<TopologyPolicy> ParseTopologyPolicy(std::string_view name);
[[nodiscard]] std::string_view TopologyScopeName(TopologyScope scope);
[[nodiscard]] std::optional<TopologyScope> ParseTopologyScope(std::string_view name);

// restricted and single-numa-node refuse what they cannot align; the others do not.
[[nodiscard]] constexpr bool Enforces(TopologyPolicy policy) {
  return policy == TopologyPolicy::kRestricted || policy == TopologyPolicy::kSingleNumaNode;
}

struct KubeletSettings {
  KubeletVersion version;
  TopologyPolicy policy = TopologyPolicy::kNone;
  TopologyScope scope = TopologyScope::kContainer;
  bool prefer_closest_numa_nodes = false;
  // More NUMA nodes than this and the kubelet does not start (policy other than none).
  int max_allowable_numa_nodes = 8;

  friend bool operator==(const KubeletSettings&, const KubeletSettings&) = default;
};

struct NumaNodeSpec {
  int id = 0;
  std::vector<int> cpus;        // logical CPU ids; empty on a CPU-less NUMA node
  int threads_per_core = 1;
  int socket = 0;
  std::int64_t memory = 0;      // bytes
  // SLIT distances to every NUMA node, in the order of TopologySpec::numa. Empty: 10 to itself,
  // 20 to the others.
  std::vector<int> distances;
};

struct DeviceSpec {
  std::string id;
  // nullopt: the plugin publishes no topology ("don't care"); empty: a topology without NUMA
  // nodes. The kubelet tells the two apart (kubernetes.md 2.4). Ids outside 0..63 (a plugin that
  // publishes -1) are in no mask and kept here as they came.
  std::optional<std::vector<int>> numa;
  // Devices with the same endpoint share hardware (tokens of one shared endpoint). Empty: the id.
  std::string endpoint;
  bool healthy = true;
};

struct TopologySpec {
  KubeletSettings kubelet;
  std::vector<NumaNodeSpec> numa;
  // Registered resources. A name with an empty list is registered with no device.
  std::map<std::string, std::vector<DeviceSpec>> devices;
  // Resources whose plugin answers GetPreferredAllocation in this order (then by id). Only known
  // in tests and bug reports; elsewhere the kubelet's pick counts as free.
  std::map<std::string, std::vector<std::string>> preferred_allocation;
};

// Immutable after Create; share it freely between threads.
class Topology {
 public:
  struct DeviceClass {
    NumaMask numa;              // empty unless has_numa
    bool has_topology = false;  // published a topology at all
    bool has_numa = false;      // … that names at least one NUMA node
    bool healthy = true;
    int count = 0;              // devices in this class
  };
  struct Pool {
    std::string resource;
    int first_class = 0;  // classes [first_class, first_class + class_count) of classes()
    int class_count = 0;
    NumaMask device_numa;      // NUMA nodes with at least one device, whatever its health
    bool aligned = false;      // some device names a NUMA node: hints exist (kubernetes.md 2.4)
    bool has_preference = false;
    std::vector<std::string> endpoints;  // distinct endpoint keys, sorted
  };
  struct DeviceRef {
    int class_index = -1;     // into classes()
    int endpoint_index = -1;  // into the pool's endpoints
  };

  // InvalidArgument names the field: a NUMA id twice or outside 0..63, no NUMA node, a device id
  // twice in a resource, distances of the wrong length, more NUMA nodes than the kubelet allows.
  static absl::StatusOr<std::shared_ptr<const Topology>> Create(TopologySpec spec);

  [[nodiscard]] const TopologySpec& spec() const { return spec_; }
  [[nodiscard]] const KubeletSettings& kubelet() const { return spec_.kubelet; }
  [[nodiscard]] NumaMask numa() const { return numa_; }
  [[nodiscard]] std::span<const Pool> pools() const { return pools_; }
  [[nodiscard]] std::span<const DeviceClass> classes() const { return classes_; }
  // Index into pools(), -1 when the resource is not registered.
  [[nodiscard]] int FindPool(std::string_view resource) const;
  // class_index -1 when the pool has no such device.
  [[nodiscard]] DeviceRef FindDevice(int pool, std::string_view device_id) const;
  // Ids of the devices of one class, sorted.
  [[nodiscard]] std::span<const std::string> DeviceIds(int class_index) const;
  [[nodiscard]] int Distance(int from_numa, int to_numa) const;
  // Equal text = every question has the same answer on both machines (device ids do not matter).
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

 private:
  explicit Topology(TopologySpec spec);
  absl::Status Compile();

  TopologySpec spec_;
  NumaMask numa_;
  std::vector<Pool> pools_;
  std::vector<DeviceClass> classes_;
  std::vector<std::vector<std::string>> class_ids_;
  std::vector<absl::flat_hash_map<std::string, DeviceRef>> device_index_;
  std::map<int, std::vector<int>> distances_;
  std::string fingerprint_;
};

}  // namespace numafit::policy
