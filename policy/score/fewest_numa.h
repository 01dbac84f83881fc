// The fewest NUMA nodes; among equals the fullest.
#pragma once

#include "policy/score/score_strategy.h"

namespace numafit::policy {

class FewestNuma final : public ScoreStrategy {
 public:
  [[nodiscard]] std::string_view Name() const override { return "fewest-numa"; }
  [[nodiscard]] int Score(const Topology& topology, const Usage& before, const Demand& demand,
                          const Outcome& outcome) const override;
};

}  // namespace numafit::policy
