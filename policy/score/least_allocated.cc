#include "policy/score/least_allocated.h"

#include "policy/score/packing.h"

namespace numafit::policy {

int LeastAllocated::Score(const Topology& topology, const Usage& before, const Demand& /*demand*/,
                          const Outcome& outcome) const {
  return kMaxScore - FullnessAfter(topology, before, outcome);
}

}  // namespace numafit::policy
