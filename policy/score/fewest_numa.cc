#include "policy/score/fewest_numa.h"

#include <algorithm>

#include "policy/score/packing.h"

namespace numafit::policy {

int FewestNuma::Score(const Topology& topology, const Usage& before, const Demand& /*demand*/,
                      const Outcome& outcome) const {
  // One band per number of NUMA nodes, the same on every machine; 8 and more share the last.
  constexpr int kBands = 8;
  constexpr int kBand = kMaxScore / kBands;
  const int used = std::min(NumaNodesUsed(topology, outcome), kBands);
  const int fullness = FullnessAfter(topology, before, outcome);
  return (kBands - used) * kBand + fullness / kBands;
}

}  // namespace numafit::policy
