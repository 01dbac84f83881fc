// Twin of topologymanager/policy_single_numa_node.go.
#include <algorithm>

#include "policy/topology_manager/policy.h"

namespace numafit::policy {

MergeResult MergeSingleNumaNode(const Topology& topology, std::span<const ResourceHints> hints) {
  const NumaInfo numa(topology, /*closest=*/false);
  // A resource whose preferred hints are wider keeps no hint, so nothing can be combined.
  const bool single = std::all_of(hints.begin(), hints.end(), [](const ResourceHints& h) {
    return h.kind != ResourceHints::Kind::kMasks || h.preferred_width == 1;
  });
  if (!single) return {};
  MergeResult result = MergeHints(numa, hints, /*want_unpreferred=*/false);
  result.admit = result.hint.preferred;
  if (result.hint.affinity == numa.DefaultAffinity()) result.hint.affinity.reset();
  return result;
}

}  // namespace numafit::policy
