// Which of two sets of NUMA nodes is better. Twin of topologymanager/numa_info.go.
#pragma once

#include "policy/numa_mask.h"
#include "policy/topology.h"

namespace numafit::policy {

// A total order on non-empty sets: fewer NUMA nodes; then, with `closest`, the smaller average
// distance over all ordered pairs, a node with itself included; then the numerically smaller set.
// A view: the topology must outlive it.
class NumaInfo {
 public:
  NumaInfo(const Topology& topology, bool closest);

  [[nodiscard]] NumaMask DefaultAffinity() const { return topology_.numa(); }
  [[nodiscard]] bool closest() const { return closest_; }
  [[nodiscard]] bool IsBetter(NumaMask a, NumaMask b) const;

 private:
  // Same number of pairs in sets of one size: comparing sums is comparing averages.
  [[nodiscard]] std::int64_t DistanceSum(NumaMask mask) const;

  const Topology& topology_;
  bool closest_;
};

}  // namespace numafit::policy
