#include "policy/needs.h"

#include <algorithm>
#include <string>

#include "policy/numa_subsets.h"

namespace numafit::policy {
namespace {

bool Contains(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name, std::less<>());
}

std::int64_t Count(const Topology& topology, int class_index, Counted counted, const Usage& usage) {
  const Topology::DeviceClass& k = topology.classes()[static_cast<std::size_t>(class_index)];
  if (counted == Counted::kAll) return k.count;
  if (!k.healthy) return 0;
  if (counted == Counted::kHealthy) return k.count;
  return std::max(0, k.count - usage.taken(class_index));
}

// A machine with one NUMA node has everything on it, whatever plugins say.
bool IsOn(const Topology& topology, const Topology::DeviceClass& k, NumaMask mask) {
  return k.hardware.empty() || k.hardware.intersects(mask) || mask == topology.numa();
}

bool InPodScope(const Topology& topology) {
  return topology.kubelet().scope == TopologyScope::kPod;
}

absl::InlinedVector<DeviceRequests, 4> AllRequests(const Topology& topology, const Demand& demand) {
  absl::InlinedVector<DeviceRequests, 4> all;
  for (const ContainerDemand& container : demand.containers) {
    all.push_back(ContainerRequests(topology, container));
  }
  return all;
}

AlignmentUnit UnitOf(const Topology& topology, const Demand& demand, const DeviceRequests& requests,
                     std::size_t first, std::size_t last) {
  AlignmentUnit unit;
  unit.first_container = first;
  unit.last_container = last;
  for (const DeviceRequest& request : requests) {
    if (request.count == 0) continue;
    const std::string& name = topology.pools()[static_cast<std::size_t>(request.pool)].resource;
    const bool endpoint = Contains(demand.endpoints, name);
    if (endpoint || Contains(demand.accelerators, name)) unit.requests.push_back(request);
    if (endpoint) unit.endpoints.push_back(request);
  }
  return unit;
}

bool HasNeed(const AlignmentUnit& unit) {
  return !unit.endpoints.empty() && unit.endpoints.size() < unit.requests.size();
}

}  // namespace

std::vector<AlignmentUnit> AlignmentUnits(const Topology& topology, const Demand& demand) {
  std::vector<AlignmentUnit> units;
  if (demand.accelerators.empty() || demand.endpoints.empty()) return units;
  const auto all = AllRequests(topology, demand);
  if (InPodScope(topology)) {
    AlignmentUnit unit = UnitOf(topology, demand, PodRequests(demand, all), 0, all.size());
    if (HasNeed(unit)) units.push_back(std::move(unit));
    return units;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    AlignmentUnit unit = UnitOf(topology, demand, all[i], i, i + 1);
    if (HasNeed(unit)) units.push_back(std::move(unit));
  }
  return units;
}

DeviceRequests UnitRequests(const Topology& topology, const Demand& demand, std::size_t container) {
  const auto all = AllRequests(topology, demand);
  return InPodScope(topology) ? PodRequests(demand, all) : all[container];
}

bool HasRoom(const Topology& topology, const DeviceRequests& requests, NumaMask mask,
             Counted counted, const Usage& usage) {
  return std::all_of(requests.begin(), requests.end(), [&](const DeviceRequest& request) {
    const auto& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
    std::int64_t room = 0;
    for (int c = pool.first_class; c < pool.first_class + pool.class_count; ++c) {
      const auto& k = topology.classes()[static_cast<std::size_t>(c)];
      if (IsOn(topology, k, mask)) room += Count(topology, c, counted, usage);
    }
    return room >= request.count;
  });
}

NumaMask NumaNodesOf(const Topology& topology, const DeviceRequests& requests) {
  NumaMask nodes;
  for (const DeviceRequest& request : requests) {
    const auto& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
    for (int c = pool.first_class; c < pool.first_class + pool.class_count; ++c) {
      nodes = nodes | topology.classes()[static_cast<std::size_t>(c)].hardware;
    }
  }
  return nodes;
}

int FewestNumaNodes(const Topology& topology, const DeviceRequests& requests) {
  const Usage none;
  const int all = topology.numa().count();
  for (int width = 1; width < all; ++width) {
    if (SomeNodesHaveRoom(topology, requests, width, Counted::kAll, none)) return width;
  }
  return all;
}

bool SomeNodesHaveRoom(const Topology& topology, const DeviceRequests& requests, int width,
                       Counted counted, const Usage& usage) {
  // NUMA nodes without any of these devices add nothing.
  const NumaMask nodes = NumaNodesOf(topology, requests);
  if (nodes.count() <= width || SubsetsAreTooMany(nodes.count(), width)) {
    return HasRoom(topology, requests, topology.numa(), counted, usage);
  }
  bool found = false;
  ForEachSubsetOfSize(nodes, width, [&](NumaMask mask) {
    found = HasRoom(topology, requests, mask, counted, usage);
    return !found;
  });
  return found;
}

bool NodeHasRoom(const Topology& topology, const DeviceRequests& requests, Counted counted,
                 const Usage& usage) {
  return HasRoom(topology, requests, topology.numa(), counted, usage);
}

std::string_view MissingResource(const Topology& topology, const Demand& demand) {
  for (const ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.devices) {
      if (count == 0 || topology.FindPool(resource) >= 0) continue;
      if (Contains(demand.accelerators, resource) || Contains(demand.endpoints, resource)) {
        return resource;
      }
    }
  }
  return "";
}

}  // namespace numafit::policy
