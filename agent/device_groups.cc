#include "agent/device_groups.h"

#include <tuple>
#include <vector>

namespace numafit::agent {
namespace {

struct GroupKey {
  std::string endpoint;
  std::vector<int> numa_nodes;
  bool no_topology = false;
  bool unhealthy = false;
  std::vector<int> actual_numa_nodes;
  auto operator<=>(const GroupKey&) const = default;
};

std::string EndpointOfKind(api::ResourceKind kind, const std::string& resource,
                           const std::string& id) {
  if (kind == api::ResourceKind::kEndpointVirtual) return resource;
  if (kind != api::ResourceKind::kAccelerator && !api::IsEndpoint(kind)) return {};
  return std::string(api::EndpointKey(id));
}

GroupKey KeyOf(const std::string& resource, const std::string& id, const Device& device,
               api::ResourceKind kind, const EndpointMap& endpoints) {
  GroupKey key;
  key.endpoint = EndpointOfKind(kind, resource, id);
  key.numa_nodes = device.topology.numa_nodes;
  key.no_topology = !device.topology.published;
  key.unhealthy = !device.healthy;
  if (key.no_topology && !key.endpoint.empty()) {
    key.actual_numa_nodes = endpoints.NumaNodes(resource, id);
  }
  return key;
}

void Write(const GroupKey& key, int count, v1alpha1::DeviceGroup* group) {
  group->set_endpoint(key.endpoint);
  for (const int node : key.numa_nodes) group->add_numa_nodes(node);
  group->set_no_topology(key.no_topology);
  group->set_unhealthy(key.unhealthy);
  group->set_count(count);
  for (const int node : key.actual_numa_nodes) group->add_actual_numa_nodes(node);
}

}  // namespace

std::string EndpointOf(const api::ResourceClasses& classes, const std::string& resource,
                       const std::string& id) {
  return EndpointOfKind(classes.Classify(resource), resource, id);
}

DeviceGroups::DeviceGroups(const DeviceTable& table, const api::ResourceClasses& classes,
                           const EndpointMap& endpoints, v1alpha1::NodeReportStatus* report) {
  for (const auto& [resource, devices] : table) {
    const api::ResourceKind kind = classes.Classify(resource);
    std::map<GroupKey, std::vector<std::string>> members;
    for (const auto& [id, device] : devices) {
      members[KeyOf(resource, id, device, kind, endpoints)].push_back(id);
    }
    v1alpha1::Resource* out = report->add_resources();
    out->set_name(resource);
    for (const auto& [key, ids] : members) {
      for (const std::string& id : ids) groups_[resource][id] = out->groups_size();
      Write(key, static_cast<int>(ids.size()), out->add_groups());
    }
  }
}

int DeviceGroups::GroupOf(const std::string& resource, const std::string& id) const {
  const auto devices = groups_.find(resource);
  if (devices == groups_.end()) return -1;
  const auto group = devices->second.find(id);
  return group == devices->second.end() ? -1 : group->second;
}

}  // namespace numafit::agent
