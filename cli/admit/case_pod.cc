#include "cli/admit/case_pod.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "cli/admit/case_steps.h"
#include "policy/qos.h"

namespace numafit::cli {
namespace {

using Quantities = std::map<std::string, api::Quantity, std::less<>>;

struct Resources {
  Quantities limits;
  Quantities requests;  // missing ones filled from the limits
};

Quantities ReadQuantities(const Node& node) {
  Quantities out;
  for (const auto& [resource, quantity] : node.Members()) out[resource] = ReadQuantity(quantity);
  return out;
}

Resources ReadResources(const Node& node) {
  node.CheckKeys({"requests", "limits"});
  Resources resources;
  if (node.Has("limits")) resources.limits = ReadQuantities(node.At("limits"));
  if (node.Has("requests")) resources.requests = ReadQuantities(node.At("requests"));
  for (const auto& limit : resources.limits) resources.requests.insert(limit);
  return resources;
}

policy::ResourceAmounts ComputeAmounts(const Quantities& quantities) {
  policy::ResourceAmounts amounts;
  for (const auto& [resource, quantity] : quantities) {
    if (policy::IsComputeResource(resource)) amounts[resource] = quantity.milli();
  }
  return amounts;
}

CaseAsks AsksOf(const Resources& resources) {
  CaseAsks asks;
  for (const auto& [resource, quantity] : resources.limits) {
    asks.limits[resource] = quantity.milli();
  }
  for (const auto& [resource, quantity] : resources.requests) {
    asks.requests[resource] = quantity.milli();
  }
  return asks;
}

CaseContainer ReadContainer(const Node& node, bool init, bool all, policy::QosSums& qos) {
  node.CheckKeys({"name", "restartPolicy", "resources"});
  CaseContainer container;
  container.name = node.At("name").String();
  container.kind = init ? CaseContainer::Kind::kInit : CaseContainer::Kind::kApp;
  if (node.Has("restartPolicy") && node.At("restartPolicy").String() == "Always" && init) {
    container.kind = CaseContainer::Kind::kSidecar;
  }
  Resources resources;
  if (node.Has("resources")) resources = ReadResources(node.At("resources"));
  for (const auto& [resource, quantity] : resources.limits) {
    container.limits[resource] = quantity.value();
  }
  container.compute_requests = ComputeAmounts(resources.requests);
  const policy::ResourceAmounts compute_limits = ComputeAmounts(resources.limits);
  container.requests_equal_limits =
      policy::RequestsEqualLimits(container.compute_requests, compute_limits);
  qos.Add(container.compute_requests, compute_limits);
  if (all) container.asks = AsksOf(resources);
  return container;
}

}  // namespace

api::Quantity ReadQuantity(const Node& node) {
  const auto parsed = api::Quantity::Parse(node.String());
  if (!parsed.ok()) Fail(node.path(), std::string(parsed.status().message()));
  if (parsed->milli() < 0) Fail(node.path(), "a quantity below zero");
  return *parsed;
}

CasePod ReadPod(const Node& node, bool all) {
  node.CheckKeys({"name", "initContainers", "containers", "resources"});
  CasePod pod;
  pod.name = node.At("name").String();
  if (pod.name.empty()) Fail(node.path(), "a Pod needs a name");
  std::set<std::string> names;
  policy::QosSums qos;
  for (const char* key : {"initContainers", "containers"}) {
    if (!node.Has(key)) continue;
    for (const Node& item : node.At(key).Items()) {
      CaseContainer container =
          ReadContainer(item, std::string_view(key) == "initContainers", all, qos);
      if (container.name.empty() || !names.insert(container.name).second) {
        Fail(item.path(), "name " + Quoted(container.name) + " is empty or there twice");
      }
      pod.containers.push_back(std::move(container));
    }
  }
  if (!node.Has("containers") || node.At("containers").Items().empty()) {
    Fail(node.path(), "Pod " + Quoted(pod.name) + " has no containers");
  }
  if (node.Has("resources")) {
    const Resources resources = ReadResources(node.At("resources"));
    const policy::ResourceAmounts requests = ComputeAmounts(resources.requests);
    qos = {};
    qos.Add(requests, ComputeAmounts(resources.limits));
    pod.pod_level_resources = !requests.empty();
    pod.pod_requests = requests;
    if (all) pod.asks = AsksOf(resources);
  }
  pod.qos = qos.Class();
  return pod;
}

}  // namespace numafit::cli
