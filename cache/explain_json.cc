// Explanations and fleets as JSON: the words of the command line as keys.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "cache/explain.h"
#include "cache/pod_holdings.h"

namespace numafit::cache {
namespace {

using nlohmann::json;

json FreeJson(const FreeCount& count) {
  return {{"free", count.at_least}, {"freeAtMost", count.at_most}, {"all", count.all}};
}

json ResourceJson(const ResourceFree& resource) {
  json by_numa = json::array();
  for (const FreeCount& count : resource.by_numa) {
    json entry = FreeJson(count);
    entry["numa"] = count.numa < 0 ? json(nullptr) : json(count.numa);
    by_numa.push_back(std::move(entry));
  }
  return {{"resource", resource.resource},
          {"total", FreeJson(resource.total)},
          {"unhealthy", resource.unhealthy},
          {"byNuma", std::move(by_numa)}};
}

json ComputeJson(const ComputeFree& compute) {
  const auto count = [](const ComputeCount& each) -> json {
    return {{"free", each.at_least}, {"freeAtMost", each.at_most}, {"all", each.all}};
  };
  json by_numa = json::array();
  for (const ComputeCount& each : compute.by_numa) {
    json entry = count(each);
    entry["numa"] = each.numa;
    by_numa.push_back(std::move(entry));
  }
  return {{"resource", compute.resource},
          {"total", count(compute.total)},
          {"byNuma", std::move(by_numa)}};
}

// The NUMA node with most free accelerators, and of those with most free endpoints.
json LargestAligned(const NodeState& state, const std::vector<ResourceFree>& accelerators,
                    const std::vector<ResourceFree>& endpoints) {
  const auto free_on = [](const std::vector<ResourceFree>& resources, int numa) {
    int most = 0;  // several keys of one kind are views of the same hardware
    for (const ResourceFree& resource : resources) {
      for (const FreeCount& count : resource.by_numa) {
        if (count.numa == numa) most = std::max(most, count.at_least);
      }
    }
    return most;
  };
  json best = nullptr;
  std::pair<int, int> best_counts{-1, -1};
  state.topology->numa().ForEach([&](int numa) {
    const std::pair<int, int> counts{free_on(accelerators, numa), free_on(endpoints, numa)};
    if (counts <= best_counts) return;
    best_counts = counts;
    best = {{"numa", numa}, {"accelerators", counts.first}, {"endpoints", counts.second}};
  });
  return best;
}

std::string_view ReportWord(const NodeView& view) {
  if (view.stale) return "stale";
  if (view.state->counts_only) return "counts";
  return view.state->HasInventory() ? "current" : "none";
}

// Why the node takes no Pod, or not every one, or should not be trusted: codes of docs/reasons.md.
json States(const NodeView& view) {
  json states = json::array();
  const auto add = [&states](bool is_so, policy::Reason reason) {
    if (is_so) states.push_back(policy::ReasonCode(reason));
  };
  add(!view.state->HasInventory(), policy::Reason::kNoReport);
  add(view.stale, policy::Reason::kStaleReport);
  add(view.state->barrier == policy::Reason::kKubeletAway, policy::Reason::kKubeletAway);
  add(view.state->knowledge.settling, policy::Reason::kSettling);
  add(!view.state->cooling.empty(), policy::Reason::kCoolingDown);
  add(view.nominees != nullptr, policy::Reason::kKeptForNominee);
  return states;
}

// What its report says about itself; keys only where there is something to say.
void AddReport(const NodeView& view, json& node) {
  if (view.agent_lost_ms) node["agentLostSeconds"] = *view.agent_lost_ms / 1000;
  if (view.clock_ahead_seconds) node["clockAheadSeconds"] = *view.clock_ahead_seconds;
  if (!view.report_error.empty()) node["reportError"] = view.report_error;
  if (view.facts == nullptr) return;
  const ReportFacts& facts = *view.facts;
  if (facts.observed_time != 0) {
    node["observedTime"] = absl::FormatTime(
        "%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(facts.observed_time), absl::UTCTimeZone());
  }
  if (!facts.agent_version.empty()) node["agentVersion"] = facts.agent_version;
  node["configurationConfirmed"] = facts.configuration_confirmed;
  for (const ReportFacts::SourceError& each : facts.source_errors) {
    node["sourceErrors"].push_back({{"source", each.source}, {"error", each.error}});
  }
  for (const ReportFacts::WithoutNuma& each : facts.without_numa) {
    node["withoutNuma"].push_back({{"resource", each.resource}, {"devices", each.devices}});
  }
}

json NodeJson(const NodeView& view, const api::ResourceClasses& classes) {
  const NodeState& state = *view.state;
  const policy::KubeletSettings& kubelet = state.topology->kubelet();
  std::vector<ResourceFree> accelerators;
  std::vector<ResourceFree> endpoints;
  for (int pool = 0; pool < static_cast<int>(state.topology->pools().size()); ++pool) {
    const std::string& resource = state.topology->pools()[static_cast<std::size_t>(pool)].resource;
    const api::ResourceKind kind = classes.Classify(resource);
    if (kind == api::ResourceKind::kAccelerator) accelerators.push_back(FreeDevices(state, pool));
    if (api::IsEndpoint(kind)) endpoints.push_back(FreeDevices(state, pool));
  }
  json accelerators_json = json::array();
  for (const ResourceFree& resource : accelerators) {
    accelerators_json.push_back(ResourceJson(resource));
  }
  json endpoints_json = json::array();
  for (const ResourceFree& resource : endpoints) endpoints_json.push_back(ResourceJson(resource));
  const auto waiting = std::count_if(view.pods.begin(), view.pods.end(),
                                     [](const PodOnNode& pod) { return !pod.admitted; });
  json numa = json::array();
  state.topology->numa().ForEach([&](int id) { numa.push_back(id); });
  json node = {{"name", view.name},
               {"topologyManagerPolicy", "unknown"},
               {"report", ReportWord(view)},
               {"states", States(view)},
               {"coolingDown", state.cooling.size()},
               {"misaligned", MisalignedContainers(view)},
               {"numa", std::move(numa)},
               {"accelerators", std::move(accelerators_json)},
               {"endpoints", std::move(endpoints_json)},
               {"largestAligned", nullptr},
               {"pods", view.pods.size()},
               {"waiting", waiting},
               {"settling", state.knowledge.settling}};
  AddReport(view, node);
  if (!state.HasInventory()) {
    node["numa"] = json::array();
    return node;
  }
  node["topologyManagerPolicy"] = policy::TopologyPolicyName(kubelet.policy);
  node["topologyManagerScope"] = policy::TopologyScopeName(kubelet.scope);
  node["kubeletVersion"] = fmt::format("{}.{}", kubelet.version.major, kubelet.version.minor);
  node["largestAligned"] = LargestAligned(state, accelerators, endpoints);
  return node;
}

}  // namespace

std::string ToJson(const Explanation& explanation) {
  json answers = json::array();
  for (const NodeAnswer& answer : explanation.answers) {
    json resources = json::array();
    for (const ResourceFree& resource : answer.resources) {
      resources.push_back(ResourceJson(resource));
    }
    json compute = json::array();
    for (const ComputeFree& each : answer.compute) compute.push_back(ComputeJson(each));
    answers.push_back({{"node", answer.node},
                       {"alike", answer.alike},
                       {"topologyManagerPolicy", answer.policy},
                       {"topologyManagerScope", answer.scope},
                       {"reason", policy::ReasonCode(answer.reason)},
                       {"alignment", policy::AlignmentName(answer.alignment)},
                       {"score", answer.score},
                       {"answer", answer.answer},
                       {"resources", std::move(resources)},
                       {"compute", std::move(compute)},
                       {"changes", answer.changes},
                       {"notes", answer.notes}});
  }
  json help = json::array();
  for (const Help& each : explanation.help) {
    json entry = {{"kind", each.kind}, {"nodes", each.nodes}, {"text", each.text}};
    if (!each.node.empty()) entry["node"] = each.node;
    if (!each.pod.empty()) entry["pod"] = each.pod;
    help.push_back(std::move(entry));
  }
  return json{{"pod", explanation.pod},
              {"wants", explanation.wants},
              {"nodes", explanation.nodes},
              {"fit", explanation.fit},
              {"guaranteed", explanation.guaranteed},
              {"best", explanation.best.empty() ? json(nullptr) : json(explanation.best)},
              {"answers", std::move(answers)},
              {"help", std::move(help)}}
      .dump();
}

std::string NodesToJson(const std::vector<NodeView>& fleet, const api::ResourceClasses& classes) {
  json nodes = json::array();
  for (const NodeView& view : fleet) {
    nodes.push_back(NodeJson(view, classes));
  }
  // Errors of agents' sources are text from anywhere.
  return json{{"nodes", std::move(nodes)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace numafit::cache
