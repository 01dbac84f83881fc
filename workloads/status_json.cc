#include "workloads/status_json.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"

namespace numafit::workloads {
namespace {

using nlohmann::json;

std::string TimeText(std::int64_t seconds) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

void Put(json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

json Describe(const WorkloadStatus& workload) {
  json object = {{"namespace", workload.namespace_},   {"name", workload.name},
                 {"phase", PhaseName(workload.phase)}, {"expected", workload.expected},
                 {"missing", workload.missing},        {"accelerators", workload.accelerators}};
  Put(object, "clusterQueue", workload.cluster_queue);
  Put(object, "queue", workload.queue);
  if (workload.admitted_since != 0) object["admittedSince"] = TimeText(workload.admitted_since);
  if (workload.pods_scheduled.has_value()) object["podsScheduled"] = *workload.pods_scheduled;
  json pods = json::object();
  for (int i = 0; i < kPodStates; ++i) {
    const int count = workload.pods[static_cast<std::size_t>(i)];
    if (count > 0) pods[std::string(PodStateName(static_cast<PodState>(i)))] = count;
  }
  object["pods"] = std::move(pods);
  return object;
}

bool IsNamed(const WorkloadStatus& workload, std::string_view full_name) {
  return full_name.size() == workload.namespace_.size() + 1 + workload.name.size() &&
         full_name.starts_with(workload.namespace_) && full_name.ends_with(workload.name) &&
         full_name[workload.namespace_.size()] == '/';
}

void AddFlag(const Flag& flag, json& object) {
  object["cause"] = CauseName(flag.cause());
  object["why"] = flag.why;
  object["since"] = TimeText(flag.since);
  object["flaggedSince"] = TimeText(flag.raised);
  Put(object, "podSet", flag.blocked.pod_set);
  Put(object, "example", flag.blocked.example);
  Put(object, "message", flag.blocked.message);
  Put(object, "pinnedNode", flag.finding.pinned);
  Put(object, "nearest", flag.finding.nearest);
  Put(object, "nearestAnswer", flag.finding.nearest_answer);
  object["nodes"] = flag.finding.nodes;
  object["fitting"] = flag.finding.fitting;
  json resources = json::array();
  for (const ResourceNumbers& each : flag.finding.resources) {
    json entry = {{"resource", each.resource}, {"wanted", each.wanted}, {"free", each.free}};
    if (!each.best_numa_node.empty()) {
      entry["bestNuma"] = {{"node", each.best_numa_node}, {"free", each.best_numa_free}};
      if (each.best_numa >= 0) entry["bestNuma"]["numa"] = each.best_numa;
    }
    resources.push_back(std::move(entry));
  }
  object["resources"] = std::move(resources);
}

}  // namespace

std::string ToJson(const std::vector<WorkloadStatus>& workloads, const std::vector<Flag>& flags,
                   bool all, std::string_view only) {
  std::map<std::string_view, const Flag*> by_uid;
  std::int64_t held = 0;
  for (const Flag& flag : flags) {
    by_uid[flag.workload.uid] = &flag;
    held += flag.workload.accelerators;
  }
  json list = json::array();
  for (const WorkloadStatus& workload : workloads) {
    if (!only.empty() && !IsNamed(workload, only)) continue;
    const auto flag = by_uid.find(workload.uid);
    if (only.empty() && !all && flag == by_uid.end()) continue;
    json& object = list.emplace_back(Describe(workload));
    if (flag != by_uid.end()) AddFlag(*flag->second, object);
  }
  return json({{"unplaceable", flags.size()},
               {"acceleratorsHeld", held},
               {"workloads", std::move(list)}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace numafit::workloads
