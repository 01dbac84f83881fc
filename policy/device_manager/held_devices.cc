#include "policy/device_manager/held_devices.h"

#include <algorithm>

#include "policy/device_manager/state.h"

namespace numafit::policy {
namespace {

bool IsOf(const Topology& topology, int pool, const ClassCount& item) {
  const PoolClasses range(topology.pools()[static_cast<std::size_t>(pool)]);
  return item.class_index >= range.begin && item.class_index < range.end;
}

}  // namespace

int HeldDevices::Of(const Topology& topology, int pool) const {
  int count = 0;
  for (const ClassCount& item : listed) count += IsOf(topology, pool, item) ? item.count : 0;
  for (const Unlisted& item : unlisted) count += item.pool == pool ? item.count : 0;
  return count;
}

bool HeldDevices::HasUnlisted(int pool) const {
  return std::any_of(unlisted.begin(), unlisted.end(),
                     [&](const Unlisted& item) { return item.pool == pool && item.count > 0; });
}

bool HeldDevices::AreHealthy(const Topology& topology, int pool) const {
  return !HasUnlisted(pool) &&
         std::all_of(listed.begin(), listed.end(), [&](const ClassCount& item) {
           return !IsOf(topology, pool, item) ||
                  topology.classes()[static_cast<std::size_t>(item.class_index)].healthy;
         });
}

}  // namespace numafit::policy
