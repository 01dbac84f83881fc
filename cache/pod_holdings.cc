#include "cache/pod_holdings.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cache/placement.h"

namespace numafit::cache {
namespace {

using api::HeldAlignment;

constexpr std::size_t kMostPossible = 8;

bool Has(const std::vector<std::string>& sorted, const std::string& name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

bool IsAccelerator(const policy::Demand& demand, const std::string& resource) {
  return Has(demand.accelerators, resource);
}

bool Counts(const policy::Demand& demand, const std::string& resource) {
  return IsAccelerator(demand, resource) || Has(demand.endpoints, resource);
}

std::vector<const policy::ContainerDemand*> Asking(const policy::Demand& demand) {
  std::vector<const policy::ContainerDemand*> asking;
  for (const policy::ContainerDemand& container : demand.containers) {
    if (std::any_of(container.devices.begin(), container.devices.end(), [&](const auto& each) {
          return each.second > 0 && Counts(demand, each.first);
        })) {
      asking.push_back(&container);
    }
  }
  return asking;
}

// Accelerators and endpoints of a Pod's holding.
std::vector<api::HeldPlace> PlacesOf(const policy::Topology& topology, const policy::Demand& demand,
                                     const policy::DeviceHolding& held) {
  std::vector<api::HeldPlace> places;
  for (const policy::Topology::Pool& pool : topology.pools()) {
    if (!Counts(demand, pool.resource)) continue;
    for (const policy::ClassCount& item : held) {
      const int end = pool.first_class + pool.class_count;
      if (item.class_index < pool.first_class || item.class_index >= end) continue;
      const auto& device_class = topology.classes()[static_cast<std::size_t>(item.class_index)];
      api::HeldPlace place{.resource = pool.resource,
                           .is_accelerator = IsAccelerator(demand, pool.resource),
                           .numa_nodes = {},
                           .published = device_class.has_topology,
                           .count = item.count};
      device_class.numa.ForEach([&](int numa) { place.numa_nodes.push_back(numa); });
      api::AddPlace(std::move(place), &places);
    }
  }
  return places;
}

// The Pod's total, given to its containers where it can be told who has what.
std::vector<ContainerHoldings> Split(const std::vector<const policy::ContainerDemand*>& asking,
                                     const std::vector<api::HeldPlace>& places) {
  std::set<std::string> resources;
  for (const api::HeldPlace& place : places) resources.insert(place.resource);
  const bool one_place_each = resources.size() == places.size();
  // What an init container leaves goes on to later ones.
  const bool has_init = std::any_of(asking.begin(), asking.end(), [](const auto* container) {
    return container->kind == policy::ContainerDemand::Kind::kInit;
  });
  std::vector<ContainerHoldings> containers;
  if (asking.size() > 1 && one_place_each && !has_init) {
    for (const policy::ContainerDemand* container : asking) {
      ContainerHoldings& own = containers.emplace_back();
      own.places.name = container->name;
      for (const api::HeldPlace& place : places) {
        const auto asked = container->devices.find(place.resource);
        if (asked == container->devices.end() || asked->second == 0) continue;
        own.places.devices.push_back(place);
        own.places.devices.back().count = static_cast<int>(asked->second);
      }
      own.alignment = api::AlignmentOf(own.places.devices);
    }
    return containers;
  }
  ContainerHoldings& all = containers.emplace_back();
  std::set<int> numa_nodes;
  for (const policy::ContainerDemand* container : asking) {
    all.places.name += (all.places.name.empty() ? "" : ", ") + container->name;
  }
  all.places.init = asking.size() == 1 && has_init;
  all.places.devices = places;
  for (const api::HeldPlace& place : places) {
    numa_nodes.insert(place.numa_nodes.begin(), place.numa_nodes.end());
  }
  all.alignment = api::AlignmentOf(places);
  if (asking.size() > 1 && numa_nodes.size() > 1) all.alignment = HeldAlignment::kUnknown;
  return containers;
}

// What the containers ask for, wherever it may be.
std::vector<ContainerHoldings> Asked(const policy::Demand& demand,
                                     const std::vector<const policy::ContainerDemand*>& asking) {
  std::vector<ContainerHoldings> containers;
  for (const policy::ContainerDemand* container : asking) {
    ContainerHoldings& own = containers.emplace_back();
    own.places.name = container->name;
    own.places.init = container->kind == policy::ContainerDemand::Kind::kInit;
    for (const auto& [resource, count] : container->devices) {
      if (count == 0 || !Counts(demand, resource)) continue;
      own.places.devices.push_back({.resource = resource,
                                    .is_accelerator = IsAccelerator(demand, resource),
                                    .numa_nodes = {},
                                    .published = true,
                                    .count = static_cast<int>(count)});
    }
    own.alignment = api::AlignmentOf(own.places.devices);
  }
  return containers;
}

// A container that is aligned, or is not, whatever the kubelet has picked.
void KeepWhatIsCertain(const policy::Topology& topology, const PodOnNode& pod,
                       const std::vector<const policy::ContainerDemand*>& asking,
                       std::vector<ContainerHoldings>& containers) {
  std::vector<std::set<HeldAlignment>> outcomes(containers.size());
  for (const policy::DeviceHolding& held : pod.may_hold) {
    const std::vector<ContainerHoldings> picked =
        Split(asking, PlacesOf(topology, pod.demand, held));
    for (std::size_t i = 0; i < containers.size(); ++i) {
      // Several containers with one entry: its word holds for each of them only if it is certain.
      const ContainerHoldings& entry = picked.size() == containers.size() ? picked[i] : picked[0];
      outcomes[i].insert(entry.alignment);
    }
  }
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (containers[i].alignment == HeldAlignment::kNotNeeded || outcomes[i].size() != 1) continue;
    containers[i].alignment = *outcomes[i].begin();
  }
}

}  // namespace

HeldAlignment PodHoldings::alignment() const {
  HeldAlignment worst = HeldAlignment::kNotNeeded;
  for (const ContainerHoldings& container : containers) {
    worst = std::max(worst, container.alignment);
  }
  return worst;
}

PodHoldings HoldingsOf(const NodeView& node, const PodOnNode& pod) {
  PodHoldings holdings;
  if (pod.places != nullptr) {
    for (const api::ContainerPlaces& container : *pod.places) {
      holdings.containers.push_back({container, api::AlignmentOf(container.devices)});
    }
    return holdings;
  }
  const std::vector<const policy::ContainerDemand*> asking = Asking(pod.demand);
  if (asking.empty()) return holdings;
  const policy::Topology& topology = *node.state->topology;
  const bool is_known = node.state->HasInventory() && pod.may_hold.size() == 1;
  if (is_known) {
    holdings.containers = Split(asking, PlacesOf(topology, pod.demand, pod.may_hold.front()));
    return holdings;
  }
  holdings.containers = Asked(pod.demand, asking);
  if (!node.state->HasInventory()) return holdings;
  for (const policy::DeviceHolding& held : pod.may_hold) {
    if (holdings.possible.size() == kMostPossible) break;
    holdings.possible.push_back(HoldingText(topology, held));
  }
  KeepWhatIsCertain(topology, pod, asking, holdings.containers);
  return holdings;
}

int MisalignedContainers(const NodeView& node) {
  int misaligned = 0;
  for (const PodOnNode& pod : node.pods) {
    if (pod.state == PodOnNode::State::kReserved) continue;
    const PodHoldings holdings = HoldingsOf(node, pod);
    misaligned += static_cast<int>(std::count_if(
        holdings.containers.begin(), holdings.containers.end(),
        [](const auto& each) { return each.alignment == HeldAlignment::kMisaligned; }));
  }
  return misaligned;
}

}  // namespace numafit::cache
