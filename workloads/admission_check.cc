#include "workloads/admission_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "workloads/cause.h"

namespace numafit::workloads {
namespace {

constexpr std::string_view kPending = "Pending";
constexpr std::string_view kReady = "Ready";
constexpr std::string_view kRetry = "Retry";

// Of ours on the Workload, those in this state.
std::vector<const api::AdmissionCheckState*> OursOn(const QuotaHolder& holder,
                                                    const std::set<std::string>& checks,
                                                    std::string_view state) {
  std::vector<const api::AdmissionCheckState*> ours;
  for (const api::AdmissionCheckState& check : holder.checks) {
    if (checks.contains(check.name) && check.state == state) ours.push_back(&check);
  }
  return ours;
}

enum class Turn {
  kNotOurs,   // nothing for us to say, or Kueue is taking its quota back
  kWaiting,   // for us
  kInFlight,  // its Pods are on their way, or will be without a further word of ours
};

Turn TurnOf(const QuotaHolder& holder, const std::set<std::string>& checks) {
  if (holder.admitted) return Turn::kInFlight;
  const std::size_t ready = OursOn(holder, checks, kReady).size();
  const std::size_t pending = OursOn(holder, checks, kPending).size();
  const auto all = std::count_if(holder.checks.begin(), holder.checks.end(),
                                 [&](const auto& check) { return checks.contains(check.name); });
  if (all == 0 || ready + pending != static_cast<std::size_t>(all)) return Turn::kNotOurs;
  return pending > 0 ? Turn::kWaiting : Turn::kInFlight;
}

std::int64_t DevicesOf(const PodsToPlace& kind) {
  std::int64_t sum = 0;
  for (const policy::ContainerDemand& container : kind.demand->containers) {
    for (const auto& [resource, count] : container.devices) sum += count;
  }
  return sum;
}

class Decision {
 public:
  Decision(const CheckInputs& inputs, cache::WhatIf& plan, const CheckOptions& options)
      : inputs_(inputs), plan_(plan), options_(options) {}

  std::vector<CheckVerdict> Run() {
    std::vector<const QuotaHolder*> waiting;
    std::vector<const QuotaHolder*> in_flight;
    for (const QuotaHolder& holder : inputs_.holders) {
      const Turn turn = TurnOf(holder, inputs_.checks);
      if (turn == Turn::kInFlight) in_flight.push_back(&holder);
      if (turn == Turn::kWaiting) waiting.push_back(&holder);
    }
    if (waiting.empty()) return {};
    const auto before = [](const QuotaHolder* a, const QuotaHolder* b) {
      return std::tuple(-std::int64_t{a->priority}, a->quota_since, a->namespace_, a->name) <
             std::tuple(-std::int64_t{b->priority}, b->quota_since, b->namespace_, b->name);
    };
    std::sort(in_flight.begin(), in_flight.end(), before);
    std::sort(waiting.begin(), waiting.end(), before);
    for (const QuotaHolder* holder : in_flight) Promise(*holder);
    std::vector<CheckVerdict> verdicts;
    for (const QuotaHolder* holder : waiting) Judge(*holder, verdicts);
    return verdicts;
  }

 private:
  // Pods of one Workload that are alike, and what became of them.
  struct Part {
    const PodsToPlace* kind = nullptr;
    cache::WhatIf::Answer answer;
    [[nodiscard]] bool placed() const { return answer.placed == kind->pods; }
  };

  // The nodes that the Pods may go to.
  [[nodiscard]] api::StringMap LabelsFor(const PodsToPlace& kind) const {
    api::StringMap labels = kind.node_selector;
    for (const std::string& name : kind.flavors) {
      const auto flavor = inputs_.flavors.find(name);
      if (flavor == inputs_.flavors.end()) continue;
      for (const auto& [key, value] : flavor->second.node_labels) labels.emplace(key, value);
    }
    return labels;
  }

  Part Place(const PodsToPlace& kind) {
    Part part{.kind = &kind, .answer = {}};
    if (kind.demand == nullptr) {
      part.answer.placed = kind.pods;
      return part;
    }
    const api::StringMap labels = LabelsFor(kind);
    part.answer = plan_.Place(*kind.demand, kind.pods, [&](std::string_view node) {
      return inputs_.nodes.Allows(node, labels);
    });
    if (!part.placed()) {
      // Nodes that offer the devices and that the fleet has never heard of.
      part.answer.unknown += inputs_.nodes.CountUnreported(inputs_.fleet, labels, *kind.demand);
    }
    return part;
  }

  // The largest Pods first: small ones find room between them.
  std::vector<Part> PlaceAll(const QuotaHolder& holder) {
    std::vector<const PodsToPlace*> kinds;
    for (const PodsToPlace& kind : holder.to_place) kinds.push_back(&kind);
    std::stable_sort(kinds.begin(), kinds.end(), [](const auto* a, const auto* b) {
      return (a->demand == nullptr ? 0 : DevicesOf(*a)) >
             (b->demand == nullptr ? 0 : DevicesOf(*b));
    });
    std::vector<Part> parts;
    parts.reserve(kinds.size());
    for (const PodsToPlace* kind : kinds) parts.push_back(Place(*kind));
    return parts;
  }

  void Promise(const QuotaHolder& holder) {
    for (const Part& part : PlaceAll(holder)) promised_pods_ += part.kind->pods;
    promised_workloads_ += holder.to_place.empty() ? 0 : 1;
    plan_.Keep();
  }

  void Judge(const QuotaHolder& holder, std::vector<CheckVerdict>& verdicts) {
    const std::vector<Part> parts = PlaceAll(holder);
    const auto lacking =
        std::find_if(parts.begin(), parts.end(), [](const Part& part) { return !part.placed(); });
    std::string_view state = kReady;
    std::string message;
    if (lacking == parts.end()) {
      message = "every Pod finds a place";
      for (const Part& part : parts) {
        if (part.kind->demand != nullptr) continue;
        message +=
            fmt::format("; PodSet {} is not judged: {}", part.kind->pod_set, part.kind->problem);
      }
    } else if (options_.admit_unjudged && lacking->answer.unknown > 0) {
      message = fmt::format("let in unjudged: {}", Lack(*lacking));
    } else {
      state = kPending;
      message = Lack(*lacking);
    }
    if (state == kReady) {
      plan_.Keep();
      for (const Part& part : parts) promised_pods_ += part.kind->pods;
      ++promised_workloads_;
    } else {
      plan_.Undo();
    }
    for (const api::AdmissionCheckState* check : OursOn(holder, inputs_.checks, kPending)) {
      verdicts.push_back(VerdictOn(holder, *check, state, message));
    }
  }

  [[nodiscard]] CheckVerdict VerdictOn(const QuotaHolder& holder,
                                       const api::AdmissionCheckState& check,
                                       std::string_view state, const std::string& message) const {
    const std::int64_t waits = inputs_.now - std::max(holder.quota_since, check.since);
    if (state == kPending && options_.retry_after > 0 && waits >= options_.retry_after) {
      state = kRetry;
    }
    CheckVerdict verdict;
    verdict.workload_uid = holder.uid;
    verdict.check = check.name;
    verdict.state = std::string(state);
    verdict.message = message;
    verdict.is_new = check.state != state;
    verdict.since = verdict.is_new ? inputs_.now : check.since;
    return verdict;
  }

  // What is true of such a Pod now, nobody else's promises counted. Once per kind.
  const Finding& FindingAbout(const PodsToPlace& kind) {
    const api::StringMap labels = LabelsFor(kind);
    std::string key = kind.demand->Fingerprint();
    for (const auto& [name, value] : labels) key += fmt::format("\n{}={}", name, value);
    const auto [entry, is_new] = findings_.try_emplace(std::move(key));
    if (is_new) {
      entry->second = LookAtFleet(inputs_.fleet, *kind.demand, "", [&](std::string_view node) {
        return inputs_.nodes.Allows(node, labels);
      });
    }
    return entry->second;
  }

  // "1 of 4 Pods of PodSet main would find a place: wants 4 rdma; …"
  [[nodiscard]] std::string Lack(const Part& part) {
    const PodsToPlace& kind = *part.kind;
    std::string text = fmt::format("{} of {} Pods of PodSet {} would find a place",
                                   part.answer.placed, kind.pods, kind.pod_set);
    const api::StringMap labels = LabelsFor(kind);
    Blocked blocked;
    blocked.pod_set = kind.pod_set;
    blocked.demand = kind.demand;
    const Finding finding =
        LookAtFleet(inputs_.fleet, *kind.demand, "",
                    [&](std::string_view node) { return inputs_.nodes.Allows(node, labels); });
    const bool would_alone = finding.fitting > 0;
    if (!would_alone && finding.nodes > 0) {
      text += fmt::format(": {}: {}", CauseName(finding.cause), WhyText(finding, blocked));
    } else if (finding.nodes == 0) {
      text += ": no node that they may go to has an inventory";
    } else if (promised_pods_ > 0) {
      text += fmt::format("; {} Pods of {} other Workloads are on their way", promised_pods_,
                          promised_workloads_);
    }
    if (part.answer.unknown > 0) {
      text += fmt::format("; {} nodes cannot be judged", part.answer.unknown);
    }
    if (part.answer.settling > 0) {
      text += fmt::format("; {} nodes are just taking Pods in", part.answer.settling);
    }
    return text;
  }

  const CheckInputs& inputs_;
  cache::WhatIf& plan_;
  const CheckOptions& options_;
  std::map<std::string, Finding> findings_;
  std::int64_t promised_pods_ = 0;
  int promised_workloads_ = 0;
};

}  // namespace

std::vector<CheckVerdict> Decide(const CheckInputs& inputs, cache::WhatIf& plan,
                                 const CheckOptions& options) {
  return Decision(inputs, plan, options).Run();
}

}  // namespace numafit::workloads
