// Alignment: where do a container's accelerators and endpoints land, beyond what the kubelet
// enforces? (design 3)
#pragma once

#include <string_view>

#include "policy/admit.h"
#include "policy/demand.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// Ordered: later is better.
enum class Alignment {
  kImpossible,  // no pick that the kubelet may make is aligned
  kPossible,    // some are
  kGuaranteed,  // all are
  kNotNeeded,   // the Pod does not ask for accelerators and endpoints together
};
[[nodiscard]] std::string_view AlignmentName(Alignment alignment);

// The fixed reasons of the scheduler's answer (ux.md), plus kFits.
enum class Reason {
  kFits,
  kNumaFragmented,
  kNeverFits,
  kKubeletRefuses,
  kEndpointsNotDistinct,
  kNotGuaranteed,
  kSettling,
  kCoolingDown,
  kKeptForNominee,
  kNoReport,
  kStaleReport,
  kKubeletAway,
  kUnsupported,
};
// "numa-fragmented": the code in metrics, logs, JSON and docs.
[[nodiscard]] std::string_view ReasonCode(Reason reason);
// "numafit: enough is free but not together on one NUMA node": stable, without numbers.
[[nodiscard]] std::string_view ReasonText(Reason reason);

struct Judgement {
  Reason reason = Reason::kFits;
  Alignment alignment = Alignment::kNotNeeded;
  // Whether n endpoint tokens are n different endpoints: only meaningful when asked for.
  Alignment distinct_endpoints = Alignment::kNotNeeded;
  // Finer internal score, 0..kMaxScore, only meaningful when reason is kFits. Later is better.
  int score = 0;
  // The first refusing outcome's details, for explanations.
  RefusalReason kubelet_reason = RefusalReason::kNone;
  int refused_container = -1;
  std::string refused_resource;
  MemoryAllocation::Outcome memory_failure = MemoryAllocation::Outcome::kAllocated;
  // Of the first usage; where some are intractable, of the first of these.
  AdmitResult admission;

  [[nodiscard]] bool fits() const { return reason == Reason::kFits; }
};

// What is known of a node: the kubelet's state is one of `usages` (never empty).
// `settling` = there are more possibilities than are kept.
struct NodeKnowledge {
  std::vector<Usage> usages;
  bool settling = false;

  friend bool operator==(const NodeKnowledge&, const NodeKnowledge&) = default;
};

class ScoreStrategy;  // policy/score/score_strategy.h

// The one verdict that extender, CLI and capacity share: the kubelet admits in every possible
// state, and the alignment need is met. `strategy` may be null (no score).
[[nodiscard]] Judgement Judge(const Topology& topology, const NodeKnowledge& knowledge,
                              const Demand& demand, const ScoreStrategy* strategy);

}  // namespace numafit::policy
