#include "policy/score/most_allocated.h"

#include "policy/score/packing.h"

namespace numafit::policy {

int MostAllocated::Score(const Topology& topology, const Usage& before, const Demand& /*demand*/,
                         const Outcome& outcome) const {
  return FullnessAfter(topology, before, outcome);
}

}  // namespace numafit::policy
