// A fleet as JSON, one entry per node and per device.
#include <nlohmann/json.hpp>

#include "cache/fleet_file.h"

namespace numafit::cache {
namespace {

using nlohmann::json;

json KubeletJson(const FleetNode& node) {
  const policy::KubeletSettings& kubelet = node.topology->kubelet();
  json options = json::object();
  if (kubelet.prefer_closest_numa_nodes) options["prefer-closest-numa-nodes"] = "true";
  if (kubelet.max_allowable_numa_nodes != 8) {
    options["max-allowable-numa-nodes"] = std::to_string(kubelet.max_allowable_numa_nodes);
  }
  return {{"version", node.kubelet_version},
          {"topologyManagerPolicy", policy::TopologyPolicyName(kubelet.policy)},
          {"topologyManagerScope", policy::TopologyScopeName(kubelet.scope)},
          {"topologyManagerPolicyOptions", std::move(options)}};
}

json CoresJson(const policy::NumaNodeSpec& numa) {
  json list = json::array();
  for (const policy::CoreSpec& core : numa.cores) {
    json item = {{"threads", core.threads}, {"socket", core.socket}};
    if (core.uncore) item["uncore"] = *core.uncore;
    list.push_back(std::move(item));
  }
  return list;
}

json NumaJson(const policy::Topology& topology) {
  const policy::TopologySpec& spec = topology.spec();
  json list = json::array();
  for (const policy::NumaNodeSpec& numa : spec.numa) {
    std::vector<int> distances;  // by position, as in the file
    for (const policy::NumaNodeSpec& other : spec.numa) {
      distances.push_back(topology.Distance(numa.id, other.id));
    }
    list.push_back({{"id", numa.id},
                    {"cores", CoresJson(numa)},
                    {"memory", numa.memory},
                    {"distances", std::move(distances)}});
  }
  return list;
}

json DevicesJson(const policy::TopologySpec& spec) {
  json resources = json::object();
  for (const auto& [resource, devices] : spec.devices) {
    json& list = resources[resource] = json::array();
    for (const policy::DeviceSpec& device : devices) {
      list.push_back({{"id", device.id},
                      {"numa", device.numa ? json(*device.numa) : json(nullptr)},
                      {"healthy", device.healthy}});
    }
  }
  return resources;
}

json ContainersJson(const std::vector<api::Container>& containers, const FleetPod& entry) {
  json list = json::array();
  for (const api::Container& container : containers) {
    json limits = json::object();
    for (const auto& [resource, quantity] : container.resources.limits) {
      limits[resource] = quantity.ToString();
    }
    json requests = json::object();
    for (const auto& [resource, quantity] : container.resources.requests) {
      requests[resource] = quantity.ToString();
    }
    json item = {{"name", container.name},
                 {"resources", {{"limits", std::move(limits)}, {"requests", std::move(requests)}}},
                 {"devices", json::object()}};
    if (container.restart_always) item["restartPolicy"] = "Always";
    if (const auto devices = entry.devices.find(container.name); devices != entry.devices.end()) {
      item["devices"] = devices->second;
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace

std::string ExpandFleet(const FleetFile& fleet) {
  json nodes = json::array();
  for (const FleetNode& node : fleet.nodes) {
    const policy::TopologySpec& spec = node.topology->spec();
    nodes.push_back({{"name", node.name},
                     {"shape", node.shape},
                     {"labels", node.labels},
                     {"kubelet", KubeletJson(node)},
                     {"numa", NumaJson(*node.topology)},
                     {"devices", DevicesJson(spec)}});
  }
  json pods = json::array();
  for (const FleetPod& entry : fleet.pods) {
    json pod = {{"namespace", entry.pod.metadata.namespace_},
                {"name", entry.pod.metadata.name},
                {"node", entry.pod.node_name},
                {"containers", ContainersJson(entry.pod.containers, entry)}};
    if (!entry.pod.init_containers.empty()) {
      pod["initContainers"] = ContainersJson(entry.pod.init_containers, entry);
    }
    if (!entry.pod.metadata.annotations.empty()) {
      pod["annotations"] = entry.pod.metadata.annotations;
    }
    pods.push_back(std::move(pod));
  }
  return json{{"nodes", std::move(nodes)}, {"pods", std::move(pods)}}.dump(1) + "\n";
}

}  // namespace numafit::cache
