// Room for all that is asked for at once: devices, CPUs and memory. For reasons and explanations;
// admission itself asks the managers.
#pragma once

#include <cstdint>

#include "policy/demand.h"
#include "policy/needs.h"
#include "policy/numa_mask.h"
#include "policy/requests.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// What the unit of this container asks for: the container's requests, in pod scope the Pod's.
[[nodiscard]] Requests AllUnitRequests(const Topology& topology, const Demand& demand,
                                       std::size_t container);

// The state in which the kubelet refused, with what the containers before had got. In pod scope,
// where everything is asked for at once, the state before the Pod.
[[nodiscard]] Usage UsageAtRefusal(const Topology& topology, Usage before, const Outcome& refusal);

// CPUs on these NUMA nodes. kAll: all, as the kubelet counts minimal widths; kHealthy: those that
// are not reserved; kFree: and nobody's. Precondition: a static CPU manager.
[[nodiscard]] std::int64_t CpusOn(const Topology& topology, NumaMask mask, Counted counted,
                                  const Usage& usage);

// Bytes of a type on these NUMA nodes. kAll and kHealthy: what containers can have of an empty
// machine. Precondition: a Static memory manager.
[[nodiscard]] std::int64_t MemoryOn(const Topology& topology, NumaMask mask, int type,
                                    Counted counted, const Usage& usage);

// The fewest NUMA nodes that could hold the memory empty; all of them when none could.
[[nodiscard]] int FewestNumaNodesOfMemory(const Topology& topology, const MemoryRequests& memory);

// As those of needs.h, for everything. On machines with very many NUMA nodes the last two count
// over the whole machine.
[[nodiscard]] bool HasRoom(const Topology& topology, const Requests& requests, NumaMask mask,
                           Counted counted, const Usage& usage);
[[nodiscard]] bool SomeNodesHaveRoom(const Topology& topology, const Requests& requests, int width,
                                     Counted counted, const Usage& usage);
[[nodiscard]] int FewestNumaNodes(const Topology& topology, const Requests& requests);

}  // namespace numafit::policy
