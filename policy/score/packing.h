// How full are the places that an outcome uses?
#pragma once

#include "policy/admit.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// 0 (empty but for this Pod's share) .. kMaxScore (full), after the outcome: the average over the
// resources that the Pod takes of how much is in use of the NUMA nodes that it takes them from,
// three parts, and of the node, one part. So packing fills NUMA nodes that are broken already
// before it looks at nodes. 0 when the Pod takes nothing.
[[nodiscard]] int FullnessAfter(const Topology& topology, const Usage& before,
                                const Outcome& outcome);

// How many NUMA nodes the devices of the outcome sit on, at least 1. A device on several NUMA nodes
// counts where others are already, if it can.
[[nodiscard]] int NumaNodesUsed(const Topology& topology, const Outcome& outcome);

}  // namespace numafit::policy
