#include "policy/landing.h"

#include <algorithm>
#include <map>
#include <set>

#include "policy/numa_subsets.h"

namespace numafit::policy {
namespace {

using Masks = absl::InlinedVector<NumaMask, 8>;

constexpr Sightings kYes{.yes = true, .no = false, .unsure = false};
constexpr Sightings kNo{.yes = false, .no = true, .unsure = false};
constexpr Sightings kUnsure{.yes = false, .no = false, .unsure = true};

bool InPool(const Topology::Pool& pool, int class_index) {
  return class_index >= pool.first_class && class_index < pool.first_class + pool.class_count;
}

bool InAnyPool(const Topology& topology, const DeviceRequests& requests, int class_index) {
  return std::any_of(requests.begin(), requests.end(), [&](const DeviceRequest& request) {
    return InPool(topology.pools()[static_cast<std::size_t>(request.pool)], class_index);
  });
}

// Whether some `width` NUMA nodes touch every mask.
bool CanTouchAll(const Masks& masks, int width) {
  NumaMask nodes;
  for (const NumaMask mask : masks) nodes = nodes | mask;
  if (nodes.count() <= width) return true;
  if (SubsetsAreTooMany(nodes.count(), width)) return false;
  bool found = false;
  ForEachSubsetOfSize(nodes, width, [&](NumaMask pick) {
    found = std::all_of(masks.begin(), masks.end(),
                        [&](NumaMask mask) { return mask.intersects(pick); });
    return !found;
  });
  return found;
}

// Gives every token an endpoint of its own (augmenting paths); tokens are given as the endpoints
// that each may have.
class Matching {
 public:
  bool Add(std::span<const int> endpoints) {
    tokens_.push_back(endpoints);
    std::set<int> tried;
    return Place(static_cast<int>(tokens_.size()) - 1, tried);
  }

 private:
  bool Place(int token, std::set<int>& tried) {
    for (const int endpoint : tokens_[static_cast<std::size_t>(token)]) {
      if (!tried.insert(endpoint).second) continue;
      const auto holder = holders_.find(endpoint);
      if (holder == holders_.end() || Place(holder->second, tried)) {
        holders_[endpoint] = token;
        return true;
      }
    }
    return false;
  }

  std::vector<std::span<const int>> tokens_;
  std::map<int, int> holders_;  // endpoint -> token
};

Sightings DistinctInContainer(const Topology& topology, const DeviceHolding& endpoints) {
  Matching matching;
  std::set<int> seen;
  bool certain = true;
  int tokens = 0;
  for (const ClassCount& item : endpoints) {
    const std::span<const int> reach = topology.ClassEndpoints(item.class_index);
    const auto& k = topology.classes()[static_cast<std::size_t>(item.class_index)];
    // Two tokens of a class may share an endpoint unless each endpoint has one token only.
    if (item.count > 1 && static_cast<int>(reach.size()) < k.count) certain = false;
    for (const int endpoint : reach) {
      if (!seen.insert(endpoint).second) certain = false;
    }
    for (int i = 0; i < item.count; ++i) {
      if (!matching.Add(reach)) return kNo;
    }
    tokens += item.count;
  }
  return certain || tokens < 2 ? kYes : kUnsure;
}

}  // namespace

Landing::Landing(const Topology& topology, const Demand& demand)
    : topology_(topology), units_(AlignmentUnits(topology, demand)), widths_(units_.size()) {}

Sightings Landing::Of(const Outcome& outcome) {
  bool unsure = false;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Sightings unit = OfUnit(i, outcome);
    if (unit.no) return kNo;
    unsure = unsure || unit.unsure;
  }
  return unsure ? kUnsure : kYes;
}

Sightings Landing::OfUnit(std::size_t unit, const Outcome& outcome) {
  const AlignmentUnit& u = units_[unit];
  if (topology_.numa().count() == 1) return kYes;
  Masks masks;
  NumaMask common = topology_.numa();
  bool unsure = false;
  for (std::size_t i = u.first_container; i < u.last_container; ++i) {
    for (const ClassCount& item : outcome.containers[i].devices) {
      if (!InAnyPool(topology_, u.requests, item.class_index)) continue;
      const NumaMask numa =
          topology_.classes()[static_cast<std::size_t>(item.class_index)].hardware;
      if (numa.empty()) {
        unsure = true;
      } else {
        masks.push_back(numa);
        common = common & numa;
      }
    }
  }
  if (!common.empty()) return unsure ? kUnsure : kYes;
  std::optional<int>& width = widths_[unit];
  if (!width) width = FewestNumaNodes(topology_, u.requests);
  if (*width >= topology_.numa().count()) return kYes;
  if (!CanTouchAll(masks, *width)) return kNo;
  return unsure ? kUnsure : kYes;
}

Sightings DistinctEndpoints(const Topology& topology, const Demand& demand,
                            const Outcome& outcome) {
  DeviceRequests pools;
  for (const std::string& name : demand.endpoints) {
    const int pool = topology.FindPool(name);
    if (pool >= 0) pools.push_back({.pool = pool, .count = 1});
  }
  bool unsure = false;
  for (const ContainerAllocation& container : outcome.containers) {
    DeviceHolding endpoints;
    for (const ClassCount& item : container.devices) {
      if (InAnyPool(topology, pools, item.class_index)) endpoints.push_back(item);
    }
    const Sightings seen = DistinctInContainer(topology, endpoints);
    if (seen.no) return kNo;
    unsure = unsure || seen.unsure;
  }
  return unsure ? kUnsure : kYes;
}

}  // namespace numafit::policy
