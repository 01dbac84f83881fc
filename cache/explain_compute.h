// CPUs and memory in explanations: what is free, and why the kubelet refuses a Pod for them. For
// nodes whose kubelet gives out CPUs (static CPU manager) or memory (Static memory manager).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/explain.h"
#include "cache/judge.h"
#include "policy/alignment.h"
#include "policy/demand.h"
#include "policy/requests.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::cache {

// "64Gi", "1.5Gi", "512".
[[nodiscard]] std::string BytesText(std::int64_t bytes);

// Of what the Pod gets for itself on this node: CPUs that are not reserved, memory and hugepages
// of the sizes that it requests. Empty where it shares them.
[[nodiscard]] std::vector<ComputeFree> FreeCompute(const NodeState& state,
                                                   const policy::Demand& demand);

// "12 CPUs are free, 8 at most on one NUMA node": the obstacle when it is CPUs or memory, or that
// those and the devices do not come together; empty when it is neither. `requests` are the unit's,
// `usage` the state at the refusal, or an empty machine for what never fits.
[[nodiscard]] std::string ComputeObstacle(const policy::Topology& topology,
                                          const policy::Usage& usage,
                                          const policy::Requests& requests,
                                          const policy::Judgement& judgement);

// "8 gpu need 2, 4 CPUs need 1": the fewest NUMA nodes of each, where they differ; else empty.
[[nodiscard]] std::string WidthsText(const policy::Topology& topology,
                                     const policy::Requests& requests);

}  // namespace numafit::cache
