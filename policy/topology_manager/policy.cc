#include "policy/topology_manager/policy.h"

namespace numafit::policy {

MergeResult Merge(const Topology& topology, std::span<const ResourceHints> hints) {
  switch (topology.kubelet().policy) {
    case TopologyPolicy::kNone:
      break;
    case TopologyPolicy::kBestEffort:
      return MergeBestEffort(topology, hints);
    case TopologyPolicy::kRestricted:
      return MergeRestricted(topology, hints);
    case TopologyPolicy::kSingleNumaNode:
      return MergeSingleNumaNode(topology, hints);
  }
  return MergeNone();
}

}  // namespace numafit::policy
