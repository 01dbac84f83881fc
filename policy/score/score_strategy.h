// How nodes that fit are ranked. One strategy is one small file pair behind this interface.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "policy/admit.h"

namespace numafit::policy {

// Scores are integers 0..kMaxScore; later is better. kube-scheduler sees them scaled to 0..10.
inline constexpr int kMaxScore = 1'000'000;

// Stateless and thread-safe.
class ScoreStrategy {
 public:
  virtual ~ScoreStrategy() = default;

  // The name in configuration and in the annotation numafit.io/score-strategy.
  [[nodiscard]] virtual std::string_view Name() const = 0;

  // How good it is to let the Pod have `outcome` on this node. Precondition: outcome.admitted.
  // Returns 0..kMaxScore.
  [[nodiscard]] virtual int Score(const Topology& topology, const Usage& before,
                                  const Demand& demand, const Outcome& outcome) const = 0;
};

// Null when no strategy has this name. Known: most-allocated, least-allocated, fewest-numa.
// The objects live as long as the program.
[[nodiscard]] const ScoreStrategy* FindScoreStrategy(std::string_view name);
[[nodiscard]] std::vector<std::string_view> ScoreStrategyNames();

}  // namespace numafit::policy
