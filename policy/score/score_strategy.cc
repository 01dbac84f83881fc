#include "policy/score/score_strategy.h"

#include <array>

#include "policy/score/fewest_numa.h"
#include "policy/score/least_allocated.h"
#include "policy/score/most_allocated.h"

namespace numafit::policy {
namespace {

std::array<const ScoreStrategy*, 3> Strategies() {
  static const MostAllocated most_allocated;
  static const LeastAllocated least_allocated;
  static const FewestNuma fewest_numa;
  return {&most_allocated, &least_allocated, &fewest_numa};
}

}  // namespace

const ScoreStrategy* FindScoreStrategy(std::string_view name) {
  for (const ScoreStrategy* strategy : Strategies()) {
    if (strategy->Name() == name) return strategy;
  }
  return nullptr;
}

std::vector<std::string_view> ScoreStrategyNames() {
  std::vector<std::string_view> names;
  for (const ScoreStrategy* strategy : Strategies()) names.push_back(strategy->Name());
  return names;
}

}  // namespace numafit::policy
