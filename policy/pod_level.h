// How a Pod with resources of its own is parted among its containers: gate PodLevelResourceManagers
// in pod scope. Twin of AllocatePod and validatePodScopeResources of cpumanager and memorymanager
// (policy_static.go of both).
//
// Rules
// 1. The Pod's own requests are allocated at once, whatever its containers request. Nothing at all
//    goes by the CPU manager when the Pod's CPUs are not a whole number.
// 2. A container that is Guaranteed by itself (ContainerDemand::requests_equal_limits) and requests
//    whole CPUs gets so many of the Pod's for itself; for memory it does not matter whether the
//    CPUs are whole.
// 3. A sidecar's part is gone for all that come after it. An init container's is not: each begins
//    with all but the sidecars' before it. One that does not share alone gets all of that.
// 4. App containers then take theirs one after the other; what is left is shared by the other app
//    containers and sidecars. If nothing is, and somebody would share it, the Pod is refused.
// 5. All of the Pod's memory lies on one set of NUMA nodes, so parting it is arithmetic.
//
// In container scope, and without a TopologyManager policy, containers are allocated one by one as
// always, and those that are not Guaranteed by themselves get nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/cpu_manager/assignment.h"
#include "policy/cpu_manager/static_policy.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/requests.h"

namespace numafit::policy {

// Whether rule 4 refuses. `pod` is what the Pod requests, `containers` those of the Demand.
[[nodiscard]] bool LeavesNoCpusToShare(std::int64_t pod, const Demand& demand,
                                       const RequestsOfContainers& containers);
// … for any type of memory; also when a container's request cannot be read.
[[nodiscard]] bool LeavesNoMemoryToShare(const MemoryRequests& pod, const Demand& demand,
                                         const RequestsOfContainers& containers);

struct CpuParts {
  // One per container of the Demand, in its order; empty on failure.
  std::vector<CpuSet> containers;
  TakeFailure failure = TakeFailure::kNone;
};
[[nodiscard]] CpuParts PartCpus(const CpuManager& manager, const CpuSet& pod, const Demand& demand,
                                const RequestsOfContainers& containers);

// The blocks that the book gets for each container, one entry per container of the Demand.
// A type that a container requests and the Pod does not wraps around, as it does in the kubelet.
[[nodiscard]] std::vector<MemoryBlocks> PartMemory(const MemoryBlocks& pod, const Demand& demand,
                                                   const RequestsOfContainers& containers);

}  // namespace numafit::policy
