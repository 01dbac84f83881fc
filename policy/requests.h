// What is asked for at once, by all managers: a container, or the Pod in pod scope.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "policy/demand.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/topology.h"
#include "policy/topology_manager/scope.h"

namespace numafit::policy {

struct Requests {
  DeviceRequests devices;
  // Exclusive CPUs; 0 where the CPU manager has no say.
  std::int64_t cpus = 0;
  // The memory manager is asked, which may be for nothing.
  bool asks_memory = false;
  MemoryRequests memory;

  [[nodiscard]] bool empty() const {
    return devices.empty() && cpus == 0 && !(asks_memory && !memory.items.empty());
  }
};
using RequestsOfContainers = absl::InlinedVector<Requests, 4>;

// Whether the CPU and the memory manager give this Pod anything for itself: only to Guaranteed ones
// (cpumanager's guaranteedCPUs, memorymanager's Allocate), and to one with resources of its own
// only with the gate PodLevelResourceManagers.
[[nodiscard]] bool MayHaveOwnCpusAndMemory(const Topology& topology, const Demand& demand);

// The kubelet calls AllocatePod instead of Allocate container by container: a Pod with resources of
// its own, whatever its QoS class, in pod scope, with the gate (topologymanager/scope_pod.go).
[[nodiscard]] bool IsAllocatedAsAWhole(const Topology& topology, const Demand& demand);
// … and asks for devices, which AllocatePod does not give out: the kubelet finds them missing when
// it starts the containers and allocates them then (devicemanager, GetDeviceRunContainerOptions).
// Who has which devices afterwards is not mirrored.
[[nodiscard]] bool GetsDevicesOnlyWhenItStarts(const Topology& topology, const Demand& demand);

[[nodiscard]] RequestsOfContainers ContainerRequestsOf(const Topology& topology,
                                                       const Demand& demand);
// `containers` are those of the Demand, in its order.
[[nodiscard]] Requests PodRequestsOf(const Topology& topology, const Demand& demand,
                                     const RequestsOfContainers& containers);

}  // namespace numafit::policy
