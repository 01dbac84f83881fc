// Twin of topologymanager/policy_best_effort.go.
#include "policy/topology_manager/policy.h"

namespace numafit::policy {

MergeResult MergeBestEffort(const Topology& topology, std::span<const ResourceHints> hints) {
  const NumaInfo numa(topology, topology.kubelet().prefer_closest_numa_nodes);
  MergeResult result = MergeHints(numa, hints, /*want_unpreferred=*/true);
  result.admit = true;
  return result;
}

}  // namespace numafit::policy
