// A fleet as JSON, one entry per node and per device.
#include <nlohmann/json.hpp>

#include "cache/fleet_file.h"
#include "policy/cpu_set.h"

namespace numafit::cache {
namespace {

using nlohmann::json;

// Reserved memory as a kubelet's configuration has it.
json ReservedMemoryJson(const policy::KubeletSettings& kubelet) {
  json list = json::array();
  for (const policy::MemoryReservation& entry : kubelet.reserved_memory) {
    json limits = json::object();
    for (const auto& [type, bytes] : entry.limits) limits[type] = std::to_string(bytes);
    list.push_back({{"numaNode", entry.numa}, {"limits", std::move(limits)}});
  }
  return list;
}

void AddManagers(const FleetNode& node, json& out) {
  const policy::KubeletSettings& kubelet = node.topology->kubelet();
  out["cpuManagerPolicy"] = kubelet.cpu_policy == policy::CpuPolicy::kStatic ? "static" : "none";
  out["memoryManagerPolicy"] =
      kubelet.memory_policy == policy::MemoryPolicy::kStatic ? "Static" : "None";
  if (!kubelet.cpu_options.empty()) out["cpuManagerPolicyOptions"] = kubelet.cpu_options;
  if (!kubelet.reserved_cpus.empty()) {
    policy::CpuSet cpus;
    for (const int cpu : kubelet.reserved_cpus) cpus.Add(cpu);
    out["reservedSystemCPUs"] = policy::FormatCpuSet(cpus);
  }
  if (!kubelet.reserved_memory.empty()) out["reservedMemory"] = ReservedMemoryJson(kubelet);
  if (!kubelet.feature_gates.empty()) out["featureGates"] = kubelet.feature_gates;
  const KubeletReservations& reserved = node.reservations;
  if (!reserved.kube.empty()) out["kubeReserved"] = reserved.kube;
  if (!reserved.system.empty()) out["systemReserved"] = reserved.system;
  if (!reserved.eviction_hard.empty()) out["evictionHard"] = reserved.eviction_hard;
}

json KubeletJson(const FleetNode& node) {
  const policy::KubeletSettings& kubelet = node.topology->kubelet();
  json options = json::object();
  if (kubelet.prefer_closest_numa_nodes) options["prefer-closest-numa-nodes"] = "true";
  if (kubelet.max_allowable_numa_nodes != 8) {
    options["max-allowable-numa-nodes"] = std::to_string(kubelet.max_allowable_numa_nodes);
  }
  json out = {{"version", node.kubelet_version},
              {"topologyManagerPolicy", policy::TopologyPolicyName(kubelet.policy)},
              {"topologyManagerScope", policy::TopologyScopeName(kubelet.scope)},
              {"topologyManagerPolicyOptions", std::move(options)}};
  AddManagers(node, out);
  return out;
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
    json hugepages = json::object();
    for (const policy::HugepagePool& pool : numa.hugepages) hugepages[pool.size] = pool.pages;
    list.push_back({{"id", numa.id},
                    {"cores", CoresJson(numa)},
                    {"memory", numa.memory},
                    {"hugepages", std::move(hugepages)},
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
