// Packs: fills NUMA nodes that are in use before it breaks others.
#pragma once

#include "policy/score/score_strategy.h"

namespace numafit::policy {

class MostAllocated final : public ScoreStrategy {
 public:
  [[nodiscard]] std::string_view Name() const override { return "most-allocated"; }
  [[nodiscard]] int Score(const Topology& topology, const Usage& before, const Demand& demand,
                          const Outcome& outcome) const override;
};

}  // namespace numafit::policy
