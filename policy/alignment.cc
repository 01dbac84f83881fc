#include "policy/alignment.h"

#include <algorithm>

#include "policy/landing.h"
#include "policy/needs.h"
#include "policy/requests.h"
#include "policy/score/score_strategy.h"
#include "policy/unit_room.h"

namespace numafit::policy {
namespace {

// Outcomes looked at past those of Admit, to find one that is aligned and one that is not.
constexpr int kMostOutcomes = 4096;

// Score bands, lowest first: where devices may land apart is behind where they cannot, and a
// kubelet that enforces is before one that does not. The top band is the widest: most nodes are in
// it.
constexpr int kBandImpossible = 0;
constexpr int kBandPossible = 50'000;
constexpr int kBandPossibleEnforced = 125'000;
constexpr int kBandAligned = 200'000;
constexpr int kBandAlignedEnforced = 400'000;

// What the Pod's devices look like over everything that the kubelet may do.
struct Overview {
  Sightings landing;
  Sightings distinct;
};

Sightings Unknown() {
  return {.yes = false, .no = false, .unsure = true};
}

// Adds the admitting outcomes of one state.
void Look(const Topology& topology, const Usage& usage, const Demand& demand,
          const AdmitResult& result, Landing& landing, Overview& overview) {
  const bool want_landing = !landing.NotNeeded();
  const auto see = [&](const Outcome& outcome) {
    if (!outcome.admitted) return;
    if (want_landing) overview.landing.Add(landing.Of(outcome));
    if (demand.distinct_endpoints) {
      overview.distinct.Add(DistinctEndpoints(topology, demand, outcome));
    }
  };
  for (const Outcome& outcome : result.outcomes) see(outcome);
  if (!result.truncated) return;
  const auto decided = [&] {
    return (!want_landing || overview.landing.Decided()) &&
           (!demand.distinct_endpoints || overview.distinct.Decided());
  };
  int seen = 0;
  bool all = true;
  if (!decided()) {
    ForEachOutcome(topology, usage, demand, [&](const Outcome& outcome) {
      if (++seen > static_cast<int>(result.outcomes.size())) see(outcome);
      all = seen < kMostOutcomes;
      return all && !decided();
    });
  }
  if (!all) {
    overview.landing.Add(Unknown());
    overview.distinct.Add(Unknown());
  }
}

// Why does the kubelet refuse? `usage` is its state before the Pod.
Reason ReasonOfRefusal(const Topology& topology, const Usage& usage, const Demand& demand,
                       const Outcome& refusal) {
  const auto container = static_cast<std::size_t>(std::max(0, refusal.refused_container));
  const Requests requests = AllUnitRequests(topology, demand, container);
  const Usage empty(topology);
  const NumaMask machine = topology.numa();
  if (!HasRoom(topology, requests, machine, Counted::kHealthy, empty)) return Reason::kNeverFits;
  const bool enforces = Enforces(topology.kubelet().policy);
  const int width = enforces ? FewestNumaNodes(topology, requests) : machine.count();
  if (topology.kubelet().policy == TopologyPolicy::kSingleNumaNode && width > 1) {
    return Reason::kNeverFits;
  }
  if (!SomeNodesHaveRoom(topology, requests, width, Counted::kHealthy, empty)) {
    return Reason::kNeverFits;
  }
  const AdmitResult when_empty = Admit(topology, empty, demand);
  if (when_empty.verdict() == Verdict::kRefused) {
    // Also on an empty machine: by the kubelet's rules, or because the containers together are too
    // many.
    const Outcome& first = when_empty.outcomes.front();
    const auto at = static_cast<std::size_t>(std::max(0, first.refused_container));
    return HasRoom(topology, AllUnitRequests(topology, demand, at), machine, Counted::kFree,
                   UsageAtRefusal(topology, empty, first))
               ? Reason::kKubeletRefuses
               : Reason::kNeverFits;
  }
  const Usage now = UsageAtRefusal(topology, usage, refusal);
  if (!enforces || !HasRoom(topology, requests, machine, Counted::kFree, now)) {
    return Reason::kKubeletRefuses;
  }
  return SomeNodesHaveRoom(topology, requests, width, Counted::kFree, now)
             ? Reason::kKubeletRefuses
             : Reason::kNumaFragmented;
}

// The devices cannot land together now: could they on an empty machine?
Reason ReasonOfSplit(const Topology& topology, const Demand& demand, Landing& landing) {
  const Usage empty(topology);
  Overview overview;
  Look(topology, empty, demand, Admit(topology, empty, demand), landing, overview);
  return overview.landing.Verdict() == Alignment::kImpossible ? Reason::kNeverFits
                                                              : Reason::kNumaFragmented;
}

int BandedScore(const Topology& topology, Alignment alignment, int score) {
  const bool enforces = Enforces(topology.kubelet().policy);
  int low = enforces ? kBandAlignedEnforced : kBandAligned;
  int high = enforces ? kMaxScore + 1 : kBandAlignedEnforced;
  if (alignment == Alignment::kPossible) {
    low = enforces ? kBandPossibleEnforced : kBandPossible;
    high = enforces ? kBandAligned : kBandPossibleEnforced;
  } else if (alignment == Alignment::kImpossible) {
    low = kBandImpossible;
    high = kBandPossible;
  }
  return low + static_cast<int>(std::int64_t{score} * (high - 1 - low) / kMaxScore);
}

bool AsksForNothing(const Topology& topology, const Demand& demand) {
  if (topology.HasBooks() && MayHaveOwnCpusAndMemory(topology, demand)) return false;
  return std::all_of(
      demand.containers.begin(), demand.containers.end(),
      [&](const ContainerDemand& c) { return ContainerRequests(topology, c).empty(); });
}

// One question about one node, in steps.
class Judging {
 public:
  Judging(const Topology& topology, const NodeKnowledge& knowledge, const Demand& demand,
          const ScoreStrategy* strategy)
      : topology_(topology),
        knowledge_(knowledge),
        demand_(demand),
        strategy_(strategy),
        landing_(topology, demand) {}

  Judgement Run() {
    if (const std::string_view missing = MissingResource(topology_, demand_); !missing.empty()) {
      judgement_.reason = Reason::kNeverFits;
      judgement_.refused_resource = std::string(missing);
      return std::move(judgement_);
    }
    if (GetsDevicesOnlyWhenItStarts(topology_, demand_)) {
      judgement_.reason = Reason::kUnsupported;
      return std::move(judgement_);
    }
    AskKubelet();
    judgement_.reason = KubeletReason();
    if (judgement_.fits()) judgement_.reason = NeedReason();
    if (judgement_.fits() && strategy_ != nullptr) {
      judgement_.score = BandedScore(topology_, judgement_.alignment, std::max(0, score_));
    }
    return std::move(judgement_);
  }

 private:
  // Every state that the kubelet may be in.
  void AskKubelet() {
    for (const Usage& usage : knowledge_.usages) {
      AdmitResult result = Admit(topology_, usage, demand_);
      const Verdict verdict = result.verdict();
      admitted_ = admitted_ && verdict == Verdict::kAdmitted;
      some_state_admits_ = some_state_admits_ || verdict == Verdict::kAdmitted;
      unknown_ = unknown_ || verdict == Verdict::kUnknown;
      intractable_ = intractable_ || result.intractable;
      if (verdict == Verdict::kAdmitted) {
        Look(topology_, usage, demand_, result, landing_, overview_);
      }
      for (const Outcome& outcome : result.outcomes) {
        if (outcome.admitted) {
          Score(usage, outcome);
        } else if (!refusal_) {
          refusal_ = outcome;
          refusing_usage_ = usage;
        }
      }
      if (&usage == knowledge_.usages.data() ||
          (result.intractable && !judgement_.admission.intractable)) {
        judgement_.admission = std::move(result);
      }
    }
  }

  void Score(const Usage& usage, const Outcome& outcome) {
    if (strategy_ == nullptr) return;
    const int score = strategy_->Score(topology_, usage, demand_, outcome);
    score_ = score_ < 0 ? score : std::min(score_, score);
  }

  Reason KubeletReason() {
    if (refusal_) {
      judgement_.kubelet_reason = refusal_->reason;
      judgement_.refused_container = refusal_->refused_container;
      judgement_.refused_resource = refusal_->refused_resource;
      judgement_.memory_failure = refusal_->memory_failure;
    }
    if (AsksForNothing(topology_, demand_)) return Reason::kFits;
    if (intractable_) return Reason::kUnsupported;
    if (knowledge_.settling && topology_.OrderMatters()) {
      // What never fits does not have to be waited for.
      const Judgement empty = Judge(topology_, {{Usage(topology_)}, false}, demand_, nullptr);
      return empty.fits() ? Reason::kSettling : empty.reason;
    }
    if (unknown_ || (!admitted_ && some_state_admits_)) return Reason::kSettling;
    if (admitted_) return Reason::kFits;
    return ReasonOfRefusal(topology_, refusing_usage_, demand_, *refusal_);
  }

  // Precondition: the kubelet admits the Pod, whatever its state.
  Reason NeedReason() {
    if (knowledge_.settling) {
      if (!landing_.NotNeeded()) overview_.landing.unsure = true;
      if (demand_.distinct_endpoints) overview_.distinct.unsure = true;
    }
    if (demand_.distinct_endpoints) judgement_.distinct_endpoints = overview_.distinct.Verdict();
    if (!landing_.NotNeeded()) judgement_.alignment = overview_.landing.Verdict();
    if (demand_.alignment != AlignmentNeed::kPreferred) {
      if (judgement_.alignment == Alignment::kImpossible) {
        return ReasonOfSplit(topology_, demand_, landing_);
      }
      // Nothing aligned among the states that are known, and more that are not.
      if (knowledge_.settling && !landing_.NotNeeded() && !overview_.landing.yes) {
        return Reason::kSettling;
      }
    }
    if (judgement_.distinct_endpoints == Alignment::kImpossible) {
      return Reason::kEndpointsNotDistinct;
    }
    if (demand_.alignment == AlignmentNeed::kGuaranteed &&
        judgement_.alignment == Alignment::kPossible) {
      return Reason::kNotGuaranteed;
    }
    return Reason::kFits;
  }

  const Topology& topology_;
  const NodeKnowledge& knowledge_;
  const Demand& demand_;
  const ScoreStrategy* strategy_;
  Landing landing_;

  Judgement judgement_;
  Overview overview_;
  bool admitted_ = true;
  bool some_state_admits_ = false;
  bool unknown_ = false;
  bool intractable_ = false;
  std::optional<Outcome> refusal_;
  Usage refusing_usage_;
  int score_ = -1;  // the lowest of the outcomes
};

}  // namespace

Judgement Judge(const Topology& topology, const NodeKnowledge& knowledge, const Demand& demand,
                const ScoreStrategy* strategy) {
  return Judging(topology, knowledge, demand, strategy).Run();
}

}  // namespace numafit::policy
