#include "cli/admit/world.h"

#include <algorithm>
#include <utility>

namespace numafit::cli {

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
