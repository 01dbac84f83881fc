// What a TopologyManager policy makes of the hints. Twin of topologymanager's Policy interface; one
// file per policy, as there.
#pragma once

#include <span>

#include "policy/topology.h"
#include "policy/topology_manager/hint.h"
#include "policy/topology_manager/merge.h"

namespace numafit::policy {

// Nil affinity, always admits. The kubelet does not even ask for hints.
[[nodiscard]] MergeResult MergeNone();
// The best hint, preferred or not; always admits.
[[nodiscard]] MergeResult MergeBestEffort(const Topology& topology,
                                          std::span<const ResourceHints> hints);
// As best-effort, and admits only a preferred hint.
[[nodiscard]] MergeResult MergeRestricted(const Topology& topology,
                                          std::span<const ResourceHints> hints);
// Only preferred hints of one NUMA node (or nil) count; admits a preferred result. An affinity that
// is the whole machine becomes nil. prefer-closest-numa-nodes does not matter.
[[nodiscard]] MergeResult MergeSingleNumaNode(const Topology& topology,
                                              std::span<const ResourceHints> hints);

// By the topology's policy.
[[nodiscard]] MergeResult Merge(const Topology& topology, std::span<const ResourceHints> hints);

}  // namespace numafit::policy
