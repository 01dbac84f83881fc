#include "cli/admit/world.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace numafit::cli {

std::strong_ordering operator<=>(const ActivePod& a, const ActivePod& b) {
  const auto others = std::tie(a.holding, a.cpus, a.asked, a.started) <=>
                      std::tie(b.holding, b.cpus, b.asked, b.started);
  if (others != 0 || a.devices == b.devices) return others;
  return a.devices < b.devices ? std::strong_ordering::less : std::strong_ordering::greater;
}

void AddLeaving(World& world, policy::Holding holding) {
  holding.devices.clear();
  if (holding.empty()) return;
  const auto at = std::upper_bound(world.leaving.begin(), world.leaving.end(), holding);
  world.leaving.insert(at, std::move(holding));
}

void RemovePod(World& world, const std::string& pod) {
  const auto at = world.pods.find(pod);
  if (at == world.pods.end()) return;
  policy::Holding holding = std::move(at->second.holding);
  world.pods.erase(at);
  AddLeaving(world, std::move(holding));
  if (world.last_given.devices == pod) world.last_given.devices.clear();
  if (world.last_given.cpus == pod) {
    world.last_given.cpus.clear();
    world.last_given.left_cpus = {};
  }
  if (world.last_given.memory == pod) {
    world.last_given.memory.clear();
    world.last_given.left_memory.Clear();
  }
}

void AddCount(policy::DeviceHolding& holding, int class_index, int count) {
  const auto at = std::lower_bound(
      holding.begin(), holding.end(), class_index,
      [](const policy::ClassCount& k, int wanted) { return k.class_index < wanted; });
  if (at != holding.end() && at->class_index == class_index) {
    at->count += count;
  } else {
    holding.insert(at, {class_index, count});
  }
}

}  // namespace numafit::cli
