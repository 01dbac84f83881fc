// From a Pod to the question that is asked of every node: its demand and the strategy that ranks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "api/objects.h"
#include "api/resource_class.h"
#include "cache/demand.h"
#include "policy/demand.h"
#include "policy/score/score_strategy.h"

namespace numafit::extender {

// How Pods are read; from the configuration. A plain value.
struct PodRules {
  api::ResourceClasses classes;
  cache::DemandOptions demand;
  // Not null.
  const policy::ScoreStrategy* strategy = nullptr;
};

struct PodQuestion {
  policy::Demand demand;
  const policy::ScoreStrategy* strategy = nullptr;

  // Equal text = every node state answers the same.
  [[nodiscard]] std::string Key() const;
};

// InvalidArgument names the annotation or field and its value; the text is stable, because
// kube-scheduler shows it and a changing one makes the Pod retry itself.
absl::Status AskAboutPod(const api::Pod& pod, const PodRules& rules, PodQuestion* question);

}  // namespace numafit::extender
