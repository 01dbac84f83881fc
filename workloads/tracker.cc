#include "workloads/tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace numafit::workloads {
namespace {

bool WasTried(const Blocked& blocked) {
  return blocked.state == PodState::kUnschedulable || blocked.state == PodState::kSchedulerError;
}

// The kind of Pods that says most: those that a scheduler has tried, of these the most numerous.
const Blocked* Main(const std::vector<Blocked>& blocked, bool tried) {
  const Blocked* main = nullptr;
  for (const Blocked& each : blocked) {
    if (WasTried(each) != tried) continue;
    if (main == nullptr || each.pods > main->pods) main = &each;
  }
  return main;
}

}  // namespace

const Finding& Tracker::CauseOf(const Blocked& blocked) {
  const std::string key =
      fmt::format("{}\n{}\n{}", PodStateName(blocked.state), blocked.pinned_node,
                  blocked.demand == nullptr ? std::string() : blocked.demand->Fingerprint());
  const auto found = found_.find(key);
  if (found != found_.end()) return found->second;
  return found_.emplace(key, find_cause_(blocked)).first->second;
}

bool Tracker::JudgeMissing(const WorkloadStatus& workload, std::int64_t now, Flag* flag) const {
  // Whoever made it keeps no Pods, or they are all there.
  if (workload.missing == 0 || !workload.has_owner) return false;
  // Others are still on their way, and what becomes of them says more.
  const int undecided = workload.In(PodState::kGated) + workload.In(PodState::kUntried) +
                        workload.In(PodState::kNominated);
  if (undecided > 0 || now - workload.admitted_since < options_.missing_after) return false;
  flag->finding.cause = Cause::kOther;
  flag->since = workload.admitted_since;
  flag->why = fmt::format("{} of {} Pods have not been created by their controller",
                          workload.missing, workload.expected);
  return true;
}

bool Tracker::Judge(const WorkloadStatus& workload, std::int64_t now, Flag* flag) {
  if (workload.phase != Phase::kAdmitted) return false;
  if (workload.waits_for_nodes && now - workload.admitted_since < options_.nodes_after) {
    return false;
  }
  flag->workload = workload;
  const Blocked* blocked = Main(workload.blocked, /*tried=*/true);
  if (blocked == nullptr) {
    // Refused Pods matter while nobody has taken their place.
    blocked = workload.missing > 0 ? Main(workload.blocked, /*tried=*/false) : nullptr;
    if (blocked == nullptr) return JudgeMissing(workload, now, flag);
  }
  flag->blocked = *blocked;
  flag->finding = CauseOf(*blocked);
  flag->since = blocked->since;
  flag->why = WhyText(flag->finding, flag->blocked);
  return true;
}

std::int64_t Tracker::PatienceWith(Cause cause) const {
  switch (cause) {
    case Cause::kOther:
      return options_.other_after;
    case Cause::kStaleData:
      return options_.stale_after;
    case Cause::kKubeletRefused:
      return options_.missing_after;
    default:
      return 0;
  }
}

Tracker::News Tracker::Step(const std::vector<WorkloadStatus>& workloads, std::int64_t now) {
  found_.clear();
  News news;
  std::set<Cycle> seen;
  for (const WorkloadStatus& workload : workloads) {
    const Cycle cycle(workload.uid, workload.admitted_since);
    Flag flag;
    if (!Judge(workload, now, &flag)) continue;
    seen.insert(cycle);
    Known& known = known_[cycle];
    if (const std::int64_t patience = PatienceWith(flag.cause()); patience > 0) {
      if (known.passing_since == 0) known.passing_since = now;
      // What it was flagged for before stands meanwhile.
      if (now - known.passing_since < patience) continue;
    } else {
      known.passing_since = 0;
    }
    // Its Pods may be among those whose owners are being read. What it was flagged for stands.
    if (workload.has_unread_owners && flag.blocked.pods == 0) continue;
    flag.raised = known.is_raised ? known.flag.raised : now;
    known.flag = std::move(flag);
    known.is_raised = true;
    if (known.told.insert(known.flag.cause()).second) news.raised.push_back(known.flag);
  }
  for (auto entry = known_.begin(); entry != known_.end();) {
    if (seen.contains(entry->first)) {
      ++entry;
      continue;
    }
    if (entry->second.is_raised) news.cleared.push_back(entry->second.flag.workload.FullName());
    entry = known_.erase(entry);
  }
  return news;
}

std::vector<Flag> Tracker::flags() const {
  std::vector<Flag> flags;
  for (const auto& [cycle, known] : known_) {
    if (known.is_raised) flags.push_back(known.flag);
  }
  std::sort(flags.begin(), flags.end(), [](const Flag& a, const Flag& b) {
    return std::tie(a.workload.namespace_, a.workload.name) <
           std::tie(b.workload.namespace_, b.workload.name);
  });
  return flags;
}

}  // namespace numafit::workloads
