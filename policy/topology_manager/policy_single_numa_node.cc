// Twin of topologymanager/policy_single_numa_node.go.
#include "policy/topology_manager/policy.h"

namespace numafit::policy {

MergeResult MergeSingleNumaNode(const Topology& topology, std::span<const ResourceHints> hints) {
  const NumaInfo numa(topology, /*closest=*/false);
  // Only preferred hints of one NUMA node are looked at. A resource without any leaves nothing to
  // combine.
  MergeResult result = MergeHints(numa, hints, /*want_unpreferred=*/false, /*widest=*/1);
  result.admit = result.hint.preferred;
  if (result.hint.affinity == numa.DefaultAffinity()) result.hint.affinity.reset();
  return result;
}

}  // namespace numafit::policy
