#include "policy/device_manager/hints.h"

#include "policy/mutation.h"

namespace numafit::policy {
namespace {

using Kind = ResourceHints::Kind;

NumaMask CountedOn(NumaMask numa) {
  if (Mutated(Mutation::kSharedDeviceOnce) && !numa.empty()) return NumaMask::Of(numa.first());
  return numa;
}

// minAffinitySize. The topology knows it for all devices; the wrong rules of the test build are
// worked out here.
int PreferredWidth(const Topology& topology, const DeviceState& state, const Topology::Pool& pool,
                   const DeviceRequest& request) {
  const bool free_only = Mutated(Mutation::kWidthOverFree);
  if (!free_only && !Mutated(Mutation::kWidthSkipsUnhealthy)) {
    return topology.MinimalWidth(pool, request.count);
  }
  const PoolClasses range(pool);
  int best = pool.hint_numa.count();
  for (std::uint64_t bits = pool.hint_numa.bits(), sub = bits; sub != 0; sub = (sub - 1) & bits) {
    const NumaMask mask = NumaMask::FromBits(sub);
    std::int64_t count = 0;
    for (int c = range.begin; c < range.end; ++c) {
      const Topology::DeviceClass& k = topology.classes()[static_cast<std::size_t>(c)];
      if (!mask.intersects(k.numa) || !k.healthy) continue;
      count += free_only ? FreeDevices(topology, state, c) : k.count;
    }
    if (count >= request.count) best = std::min(best, mask.count());
  }
  return best;
}

// What follows from the supplies. `suffices`: there are as many devices as requested.
void Finish(const Topology& topology, const DeviceState& state, const DeviceRequest& request,
            bool suffices, ResourceHints& hints) {
  // Too few in all, or no set of NUMA nodes has enough: the largest set has the most.
  if (!suffices || !hints.Contains(hints.nodes)) {
    hints.kind = Mutated(Mutation::kNoRoomIsDontCare) ? Kind::kDontCare : Kind::kImpossible;
    return;
  }
  const Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
  hints.kind = Kind::kMasks;
  hints.preferred_width = PreferredWidth(topology, state, pool, request);
}

}  // namespace

ResourceHints DeviceHints(const Topology& topology, const DeviceState& state,
                          const DeviceRequest& request, bool use_reusable) {
  ResourceHints hints;
  const Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
  if (!pool.aligned) return hints;

  hints.nodes = pool.hint_numa;
  hints.request = request.count;
  std::int64_t available = 0;
  bool forbidden = false;
  const PoolClasses range(pool);
  for (int c = range.begin; c < range.end; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Topology::DeviceClass& device_class = topology.classes()[at];
    std::int64_t units = FreeDevices(topology, state, c);
    const int reusable = use_reusable ? state.reusable[at] : 0;
    available += units + reusable;
    if (reusable > 0 && device_class.has_topology) {
      // Every reusable device must touch a hint, but one without any topology.
      if (device_class.numa.empty()) forbidden = true;
      hints.must_touch.push_back(CountedOn(device_class.numa));
      units += reusable;
    }
    if (units > 0 && !device_class.numa.empty()) {
      hints.supplies.push_back({.numa = CountedOn(device_class.numa), .units = units});
    }
  }
  Finish(topology, state, request, available >= request.count && !forbidden, hints);
  return hints;
}

ResourceHints HeldDeviceHints(const Topology& topology, const DeviceState& state,
                              const DeviceRequest& request, const HeldDevices& held) {
  ResourceHints hints;
  const Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
  if (!pool.aligned) return hints;
  hints.nodes = pool.hint_numa;
  hints.request = request.count;
  const PoolClasses range(pool);
  for (const ClassCount& item : held.listed) {
    if (item.class_index < range.begin || item.class_index >= range.end) continue;
    const NumaMask numa = topology.classes()[static_cast<std::size_t>(item.class_index)].numa;
    if (!numa.empty()) hints.supplies.push_back({.numa = CountedOn(numa), .units = item.count});
  }
  Finish(topology, state, request, held.Of(topology, request.pool) == request.count, hints);
  return hints;
}

}  // namespace numafit::policy
