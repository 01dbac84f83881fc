#include "workloads/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "cache/explain.h"
#include "cache/free_devices.h"
#include "cache/judge.h"
#include "workloads/device_totals.h"

namespace numafit::workloads {
namespace {

using policy::Reason;

// Filter calls are let in between so many nodes.
constexpr std::size_t kChunk = 512;

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::binary_search(names.begin(), names.end(), name);
}

// What one state of a node says about the demand.
struct StateFacts {
  Reason reason = Reason::kFits;
  bool could_when_empty = false;
  bool has_accelerators = false;  // as many as wanted are free, by count
  bool has_endpoints = false;
  bool is_judged = false;  // that it takes the Pod or not is known
  struct Free {
    std::int64_t total = 0;
    cache::FreeTogether together;
  };
  std::vector<Free> free;  // by wanted resource
};

// Nobody can say, or not yet.
bool IsUnknown(Reason reason) {
  switch (reason) {
    case Reason::kNoReport:
    case Reason::kStaleReport:
    case Reason::kKubeletAway:
    case Reason::kSettling:
    case Reason::kUnsupported:
      return true;
    default:
      return false;
  }
}

std::string Wanted(const Finding& finding) {
  std::string text;
  for (const ResourceNumbers& each : finding.resources) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", each.wanted,
                        cache::ShortName(each.resource));
  }
  return text;
}

// The resource that the cause is about, with its numbers.
std::string Lack(const Finding& finding, bool endpoint) {
  const ResourceNumbers* lacking = nullptr;
  for (const ResourceNumbers& each : finding.resources) {
    if (each.endpoint != endpoint) continue;
    if (lacking == nullptr ||
        each.wanted - each.best_numa_free > lacking->wanted - lacking->best_numa_free) {
      lacking = &each;
    }
  }
  if (lacking == nullptr) return "";
  const std::string name = cache::ShortName(lacking->resource);
  if (lacking->best_numa_node.empty()) {
    return fmt::format("wants {} {}; none is free", lacking->wanted, name);
  }
  const std::string place =
      lacking->best_numa < 0
          ? lacking->best_numa_node
          : fmt::format("{} NUMA {}", lacking->best_numa_node, lacking->best_numa);
  return fmt::format("wants {} {}; {} free at most on one NUMA node ({}), {} free in all",
                     lacking->wanted, name, lacking->best_numa_free, place, lacking->free);
}

}  // namespace

// What there is to know of all nodes for one demand, which outlives it.
class FleetSurvey {
 public:
  FleetSurvey(const cache::Fleet& fleet, const policy::Demand& demand)
      : fleet_(fleet), demand_(demand) {
    for (const bool endpoint : {false, true}) {
      for (const auto& [resource, count] : DeviceTotals(demand)) {
        if (Contains(demand.endpoints, resource) != endpoint) continue;
        ResourceNumbers& numbers = resources_.emplace_back();
        numbers.resource = resource;
        numbers.endpoint = endpoint;
        numbers.wanted = count;
      }
    }
  }

  // Visits every node that `looks_at`; none: all.
  void Run(const std::function<bool(std::string_view)>& looks_at = {}) {
    const std::size_t nodes = fleet_.size();
    for (std::size_t begin = 0; begin < nodes; begin += kChunk) {
      const cache::Fleet::ReadGuard guard(fleet_);
      for (std::size_t i = begin; i < std::min(nodes, begin + kChunk); ++i) {
        const int index = static_cast<int>(i);
        if (looks_at && !looks_at(fleet_.NodeName(guard, index))) continue;
        See(fleet_.NodeName(guard, index), *fleet_.State(guard, index));
      }
    }
    if (!nearest_.empty()) nearest_answer_ = LookAt(nearest_).answer;
  }

  // After Run, as often as need be. A pinned node is looked at as it is now.
  [[nodiscard]] Finding Result(const std::string& pinned_node) {
    Finding finding;
    finding.resources = resources_;
    finding.nodes = nodes_;
    finding.fitting = fitting_;
    finding.nearest = nearest_;
    finding.nearest_answer = nearest_answer_;
    finding.cause = CauseOfCounts();
    if (pinned_node.empty()) return finding;
    finding.pinned = pinned_node;
    const OneNode pinned = LookAt(pinned_node);
    finding.pinned_answer = pinned.answer;
    if (IsUnknown(pinned.reason)) {
      finding.cause = Cause::kStaleData;
    } else if (pinned.reason == Reason::kFits) {
      finding.cause = Cause::kOther;
    } else if (fitting_ > 0) {
      finding.cause = Cause::kPinnedNodeFull;
    }
    return finding;
  }

 private:
  struct OneNode {
    Reason reason = Reason::kNoReport;
    std::string answer = "not in the inventory";
  };
  [[nodiscard]] OneNode LookAt(const std::string& node) const {
    const cache::Fleet::ReadGuard guard(fleet_);
    const int index = fleet_.FindNode(guard, node, -1);
    if (index < 0) return {};
    const cache::NodeState& state = *fleet_.State(guard, index);
    const policy::Judgement judgement = cache::JudgeOnNode(state, demand_, nullptr);
    return {state.HasInventory() ? judgement.reason : Reason::kNoReport,
            cache::AnswerOf(state, demand_, judgement)};
  }

  const StateFacts& FactsOf(const cache::NodeState& state) {
    std::unique_ptr<StateFacts>& known = states_[state.id];
    if (known != nullptr) return *known;
    known = std::make_unique<StateFacts>();
    known->reason = cache::JudgeOnNode(state, demand_, nullptr).reason;
    known->could_when_empty = CouldWhenEmpty(state);
    known->has_accelerators = known->has_endpoints = true;
    // Where devices lie may not be known and their number be known all the same.
    const bool settling = known->reason == Reason::kSettling;
    for (const ResourceNumbers& wanted : resources_) {
      const int pool = state.topology->FindPool(wanted.resource);
      StateFacts::Free free;
      std::int64_t countable = 0;
      if (pool >= 0) {
        const cache::FreeCount total = cache::FreeDevices(state, pool).total;
        free.total = total.at_least;
        free.together = cache::MostOnOneNumaNode(state, pool);
        countable = settling ? total.at_most : total.at_least;
      }
      if (countable < wanted.wanted) {
        (wanted.endpoint ? known->has_endpoints : known->has_accelerators) = false;
      }
      known->free.push_back(free);
    }
    known->is_judged = !IsUnknown(known->reason) ||
                       (settling && !(known->has_accelerators && known->has_endpoints));
    return *known;
  }

  bool CouldWhenEmpty(const cache::NodeState& state) {
    const auto [entry, is_new] = when_empty_.try_emplace(state.topology.get(), false);
    if (is_new) {
      cache::NodeState empty;
      empty.topology = state.topology;
      empty.knowledge.usages.emplace_back(*state.topology);
      const Reason reason = cache::JudgeOnNode(empty, demand_, nullptr).reason;
      entry->second = reason == Reason::kFits;
    }
    return entry->second;
  }

  void See(std::string_view name, const cache::NodeState& state) {
    if (!state.HasInventory()) return;
    ++nodes_;
    const StateFacts& facts = FactsOf(state);
    for (std::size_t i = 0; i < resources_.size(); ++i) Count(name, facts.free[i], resources_[i]);
    if (facts.reason == Reason::kFits) {
      ++fitting_;
    } else if (facts.reason == Reason::kCoolingDown) {
      ++refusing_;
    }
    if (facts.could_when_empty) {
      ++capable_;
      if (facts.is_judged) {
        ++judged_;
        with_accelerators_ += facts.has_accelerators ? 1 : 0;
        with_both_ += facts.has_accelerators && facts.has_endpoints ? 1 : 0;
      }
    }
    Nearest(name, facts);
  }

  static void Count(std::string_view name, const StateFacts::Free& free, ResourceNumbers& numbers) {
    numbers.free += free.total;
    if (free.together.count <= numbers.best_numa_free) return;
    numbers.best_numa_free = free.together.count;
    numbers.best_numa_node = name;
    numbers.best_numa = free.together.numa;
  }

  // One that fits, else one that could and lacks least.
  void Nearest(std::string_view name, const StateFacts& facts) {
    std::int64_t lacks = 0;
    for (std::size_t i = 0; i < resources_.size(); ++i) {
      lacks += std::max<std::int64_t>(0, resources_[i].wanted - facts.free[i].total);
    }
    const auto rank = std::make_tuple(facts.reason != Reason::kFits, !facts.could_when_empty,
                                      IsUnknown(facts.reason), lacks, name);
    if (!nearest_.empty() &&
        rank >= std::make_tuple(nearest_misfit_, nearest_incapable_, nearest_unknown_,
                                nearest_lacks_, std::string_view(nearest_))) {
      return;
    }
    nearest_misfit_ = std::get<0>(rank);
    nearest_incapable_ = std::get<1>(rank);
    nearest_unknown_ = std::get<2>(rank);
    nearest_lacks_ = lacks;
    nearest_ = name;
  }

  [[nodiscard]] Cause CauseOfCounts() const {
    if (fitting_ > 0) return Cause::kOther;
    if (capable_ == 0) return nodes_ == 0 ? Cause::kStaleData : Cause::kNeverFits;
    if (judged_ == 0) return Cause::kStaleData;
    if (with_accelerators_ == 0) return Cause::kAcceleratorsExhausted;
    if (with_both_ == 0) return Cause::kEndpointsExhausted;
    // Enough by count, and their kubelets have just said no to just such Pods.
    if (refusing_ == judged_) return Cause::kKubeletRefused;
    return Cause::kNumaFragmented;
  }

  const cache::Fleet& fleet_;
  const policy::Demand& demand_;
  std::vector<ResourceNumbers> resources_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<StateFacts>> states_;
  absl::flat_hash_map<const policy::Topology*, bool> when_empty_;
  int nodes_ = 0;
  int fitting_ = 0;
  int refusing_ = 0;
  int capable_ = 0;  // could take it when empty
  int judged_ = 0;   // of these, those about which something is known
  int with_accelerators_ = 0;
  int with_both_ = 0;
  std::string nearest_;
  std::string nearest_answer_;
  bool nearest_misfit_ = true;
  bool nearest_incapable_ = true;
  bool nearest_unknown_ = true;
  std::int64_t nearest_lacks_ = 0;
};

std::string_view CauseName(Cause cause) {
  switch (cause) {
    case Cause::kEndpointsExhausted:
      return "endpoints-exhausted";
    case Cause::kAcceleratorsExhausted:
      return "accelerators-exhausted";
    case Cause::kNumaFragmented:
      return "numa-fragmented";
    case Cause::kNeverFits:
      return "never-fits";
    case Cause::kPinnedNodeFull:
      return "pinned-node-full";
    case Cause::kKubeletRefused:
      return "kubelet-refused";
    case Cause::kStaleData:
      return "stale-data";
    case Cause::kSchedulerError:
      return "scheduler-error";
    case Cause::kOther:
      return "other";
  }
  return "";
}

Finding LookAtFleet(const cache::Fleet& fleet, const policy::Demand& demand,
                    std::string_view pinned_node,
                    const std::function<bool(std::string_view)>& looks_at) {
  FleetSurvey survey(fleet, demand);
  survey.Run(looks_at);
  return survey.Result(std::string(pinned_node));
}

Finding FindCause(const cache::Fleet& fleet, const Blocked& blocked) {
  return CauseFinder(fleet).Find(blocked);
}

CauseFinder::CauseFinder(const cache::Fleet& fleet) : fleet_(fleet) {}
CauseFinder::~CauseFinder() = default;

void CauseFinder::Forget() {
  surveys_.clear();
}

Finding CauseFinder::Find(const Blocked& blocked) {
  Finding finding;
  // What cannot be read has no numbers; what is known of the Pod's own state holds all the same.
  if (blocked.demand != nullptr) {
    Seen& seen = surveys_[blocked.demand.get()];
    if (seen.survey == nullptr) {
      seen.demand = blocked.demand;
      seen.survey = std::make_unique<FleetSurvey>(fleet_, *blocked.demand);
      seen.survey->Run();
    }
    finding = seen.survey->Result(blocked.pinned_node);
  }
  if (blocked.state == PodState::kSchedulerError) finding.cause = Cause::kSchedulerError;
  if (blocked.state == PodState::kRefused) finding.cause = Cause::kKubeletRefused;
  return finding;
}

std::string WhyText(const Finding& finding, const Blocked& blocked) {
  switch (finding.cause) {
    case Cause::kEndpointsExhausted:
      return Lack(finding, true);
    case Cause::kAcceleratorsExhausted:
      return Lack(finding, false);
    case Cause::kNumaFragmented:
      return fmt::format("wants {} together; nearest is {}: {}", Wanted(finding), finding.nearest,
                         finding.nearest_answer);
    case Cause::kNeverFits:
      return fmt::format("wants {}; none of {} nodes could take it even when empty",
                         Wanted(finding), finding.nodes);
    case Cause::kPinnedNodeFull:
      return fmt::format("pinned to {} by its {}: {}; {} would fit", finding.pinned,
                         blocked.pinned_by_topology ? "topology assignment" : "node selector",
                         finding.pinned_answer, finding.nearest);
    case Cause::kKubeletRefused:
      return fmt::format("kubelet{} refused {}: {}", blocked.pods == 1 ? "" : "s", blocked.example,
                         blocked.message);
    case Cause::kStaleData:
      return finding.nodes == 0
                 ? "no node has a report"
                 : fmt::format(
                       "no node that could take it can be judged now; nearest is {}: {}",
                       finding.pinned.empty() ? finding.nearest : finding.pinned,
                       finding.pinned.empty() ? finding.nearest_answer : finding.pinned_answer);
    case Cause::kSchedulerError:
      return fmt::format("the scheduler fails on {}: {}", blocked.example, blocked.message);
    case Cause::kOther:
      return finding.nearest.empty() || finding.fitting == 0
                 ? fmt::format("the scheduler says: {}", blocked.message)
                 : fmt::format("{} of {} nodes would fit; the scheduler says: {}", finding.fitting,
                               finding.nodes, blocked.message);
  }
  return "";
}

}  // namespace numafit::workloads
