// Spreads: takes the emptiest NUMA nodes and nodes.
#pragma once

#include "policy/score/score_strategy.h"

namespace numafit::policy {

class LeastAllocated final : public ScoreStrategy {
 public:
  [[nodiscard]] std::string_view Name() const override { return "least-allocated"; }
  [[nodiscard]] int Score(const Topology& topology, const Usage& before, const Demand& demand,
                          const Outcome& outcome) const override;
};

}  // namespace numafit::policy
