#include "extender/pod_question.h"

#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace numafit::extender {

std::string PodQuestion::Key() const {
  std::string key = demand.Fingerprint();
  key.push_back('\n');
  key.append(strategy->Name());
  return key;
}

absl::Status AskAboutPod(const api::Pod& pod, const PodRules& rules, PodQuestion* question) {
  absl::StatusOr<policy::Demand> demand = cache::DemandFromPod(pod, rules.classes, rules.demand);
  if (!demand.ok()) return demand.status();
  question->demand = *std::move(demand);
  question->strategy = rules.strategy;
  const auto it = pod.metadata.annotations.find("numafit.io/score-strategy");
  if (it == pod.metadata.annotations.end()) return absl::OkStatus();
  question->strategy = policy::FindScoreStrategy(it->second);
  if (question->strategy != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("annotation numafit.io/score-strategy: \"{}\" is not one of {}", it->second,
                  fmt::join(policy::ScoreStrategyNames(), ", ")));
}

}  // namespace numafit::extender
