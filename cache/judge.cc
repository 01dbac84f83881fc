#include "cache/judge.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "cache/books.h"
#include "policy/admit.h"
#include "policy/requests.h"

namespace numafit::cache {
namespace {

using Now = NodeState::Now;
using Place = Now::Place;

// Walks every order in which the kubelet may admit the pending Pods and the new one.
//
// States are (who stands where, who holds what). The pending Pods alone are walked already
// (NodeState::now), so the walk starts by admitting the new Pod in each of those states and goes on
// with the Pods that still wait there. At most 2^n more states where orders commute; past
// kMaxStates per permitted final state the walk gives up.
class OrderWalk {
 public:
  OrderWalk(const NodeState& state, const policy::Demand& demand) : state_(state) {
    for (const auto& pending : state.pending) demands_.push_back(pending.get());
    demands_.push_back(&demand);
    // Pods that ask for the same may change places.
    std::map<std::string, int> classes;
    for (const policy::Demand* each : demands_) {
      classes_.push_back(
          classes.emplace(each->Fingerprint(), static_cast<int>(classes.size())).first->second);
    }
  }

  // Whether conditions 2 and 3 of judge.h hold.
  bool Commutes() {
    const std::size_t newcomer = demands_.size() - 1;
    for (const Now& now : state_.now) {
      for (std::size_t i = 0; i < newcomer; ++i) {
        if (now.places[i] == Place::kRefused) may_be_refused_.insert(i);
      }
    }
    std::set<Final> last;
    for (const Now& now : state_.now) {
      Now start = now;
      start.places.push_back(Place::kWaiting);
      start.held.emplace_back();
      const bool all_placed = std::none_of(now.places.begin(), now.places.end(), IsWaiting);
      if (!Step(start, newcomer, all_placed ? &last : nullptr)) return false;
    }
    while (!work_.empty()) {
      const Now now = std::move(work_.back());
      work_.pop_back();
      for (std::size_t i = 0; i < newcomer; ++i) {
        if (now.places[i] == Place::kWaiting && !Step(now, i, nullptr)) return false;
      }
    }
    return finals_ == last && raw_finals_ <= static_cast<std::size_t>(state_.max_states);
  }

 private:
  // What is in use, and (class, place, holding) of every Pod, sorted: equal = the same up to Pods
  // that ask for the same.
  using Final = std::pair<policy::Usage, std::vector<std::tuple<int, Place, policy::Holding>>>;
  using Seen = std::tuple<policy::Usage, std::vector<Place>, std::vector<policy::Holding>>;
  static constexpr std::size_t kStatesPerFinal = 64;

  static bool IsWaiting(Place place) { return place == Place::kWaiting; }

  const policy::AdmitResult& Admit(const policy::Usage& usage, std::size_t pod) {
    const auto key = std::make_pair(classes_[pod], usage);
    const auto found = answers_.find(key);
    if (found != answers_.end()) return found->second;
    return answers_.emplace(key, policy::Admit(*state_.topology, usage, *demands_[pod]))
        .first->second;
  }

  Final FinalOf(const Now& now) const {
    std::vector<std::size_t> order(now.places.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<policy::Holding> held = now.held;
    const auto key = [&](std::size_t i) { return std::tie(classes_[i], now.places[i], held[i]); };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    Final final_state;
    final_state.first = now.usage;
    // CPU ids that come to the same: by class of the Pods, who may change places.
    std::vector<policy::CpuSet*> owners;
    for (const std::size_t i : order) owners.push_back(&held[i].cpus);
    UseLowestCpus(*state_.topology, std::move(owners), final_state.first.compute().default_cpus);
    for (std::size_t i = 0; i < now.places.size(); ++i) {
      final_state.second.emplace_back(classes_[i], now.places[i], std::move(held[i]));
    }
    std::sort(final_state.second.begin(), final_state.second.end());
    return final_state;
  }

  // The kubelet admits `pod` in `now`. False when it may refuse one that it must not refuse.
  bool Step(const Now& now, std::size_t pod, std::set<Final>* finals) {
    const policy::AdmitResult& result = Admit(now.usage, pod);
    if (result.truncated) return false;
    for (const policy::Outcome& outcome : result.outcomes) {
      if (!outcome.admitted && may_be_refused_.count(pod) == 0) return false;
      Now next = now;
      next.places[pod] = outcome.admitted ? Place::kAdmitted : Place::kRefused;
      if (outcome.admitted) {
        next.held[pod] = AsOneContainer(outcome.held);
      }
      policy::Apply(*state_.topology, outcome, next.usage);
      if (finals != nullptr) finals->insert(FinalOf(next));
      if (!Visit(std::move(next))) return false;
    }
    return true;
  }

  // False when there are too many states to look at.
  bool Visit(Now next) {
    if (!seen_.emplace(next.usage, next.places, next.held).second) return true;
    if (seen_.size() > kStatesPerFinal * static_cast<std::size_t>(state_.max_states)) return false;
    if (std::none_of(next.places.begin(), next.places.end(), IsWaiting)) {
      ++raw_finals_;
      finals_.insert(FinalOf(next));
    } else {
      work_.push_back(std::move(next));
    }
    return true;
  }

  const NodeState& state_;
  std::vector<const policy::Demand*> demands_;
  std::vector<int> classes_;
  std::set<std::size_t> may_be_refused_;  // whatever the new Pod does
  std::map<std::pair<int, policy::Usage>, policy::AdmitResult> answers_;
  std::set<Seen> seen_;
  std::vector<Now> work_;
  std::set<Final> finals_;
  std::size_t raw_finals_ = 0;
};

// What the Pod gets does not depend on which of the node's possible states is true.
bool GetsTheSameInEveryState(const NodeState& state, const policy::Demand& demand) {
  std::vector<HoldingShape> first;
  for (const policy::Usage& usage : state.knowledge.usages) {
    const policy::AdmitResult result = policy::Admit(*state.topology, usage, demand);
    if (result.truncated) return false;
    std::vector<HoldingShape> shapes;
    for (const policy::Outcome& outcome : result.outcomes) {
      HoldingShape shape = ShapeOf(*state.topology, AsOneContainer(outcome.held));
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) {
        shapes.push_back(std::move(shape));
      }
    }
    if (first.empty()) first = shapes;
    if (!std::is_permutation(shapes.begin(), shapes.end(), first.begin(), first.end())) {
      return false;
    }
  }
  return true;
}

// A kubelet that wants the fewest NUMA nodes gives out one where one can be enough. How wide a
// larger request has to be depends on devices that counts leave out (unhealthy ones).
bool CountsProveAlignment(const policy::Topology& topology, const policy::Demand& demand) {
  const policy::TopologyPolicy policy = topology.kubelet().policy;
  if (policy != policy::TopologyPolicy::kRestricted) {
    return policy == policy::TopologyPolicy::kSingleNumaNode;
  }
  std::map<int, std::int64_t> asked;
  for (const policy::ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.devices) {
      if (const int pool = topology.FindPool(resource); pool >= 0) asked[pool] += count;
    }
  }
  return std::all_of(asked.begin(), asked.end(), [&](const auto& each) {
    const auto& pool = topology.pools()[static_cast<std::size_t>(each.first)];
    return topology.MinimalWidth(pool, each.second) == 1;
  });
}

}  // namespace

bool HoldsNothing(const policy::Topology& topology, const policy::Demand& demand) {
  if (topology.HasBooks() && policy::MayHaveOwnCpusAndMemory(topology, demand)) return false;
  for (const policy::ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.devices) {
      if (topology.FindPool(resource) >= 0) return false;
    }
  }
  return true;
}

policy::Judgement JudgeOnNode(const NodeState& state, const policy::Demand& demand,
                              const policy::ScoreStrategy* strategy) {
  policy::Judgement judgement;
  judgement.reason = state.barrier;
  if (!state.cooling.empty() && state.cooling.contains(demand.Fingerprint())) {
    judgement.reason = policy::Reason::kCoolingDown;
  }
  if (!judgement.fits()) return judgement;
  judgement = policy::Judge(*state.topology, state.knowledge, demand, strategy);
  const bool proven =
      state.exhaustive && (!state.counts_only || CountsProveAlignment(*state.topology, demand));
  if (!proven && judgement.alignment == policy::Alignment::kGuaranteed) {
    judgement.alignment = policy::Alignment::kPossible;
    if (demand.alignment == policy::AlignmentNeed::kGuaranteed && judgement.fits()) {
      judgement.reason = policy::Reason::kNotGuaranteed;
    }
  }
  if (!judgement.fits() || HoldsNothing(*state.topology, demand)) return judgement;
  const bool settled = state.leaving
                           ? state.pending.empty() && GetsTheSameInEveryState(state, demand)
                           : state.pending.empty() || OrderWalk(state, demand).Commutes();
  if (!settled) judgement.reason = policy::Reason::kSettling;
  return judgement;
}

}  // namespace numafit::cache
