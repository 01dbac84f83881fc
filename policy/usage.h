// What the Pods on a node hold.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "policy/compute_state.h"
#include "policy/cpu_set.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/topology.h"

namespace numafit::policy {

// `count` devices of the class with this index into Topology::classes().
struct ClassCount {
  int class_index = 0;
  int count = 0;

  friend bool operator==(const ClassCount&, const ClassCount&) = default;
  friend auto operator<=>(const ClassCount&, const ClassCount&) = default;
};

// Sorted by class, no class twice, no zero count.
using DeviceHolding = absl::InlinedVector<ClassCount, 4>;

// What one Pod takes from a node. A plain value.
struct Holding {
  DeviceHolding devices;
  // Exclusive CPUs of all its containers; CPUs that an init container has left to an app container
  // are there once.
  CpuSet cpus;
  // By container of the Demand; empty when the memory manager holds nothing for the Pod.
  std::vector<ContainerMemory> memory;
  // Of a Pod that was allocated as a whole (requests.h): `cpus` are the Pod's entry in the book,
  // these the union of its containers' entries. They need not be the same (faults of the kubelet).
  CpuSet container_cpus;
  // … and the Pod's entry of memory. It is what a release gives back, once the last container is
  // gone; `memory` is then only what the book says of each.
  MemoryBlocks pod_memory;

  [[nodiscard]] bool empty() const { return devices.empty() && cpus.empty() && memory.empty(); }
  // What a release gives back of memory: the container's blocks, or the Pod's.
  [[nodiscard]] std::vector<ContainerMemory> MemoryToRelease() const;
  friend bool operator==(const Holding&, const Holding&) = default;
  friend std::strong_ordering operator<=>(const Holding& a, const Holding& b);
};

// Devices in use per class, over all active Pods, and the books of CPUs and memory. A plain value,
// tied to one Topology.
class Usage {
 public:
  Usage() = default;
  explicit Usage(const Topology& topology)
      : taken_(topology.classes().size(), 0), compute_(topology.initial_compute()) {}

  [[nodiscard]] int taken(int class_index) const {
    return taken_[static_cast<std::size_t>(class_index)];
  }
  void Add(const DeviceHolding& holding) {
    for (const ClassCount& item : holding) {
      taken_[static_cast<std::size_t>(item.class_index)] += item.count;
    }
  }
  void Remove(const DeviceHolding& holding) {
    for (const ClassCount& item : holding) {
      taken_[static_cast<std::size_t>(item.class_index)] -= item.count;
    }
  }
  // A Pod is gone. Where its containers' memory lies on NUMA nodes that overlap without being the
  // same, the kubelet's random order decides what is left (ReleaseOrderMatters); here they go in
  // the order of the Demand.
  void Release(const Topology& topology, const Holding& holding);

  [[nodiscard]] const std::vector<std::int32_t>& raw() const { return taken_; }
  [[nodiscard]] const ComputeState& compute() const { return compute_; }
  [[nodiscard]] ComputeState& compute() { return compute_; }

  friend bool operator==(const Usage&, const Usage&) = default;
  friend auto operator<=>(const Usage&, const Usage&) = default;

 private:
  std::vector<std::int32_t> taken_;
  ComputeState compute_;
};

}  // namespace numafit::policy
