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
  policy::Holding holding = std::move(at->second);
  world.pods.erase(at);
  AddLeaving(world, std::move(holding));
}

}  // namespace numafit::cli
