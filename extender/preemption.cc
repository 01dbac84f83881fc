#include "extender/preemption.h"

#include <algorithm>
#include <utility>

#include "prometheus/counter.h"

namespace numafit::extender {
namespace {

// Of one node; more would be a massacre.
constexpr std::size_t kMostAdded = 16;

bool Contains(const std::vector<std::string>& uids, const std::string& uid) {
  return std::find(uids.begin(), uids.end(), uid) != uids.end();
}

}  // namespace

std::optional<api::PreemptionVictims> Preemption::Decide(const std::string& node,
                                                         const api::PreemptionVictims& proposed,
                                                         const policy::Demand& demand,
                                                         std::int32_t priority) const {
  // An answer without a victim would fail the whole preemption.
  if (proposed.uids.empty()) return std::nullopt;
  const policy::Judgement judgement = parts_.fleet.JudgeWithout(node, proposed.uids, demand);
  if (judgement.fits()) return proposed;
  if (judgement.reason == policy::Reason::kNoReport) {
    if (options_.unknown_nodes == UnknownNodes::kPass) return proposed;
    return std::nullopt;
  }
  std::vector<cache::Fleet::Victim> further = parts_.fleet.VictimsOn(node);
  std::erase_if(further, [&](const cache::Fleet::Victim& each) {
    return each.priority >= priority || Contains(proposed.uids, each.uid);
  });
  std::stable_sort(further.begin(), further.end(),
                   [](const auto& a, const auto& b) { return a.priority < b.priority; });
  if (further.size() > kMostAdded) further.resize(kMostAdded);
  api::PreemptionVictims chosen = proposed;
  const auto fits = [&] { return parts_.fleet.JudgeWithout(node, chosen.uids, demand).fits(); };
  bool enough = false;
  for (const cache::Fleet::Victim& each : further) {
    chosen.uids.push_back(each.uid);
    enough = fits();
    if (enough) break;
  }
  if (!enough) return std::nullopt;
  // Spares whom it can, the most important first; the last one is needed.
  for (std::size_t i = chosen.uids.size() - 1; i-- > proposed.uids.size();) {
    const std::string spared = chosen.uids[i];
    chosen.uids.erase(chosen.uids.begin() + static_cast<std::ptrdiff_t>(i));
    if (!fits()) chosen.uids.insert(chosen.uids.begin() + static_cast<std::ptrdiff_t>(i), spared);
  }
  return chosen;
}

void Preemption::Serve(const http::Request& request, http::Response& response) {
  absl::StatusOr<api::ExtenderPreemptionArgs> args = api::ParseExtenderPreemptionArgs(request.body);
  if (args.ok() && !args->has_pod) args = absl::InvalidArgumentError("Pod: is missing");
  PodQuestion question;
  if (args.ok()) {
    if (absl::Status asked = AskAboutPod(args->pod, options_.rules, &question); !asked.ok()) {
      args = std::move(asked);
    }
  }
  if (!args.ok()) {
    response.status = 400;
    http::AppendError(std::string(args.status().message()), &response.body);
    parts_.metrics.preemption_nodes_total.malformed->Increment();
    return;
  }
  api::ExtenderPreemptionResult result;
  std::size_t widened = 0;
  for (const auto& [node, proposed] : args->victims) {
    std::optional<api::PreemptionVictims> chosen =
        question.demand.AsksForNoDevice()
            ? std::optional(proposed)
            : Decide(node, proposed, question.demand, args->pod.priority);
    if (!chosen) {
      parts_.metrics.preemption_nodes_total.vetoed->Increment();
      continue;
    }
    const bool same = chosen->uids.size() == proposed.uids.size();
    if (!same) ++widened;
    (same ? parts_.metrics.preemption_nodes_total.kept
          : parts_.metrics.preemption_nodes_total.widened)
        ->Increment();
    result.victims.emplace(node, *std::move(chosen));
  }
  response.body = api::ToJson(result);
  LogLine line("preempt");
  line.Text("pod", args->pod.FullName())
      .Int("nodes", static_cast<std::int64_t>(args->victims.size()))
      .Int("left", static_cast<std::int64_t>(result.victims.size()))
      .Int("widened", static_cast<std::int64_t>(widened));
  if (!parts_.log.Decision(line, options_.now_ms())) parts_.metrics.log_dropped_total->Increment();
}

}  // namespace numafit::extender
