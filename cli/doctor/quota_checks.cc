#include "cli/doctor/quota_checks.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/doctor/fields.h"

namespace numafit::cli::doctor {
namespace {

using nlohmann::json;

// "gpu" of "nvidia.com/gpu".
std::string ShortName(const std::string& resource) {
  return resource.substr(resource.rfind('/') + 1);
}

// "1 gpu + 1 rdma": what the quota is of comes first.
std::string ShapeText(const json& per_pod, const std::string& resource) {
  if (!per_pod.is_object()) return "";
  std::string text = fmt::format("{} {}", Int(per_pod, resource), ShortName(resource));
  for (const auto& [name, count] : per_pod.items()) {
    if (name != resource) text += fmt::format(" + {} {}", Int(per_pod, name), ShortName(name));
  }
  return text;
}

void CompareOne(const json& each, Findings& findings) {
  const std::string resource = Text(each, "resource");
  const std::string flavor = Text(each, "flavor");
  const std::int64_t quota = Int(each, "quota");
  const std::int64_t nodes = Int(each, "nodes");
  const std::int64_t devices = Int(each, "devices");
  const std::int64_t placeable = Int(each, "placeable");
  std::string text = fmt::format("ClusterQueue {} has a quota of {} {} in flavor {}; ",
                                 Text(each, "clusterQueue"), quota, resource, flavor);
  if (nodes == 0) {
    text += "no node of the flavor has any";
  } else {
    text += fmt::format("the flavor's {} node{} {} {} healthy {}", nodes, nodes == 1 ? "" : "s",
                        nodes == 1 ? "has" : "have", devices, devices == 1 ? "one" : "ones");
  }
  const json& shapes = List(each, "shapes");
  if (nodes > 0 && !shapes.empty()) {
    text += fmt::format(", of which Pods that ask for {} (as those of {}) could hold {} at once",
                        ShapeText(At(shapes[0], "perPod"), resource), Text(shapes[0], "workload"),
                        placeable);
  }
  text += ": Kueue admits the difference, and it waits";
  std::string fix;
  if (devices < quota) {
    fix = fmt::format(
        "see whether nodes of flavor {} are missing, cordoned, without a report or with unhealthy "
        "devices (numafit nodes); else lower nominalQuota to {}",
        flavor, placeable);
  } else {
    fix = fmt::format(
        "lower nominalQuota to {}, or give the endpoints a quota of their own (docs/kueue.md)",
        placeable);
  }
  findings.Warn("quota-above-placeable", text, fix);
}

}  // namespace

void CheckQuotas(const json& queues, Findings* findings) {
  const std::string state = Text(queues, "state");
  if (state == "unreadable") {
    findings->Warn("quota-unknown",
                   fmt::format("quotas of ClusterQueues cannot be compared with the fleet: {}",
                               Text(queues, "why")),
                   "let the extender list and watch nodes, clusterqueues and resourceflavors "
                   "(deploy/manifests/extender-rbac.yaml)");
    return;
  }
  if (state != "current") return;
  bool fine = true;
  for (const json& each : List(queues, "quotas")) {
    if (Int(each, "quota") <= Int(each, "placeable")) continue;
    fine = false;
    CompareOne(each, *findings);
  }
  if (fine && !List(queues, "quotas").empty()) {
    findings->Ok("quota-above-placeable",
                 "every ClusterQueue's quota of accelerators could be placed");
  }
}

}  // namespace numafit::cli::doctor
