// Twin of topologymanager/policy_restricted.go.
#include "policy/mutation.h"
#include "policy/topology_manager/policy.h"

namespace numafit::policy {

MergeResult MergeRestricted(const Topology& topology, std::span<const ResourceHints> hints) {
  const NumaInfo numa(topology, topology.kubelet().prefer_closest_numa_nodes);
  // A result that is not preferred is refused: which one it would be does not matter.
  MergeResult result = MergeHints(numa, hints, Mutated(Mutation::kMasksMayDiffer));
  result.admit = result.hint.preferred;
  return result;
}

}  // namespace numafit::policy
