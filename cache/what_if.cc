#include "cache/what_if.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/fleet_impl.h"
#include "cache/judge.h"
#include "cache/possible_states.h"

namespace numafit::cache {
namespace {

using policy::Reason;

// Writers are let in between so many nodes.
constexpr int kChunk = 512;

// A node with Pods that do not exist.
struct Copy {
  PossibleStates states;
  NodeState shown;
};

struct Judged {
  Reason reason = Reason::kFits;
  int score = 0;
};

Judged JudgeState(const NodeState& state, const policy::Demand& demand,
                  const policy::ScoreStrategy* strategy) {
  const policy::Judgement judgement = JudgeOnNode(state, demand, strategy);
  return {judgement.reason, judgement.score};
}

void Count(Reason reason, WhatIf::Answer& answer) {
  switch (reason) {
    case Reason::kNoReport:
    case Reason::kStaleReport:
    case Reason::kKubeletAway:
    case Reason::kUnsupported:
      ++answer.unknown;
      break;
    case Reason::kSettling:
    case Reason::kCoolingDown:
      ++answer.settling;
      break;
    default:
      break;
  }
}

class FleetCopy final : public WhatIf {
 public:
  FleetCopy(const FleetImpl& fleet, const policy::ScoreStrategy* strategy)
      : fleet_(fleet), strategy_(strategy) {}

  Answer Place(const policy::Demand& demand, int pods,
               absl::FunctionRef<bool(std::string_view node)> allows) override {
    Answer answer;
    Queue best;
    bool takes_any = false;
    const int nodes = static_cast<int>(fleet_.size());
    Known& known = known_[demand.Fingerprint()];
    for (int begin = 0; begin < nodes; begin += kChunk) {
      const Fleet::ReadGuard guard(fleet_);
      for (int index = begin; index < std::min(nodes, begin + kChunk); ++index) {
        if (!allows(fleet_.NodeName(guard, index))) continue;
        const NodeState& state = StateOf(guard, index);
        const Judged judged = Judge(state, demand, known);
        Count(judged.reason, answer);
        if (judged.reason != Reason::kFits) continue;
        takes_any = takes_any || HoldsNothing(*state.topology, demand);
        best.emplace(judged.score, -index);
      }
    }
    if (takes_any) answer.placed = pods;
    while (answer.placed < pods && !best.empty()) {
      const int index = -best.top().second;
      best.pop();
      if (PutOn(index, demand)) ++answer.placed;
      const Judged again = JudgeState(copies_.at(index)->shown, demand, strategy_);
      if (again.reason == Reason::kFits) best.emplace(again.score, -index);
    }
    return answer;
  }

  void Keep() override { undo_.clear(); }

  void Undo() override {
    for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) {
      if (step->second == nullptr) {
        copies_.erase(step->first);
      } else {
        copies_[step->first] = std::move(step->second);
      }
    }
    undo_.clear();
  }

 private:
  // Score, then the lower index.
  using Queue = std::priority_queue<std::pair<int, int>>;
  using Known = absl::flat_hash_map<std::uint64_t, Judged>;  // by the id of a state

  const NodeState& StateOf(const Fleet::ReadGuard& guard, int index) const {
    const auto copy = copies_.find(index);
    return copy == copies_.end() ? *fleet_.State(guard, index) : copy->second->shown;
  }

  // States of copies have no id.
  Judged Judge(const NodeState& state, const policy::Demand& demand, Known& known) const {
    if (state.id == 0) return JudgeState(state, demand, strategy_);
    const auto [entry, is_new] = known.try_emplace(state.id);
    if (is_new) entry->second = JudgeState(state, demand, strategy_);
    return entry->second;
  }

  // False: the node has changed since it was judged, and has no room any more.
  bool PutOn(int index, const policy::Demand& demand) {
    std::shared_ptr<const Copy>& now = copies_[index];
    std::shared_ptr<const Copy> before = now;
    if (now == nullptr) {
      auto [states, shown] = fleet_.CopyNode(index);
      if (!states) {
        // Its inventory has gone.
        states.emplace(shown.topology, PossibleStates::Limits());
      }
      now = std::make_shared<const Copy>(Copy{*std::move(states), std::move(shown)});
      undo_.emplace_back(index, nullptr);
      if (JudgeState(now->shown, demand, strategy_).reason != Reason::kFits) return false;
    } else {
      undo_.emplace_back(index, before);
    }
    Copy next = *now;
    next.states.ShowAdmitted(
        next.states.AddWaiting(std::make_shared<const policy::Demand>(demand)));
    NodeState shown = next.states.Describe();
    shown.barrier = next.shown.barrier;
    shown.counts_only = next.shown.counts_only;
    shown.cooling = next.shown.cooling;
    next.shown = std::move(shown);
    now = std::make_shared<const Copy>(std::move(next));
    return true;
  }

  const FleetImpl& fleet_;
  const policy::ScoreStrategy* const strategy_;
  absl::flat_hash_map<int, std::shared_ptr<const Copy>> copies_;
  // Newest last: what was there before; null: nothing.
  std::vector<std::pair<int, std::shared_ptr<const Copy>>> undo_;
  absl::flat_hash_map<std::string, Known> known_;  // by demand
};

}  // namespace

std::unique_ptr<WhatIf> FleetImpl::MakeWhatIf(const policy::ScoreStrategy* strategy) const {
  return std::make_unique<FleetCopy>(*this, strategy);
}

FleetImpl::NodeCopy FleetImpl::CopyNode(int index) const {
  const api::MutexLock lock(write_);
  const NodeEntry& entry = nodes_[static_cast<std::size_t>(index)];
  NodeCopy copy;
  copy.states = entry.ledger.states();
  copy.shown = Describe(entry, entry.ledger.Describe());
  return copy;
}

}  // namespace numafit::cache
