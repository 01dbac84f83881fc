// A machine as its kubelet sees it: NUMA nodes, the kubelet's settings, device pools.
//
// TopologySpec (topology_spec.h) is the description that people and reports write, device ids and
// all; Topology is the same, checked once and compiled for questions. Devices that the kubelet
// cannot tell apart (same resource, same NUMA set, same health) form one DeviceClass, and
// everything that is decided is decided on counts per class. Where a plugin's preference order is
// known (TopologySpec::preferred_allocation) every device is a class of its own, in that order.
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
#include "policy/compute_state.h"
#include "policy/cpu_manager/static_policy.h"
#include "policy/memory_manager/memory_manager.h"
#include "policy/numa_mask.h"
#include "policy/topology_spec.h"

namespace numafit::policy {

// Immutable after Create; share it freely between threads.
class Topology {
 public:
  struct DeviceClass {
    NumaMask numa;              // of the machine's NUMA nodes, those it names
    NumaMask hardware;          // where it is: `numa`, without topology what is known otherwise
    bool has_topology = false;  // published a topology at all
    bool has_numa = false;      // … that names at least one NUMA node, of the machine or not
    // Allocated after all others: no topology, one without NUMA nodes, or only the id -1
    // (devicemanager's nodeWithoutTopology).
    bool placeless = false;
    bool healthy = true;
    int count = 0;  // devices in this class
  };
  struct Pool {
    std::string resource;
    int first_class = 0;  // classes [first_class, first_class + class_count) of classes()
    int class_count = 0;
    NumaMask device_numa;  // NUMA nodes with at least one device, whatever its health
    NumaMask hint_numa;    // hints are sets of these (depends on the kubelet's version)
    bool aligned = false;  // some device names a NUMA node: hints exist
    bool has_preference = false;
    bool one_token_per_endpoint = false;
    int devices = 0;  // of all classes
    // most_touched[k]: the most devices, whatever their health, that k NUMA nodes can have.
    std::vector<int> most_touched;
    std::vector<std::string> endpoints;  // distinct endpoint keys, sorted
  };
  struct DeviceRef {
    int class_index = -1;     // into classes()
    int endpoint_index = -1;  // into the pool's endpoints
  };

  // InvalidArgument names the field: a NUMA id twice or outside 0..63, no NUMA node, a device id
  // twice in a resource, distances that do not reach every NUMA id, more NUMA nodes than the
  // kubelet allows, devices on several NUMA nodes out of more than 16; and what keeps the static
  // CPU manager or the Static memory manager from starting.
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
  // The smallest number of NUMA nodes that could hold so many devices of the pool if all were
  // healthy and free; all of hint_numa when none could.
  [[nodiscard]] int MinimalWidth(const Pool& pool, std::int64_t request) const;
  // Ids of the devices of one class, sorted.
  [[nodiscard]] std::span<const std::string> DeviceIds(int class_index) const;
  // Which endpoints the devices of one class are tokens of: indices that are the same for the same
  // endpoint in every pool. Sorted, each once.
  [[nodiscard]] std::span<const int> ClassEndpoints(int class_index) const;
  // From the default distances where none are given. Precondition: both are NUMA nodes.
  [[nodiscard]] int Distance(int from_numa, int to_numa) const;
  // The CPU manager's static policy, the memory manager's Static policy; null with the policy none.
  [[nodiscard]] const CpuManager* cpu_manager() const {
    return cpu_manager_ ? &*cpu_manager_ : nullptr;
  }
  [[nodiscard]] const MemoryManager* memory_manager() const {
    return memory_manager_ ? &*memory_manager_ : nullptr;
  }
  // One of the two is there.
  [[nodiscard]] bool HasBooks() const { return cpu_manager_ || memory_manager_; }
  // Whether the order in which the kubelet admits Pods can decide who is admitted. Kubelets that do
  // not enforce count, except the memory manager: a NUMA node that serves one container alone is no
  // part of a larger group (cm/memorymanager/policy_static.go, isAffinityViolatingNUMAAllocations).
  [[nodiscard]] bool OrderMatters() const {
    return Enforces(spec_.kubelet.policy) || memory_manager_.has_value();
  }
  // Their books when no Pod has anything.
  [[nodiscard]] const ComputeState& initial_compute() const { return initial_compute_; }
  // Equal text = every question has the same answer on both machines (device ids do not matter).
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

 private:
  explicit Topology(TopologySpec spec);
  absl::Status Compile();
  absl::Status CompileNuma();
  absl::Status CompilePool(const std::string& resource, const std::vector<DeviceSpec>& devices);
  absl::Status CompileWidths(Pool& pool);
  absl::Status CompileCpus();
  absl::Status CompileMemory();
  void CompileEndpoints();
  void CompileFingerprint();

  TopologySpec spec_;
  NumaMask numa_;
  std::vector<Pool> pools_;
  std::vector<DeviceClass> classes_;
  std::vector<std::vector<std::string>> class_ids_;
  std::vector<std::vector<int>> class_endpoints_;
  std::vector<absl::flat_hash_map<std::string, DeviceRef>> device_index_;  // by pool
  std::map<int, std::vector<int>> distances_;  // by NUMA id; only where given
  std::optional<CpuManager> cpu_manager_;
  std::optional<MemoryManager> memory_manager_;
  ComputeState initial_compute_;
  std::string fingerprint_;
};

}  // namespace numafit::policy
