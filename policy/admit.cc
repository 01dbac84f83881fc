#include "policy/admit.h"

#include <algorithm>
#include <utility>

#include "policy/device_manager/allocation.h"
#include "policy/device_manager/hints.h"
#include "policy/mutation.h"
#include "policy/topology_manager/policy.h"
#include "policy/topology_manager/scope.h"

namespace numafit::policy {
namespace {

using Plans = absl::InlinedVector<AllocationPlan, 4>;
using HintsOfAll = absl::InlinedVector<ResourceHints, 4>;

void AddTo(DeviceHolding& holding, int class_index, int count) {
  if (count == 0) return;
  const auto at =
      std::lower_bound(holding.begin(), holding.end(), class_index,
                       [](const ClassCount& item, int index) { return item.class_index < index; });
  if (at != holding.end() && at->class_index == class_index) {
    at->count += count;
  } else {
    holding.insert(at, {class_index, count});
  }
}

// One admission: walks the containers in kubelet order, and every pick that the kubelet may make.
class Admission {
 public:
  Admission(const Topology& topology, const Usage& usage, const Demand& demand,
            absl::FunctionRef<bool(const Outcome&)> visit)
      : topology_(topology), usage_(usage), demand_(demand), visit_(visit), state_(usage) {
    for (const ContainerDemand& container : demand.containers) {
      requests_.push_back(ContainerRequests(topology, container));
    }
  }

  void Run() {
    if (PodScope()) {
      const DeviceRequests pod = PodRequests(demand_, requests_);
      pod_merge_ = Ask(pod, /*use_reusable=*/false);
      if (Refuses(pod_merge_)) {
        Refuse(0, RefusalReason::kTopologyAffinityError, InTheWay(pod, false));
        return;
      }
    }
    Container(0);
  }

  // Whether a merge was asked after a pick among several.
  [[nodiscard]] bool asked_after_choice() const { return asked_after_choice_; }
  [[nodiscard]] bool intractable() const { return intractable_; }

 private:
  [[nodiscard]] bool PodScope() const {
    return topology_.kubelet().policy != TopologyPolicy::kNone &&
           topology_.kubelet().scope == TopologyScope::kPod;
  }

  HintsOfAll Hints(const DeviceRequests& requests, bool use_reusable) const {
    HintsOfAll hints;
    for (const DeviceRequest& request : requests) {
      hints.push_back(DeviceHints(topology_, state_, request, use_reusable));
    }
    return hints;
  }

  MergeResult Ask(const DeviceRequests& requests, bool use_reusable) {
    if (topology_.kubelet().policy == TopologyPolicy::kNone) return MergeNone();
    // Hint providers, in the kubelet's order: devices. (CPUs and memory have no static policy here:
    // they have no preference.)
    MergeResult result = Merge(topology_, Hints(requests, use_reusable));
    if (result.intractable) intractable_ = true;
    return result;
  }

  static bool Refuses(const MergeResult& merged) { return merged.intractable || !merged.admit; }

  // The resource that alone explains the refusal, if one does.
  std::string InTheWay(const DeviceRequests& requests, bool use_reusable) const {
    const HintsOfAll hints = Hints(requests, use_reusable);
    for (std::size_t i = 0; i < hints.size(); ++i) {
      if (hints[i].kind == ResourceHints::Kind::kImpossible ||
          Refuses(Merge(topology_, {&hints[i], 1}))) {
        return topology_.pools()[static_cast<std::size_t>(requests[i].pool)].resource;
      }
    }
    return "";
  }

  // The methods below return false when the visitor wants no more.

  bool Container(std::size_t index) {
    if (index == requests_.size()) return Emit(RefusalReason::kNone, -1, "");
    MergeResult merged = pod_merge_;
    if (!PodScope()) {
      if (choices_ > 0 && !requests_[index].empty() &&
          topology_.kubelet().policy != TopologyPolicy::kNone) {
        asked_after_choice_ = true;
      }
      merged = Ask(requests_[index], /*use_reusable=*/true);
      if (Refuses(merged)) {
        return Refuse(index, RefusalReason::kTopologyAffinityError,
                      InTheWay(requests_[index], true));
      }
    }
    Plans plans;
    for (const DeviceRequest& request : requests_[index]) {
      plans.push_back(PlanAllocation(topology_, state_, request, merged.hint.affinity));
      if (!plans.back().possible) {
        const auto& pool = topology_.pools()[static_cast<std::size_t>(request.pool)];
        return Refuse(index, RefusalReason::kUnexpectedAdmissionError, pool.resource);
      }
    }
    ContainerAllocation allocation;
    allocation.affinity = merged.hint.affinity;
    allocation.preferred = merged.hint.preferred;
    return Choose(index, plans, 0, allocation);
  }

  // Plays the plans of one container from `at` on, then the next containers.
  bool Choose(std::size_t index, const Plans& plans, std::size_t at,
              ContainerAllocation& allocation) {
    if (at == plans.size()) {
      allocations_.push_back(allocation);
      const bool go_on = Container(index + 1);
      allocations_.pop_back();
      return go_on;
    }
    const AllocationPlan& plan = plans[at];
    for (const ClassCount& item : plan.reused) Give(index, item, /*reused=*/true, +1, allocation);
    for (const ClassCount& item : plan.taken) Give(index, item, /*reused=*/false, +1, allocation);
    bool go_on = true;
    if (plan.choice.empty()) {
      go_on = Choose(index, plans, at + 1, allocation);
    } else {
      ++choices_;
      go_on = ForEachSplit(plan.choice, plan.chosen, [&](const auto& split) {
        GiveSplit(index, plan, split, +1, allocation);
        const bool more = Choose(index, plans, at + 1, allocation);
        GiveSplit(index, plan, split, -1, allocation);
        return more;
      });
      --choices_;
    }
    for (const ClassCount& item : plan.reused) Give(index, item, /*reused=*/true, -1, allocation);
    for (const ClassCount& item : plan.taken) Give(index, item, /*reused=*/false, -1, allocation);
    return go_on;
  }

  template <typename Split>
  void GiveSplit(std::size_t index, const AllocationPlan& plan, const Split& split, int sign,
                 ContainerAllocation& allocation) {
    for (std::size_t i = 0; i < split.size(); ++i) {
      if (split[i] == 0) continue;
      Give(index, {plan.choice[i].class_index, split[i]}, plan.choose_reusable, sign, allocation);
    }
  }

  // Books devices for the container (sign +1), or takes that back (-1).
  void Give(std::size_t index, ClassCount item, bool reused, int sign,
            ContainerAllocation& allocation) {
    const auto at = static_cast<std::size_t>(item.class_index);
    if (!reused) state_.taken[at] += sign * item.count;
    // An init container's devices are reusable from now on, those it re-used stay so; an app
    // container or a sidecar takes those that it re-used out of reach.
    if (IsInit(index)) {
      if (!reused) state_.reusable[at] += sign * item.count;
    } else if (reused) {
      state_.reusable[at] -= sign * item.count;
    }
    if (sign > 0) {
      AddTo(allocation.devices, item.class_index, item.count);
    } else {
      Drop(allocation.devices, item);
    }
  }

  static void Drop(DeviceHolding& holding, ClassCount item) {
    const auto at = std::find_if(holding.begin(), holding.end(), [&](const ClassCount& held) {
      return held.class_index == item.class_index;
    });
    at->count -= item.count;
    if (at->count == 0) holding.erase(at);
  }

  [[nodiscard]] bool IsInit(std::size_t index) const {
    const ContainerDemand::Kind kind = demand_.containers[index].kind;
    if (Mutated(Mutation::kNoReuse)) return false;
    if (Mutated(Mutation::kSidecarReuse) && kind == ContainerDemand::Kind::kSidecar) return true;
    return kind == ContainerDemand::Kind::kInit;
  }

  bool Refuse(std::size_t index, RefusalReason reason, const std::string& resource) {
    return Emit(reason, static_cast<int>(index), resource);
  }

  bool Emit(RefusalReason reason, int refused_container, const std::string& refused_resource) {
    Outcome outcome;
    outcome.admitted = reason == RefusalReason::kNone;
    outcome.reason = reason;
    outcome.refused_container = refused_container;
    outcome.refused_resource = refused_resource;
    outcome.containers = allocations_;
    for (std::size_t c = 0; c < state_.taken.size(); ++c) {
      const int count = state_.taken[c] - usage_.raw()[c];
      if (count > 0) outcome.held.push_back({static_cast<int>(c), count});
    }
    return visit_(outcome);
  }

  const Topology& topology_;
  const Usage& usage_;
  const Demand& demand_;
  absl::FunctionRef<bool(const Outcome&)> visit_;

  absl::InlinedVector<DeviceRequests, 4> requests_;  // by container
  MergeResult pod_merge_;
  DeviceState state_;
  std::vector<ContainerAllocation> allocations_;  // of the containers so far
  int choices_ = 0;                               // open choices on the way here
  bool asked_after_choice_ = false;
  bool intractable_ = false;
};

}  // namespace

std::string_view RefusalReasonName(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kNone:
      return "";
    case RefusalReason::kTopologyAffinityError:
      return "TopologyAffinityError";
    case RefusalReason::kUnexpectedAdmissionError:
      return "UnexpectedAdmissionError";
  }
  return "";
}

Verdict AdmitResult::verdict() const {
  if (truncated && !same_verdict) return Verdict::kUnknown;
  bool admits = false;
  bool refuses = false;
  for (const Outcome& outcome : outcomes) (outcome.admitted ? admits : refuses) = true;
  if (admits && refuses) return Verdict::kDepends;
  return admits ? Verdict::kAdmitted : Verdict::kRefused;
}

AdmitResult Admit(const Topology& topology, const Usage& usage, const Demand& demand,
                  int max_outcomes) {
  AdmitResult result;
  const auto visit = [&](const Outcome& outcome) {
    if (static_cast<int>(result.outcomes.size()) == max_outcomes) {
      result.truncated = true;
      return false;
    }
    result.outcomes.push_back(outcome);
    return true;
  };
  Admission admission(topology, usage, demand, visit);
  admission.Run();
  // Without enforcement a merge only says where to look first: counts decide.
  result.same_verdict = !Enforces(topology.kubelet().policy) || !admission.asked_after_choice();
  result.same_affinities = !admission.asked_after_choice();
  if (admission.intractable()) {
    result.truncated = true;
    result.same_verdict = false;
  }
  return result;
}

void ForEachOutcome(const Topology& topology, const Usage& usage, const Demand& demand,
                    absl::FunctionRef<bool(const Outcome&)> visit) {
  Admission(topology, usage, demand, visit).Run();
}

}  // namespace numafit::policy
