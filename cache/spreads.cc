#include "cache/spreads.h"

#include <algorithm>

#include "policy/admit.h"

namespace numafit::cache {
namespace {

// PossiblePicks looks at so many candidates at most.
constexpr std::size_t kMaxCandidates = 2048;
// Pairs of NUMA nodes are looked at up to this many NUMA nodes.
constexpr int kMaxNumaForPairs = 8;

int Free(const policy::Topology& topology, const policy::Usage& used, int class_index) {
  const policy::Topology::DeviceClass& device_class =
      topology.classes()[static_cast<std::size_t>(class_index)];
  return device_class.healthy ? std::max(0, device_class.count - used.taken(class_index)) : 0;
}

// Appends to `spreads` every way to take `count` devices of the classes [at, end), each added to
// `partial`. False when there are more than `limit`.
bool SpreadPool(const policy::Topology& topology, const policy::Usage& used, int at, int end,
                int count, const policy::DeviceHolding& partial, std::size_t limit,
                std::vector<policy::DeviceHolding>& spreads) {
  if (count == 0) {
    spreads.push_back(partial);
    return spreads.size() <= limit;
  }
  if (at == end) return true;
  const int most = std::min(count, Free(topology, used, at));
  for (int take = most; take >= 0; --take) {
    policy::DeviceHolding next = partial;
    if (take > 0) next.push_back({at, take});
    if (!SpreadPool(topology, used, at + 1, end, count - take, next, limit, spreads)) return false;
  }
  return true;
}

int FreeInPool(const policy::Topology& topology, const policy::Usage& used,
               const policy::Topology::Pool& pool) {
  int free = 0;
  for (int i = 0; i < pool.class_count; ++i) free += Free(topology, used, pool.first_class + i);
  return free;
}

// Takes the devices of a pool, those near `mask` last (or first).
void TakeByDistance(const policy::Topology& topology, const policy::Usage& used,
                    const policy::Topology::Pool& pool, int count, policy::NumaMask mask,
                    bool near_first, policy::DeviceHolding& holding) {
  for (const bool near : {near_first, !near_first}) {
    for (int i = pool.first_class; i < pool.first_class + pool.class_count && count > 0; ++i) {
      const bool is_near = topology.classes()[static_cast<std::size_t>(i)].numa.intersects(mask);
      if (is_near != near) continue;
      const int take = std::min(count, Free(topology, used, i));
      if (take > 0) holding.push_back({i, take});
      count -= take;
    }
  }
}

std::vector<policy::NumaMask> InterestingMasks(const policy::Topology& topology) {
  std::vector<policy::NumaMask> masks;
  topology.numa().ForEach([&](int id) { masks.push_back(policy::NumaMask::Of(id)); });
  if (topology.numa().count() <= kMaxNumaForPairs) {
    const std::size_t singles = masks.size();
    for (std::size_t a = 0; a < singles; ++a) {
      for (std::size_t b = a + 1; b < singles; ++b) masks.push_back(masks[a] | masks[b]);
    }
  }
  return masks;
}

}  // namespace

PoolTotals TotalsOf(const policy::Topology& topology, const policy::Demand& demand) {
  PoolTotals totals;
  for (int pool = 0; pool < static_cast<int>(topology.pools().size()); ++pool) {
    const std::string& resource = topology.pools()[static_cast<std::size_t>(pool)].resource;
    std::int64_t total = 0;
    std::int64_t reusable = 0;  // of earlier init containers
    for (const policy::ContainerDemand& container : demand.containers) {
      const auto wanted = container.devices.find(resource);
      if (wanted == container.devices.end()) continue;
      const std::int64_t reused = std::min(reusable, wanted->second);
      total += wanted->second - reused;
      if (container.kind == policy::ContainerDemand::Kind::kInit) {
        reusable += wanted->second - reused;
      } else {
        reusable -= reused;
      }
    }
    constexpr std::int64_t kMost = 1'000'000'000;
    if (total > 0) totals.emplace_back(pool, static_cast<int>(std::min(total, kMost)));
  }
  return totals;
}

PoolTotals TotalsOf(const policy::Topology& topology, const policy::DeviceHolding& holding) {
  PoolTotals totals;
  for (const policy::ClassCount& item : holding) {
    int pool = 0;
    while (item.class_index >= topology.pools()[static_cast<std::size_t>(pool)].first_class +
                                   topology.pools()[static_cast<std::size_t>(pool)].class_count) {
      ++pool;
    }
    if (totals.empty() || totals.back().first != pool) totals.emplace_back(pool, 0);
    totals.back().second += item.count;
  }
  return totals;
}

std::vector<policy::DeviceHolding> AllSpreads(const policy::Topology& topology,
                                              const policy::Usage& used, const PoolTotals& totals,
                                              std::size_t limit) {
  std::vector<policy::DeviceHolding> spreads = {policy::DeviceHolding{}};
  for (const auto& [index, total] : totals) {
    const policy::Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(index)];
    const int count = std::min(total, FreeInPool(topology, used, pool));
    std::vector<policy::DeviceHolding> wider;
    for (const policy::DeviceHolding& spread : spreads) {
      if (!SpreadPool(topology, used, pool.first_class, pool.first_class + pool.class_count, count,
                      spread, limit, wider)) {
        return {};
      }
    }
    spreads = std::move(wider);
  }
  return spreads;
}

std::vector<policy::DeviceHolding> ExtremeSpreads(const policy::Topology& topology,
                                                  const policy::Usage& used,
                                                  const PoolTotals& totals, std::size_t limit) {
  std::vector<policy::DeviceHolding> spreads;
  for (const policy::NumaMask mask : InterestingMasks(topology)) {
    // Bit 0: near the mask first, for every other resource; bit 1: for the rest.
    for (const unsigned mode : {0U, 3U, 1U, 2U}) {
      policy::DeviceHolding holding;
      for (std::size_t i = 0; i < totals.size(); ++i) {
        const policy::Topology::Pool& pool =
            topology.pools()[static_cast<std::size_t>(totals[i].first)];
        const bool near_first = ((mode >> (i % 2)) & 1U) != 0;
        TakeByDistance(topology, used, pool, totals[i].second, mask, near_first, holding);
      }
      std::sort(holding.begin(), holding.end());
      if (std::find(spreads.begin(), spreads.end(), holding) == spreads.end()) {
        spreads.push_back(std::move(holding));
      }
      if (spreads.size() == limit) return spreads;
    }
  }
  return spreads;
}

std::vector<policy::DeviceHolding> PossiblePicks(const policy::Topology& topology,
                                                 const policy::Demand& demand, std::size_t limit) {
  const policy::Usage empty(topology);
  const PoolTotals totals = TotalsOf(topology, demand);
  if (!policy::Enforces(topology.kubelet().policy)) {
    return AllSpreads(topology, empty, totals, limit);
  }
  policy::Usage full(topology);
  policy::DeviceHolding everything;
  for (int i = 0; i < static_cast<int>(topology.classes().size()); ++i) {
    if (const int free = Free(topology, empty, i); free > 0) everything.push_back({i, free});
  }
  full.Add(everything);
  std::vector<policy::DeviceHolding> picks;
  for (const policy::DeviceHolding& candidate :
       AllSpreads(topology, empty, totals, kMaxCandidates)) {
    policy::Usage rest = full;
    rest.Remove(candidate);
    const policy::AdmitResult result = policy::Admit(topology, rest, demand);
    const bool admits =
        std::any_of(result.outcomes.begin(), result.outcomes.end(),
                    [](const policy::Outcome& outcome) { return outcome.admitted; });
    if (admits) picks.push_back(candidate);
    if (picks.size() > limit) return {};
  }
  return picks;
}

}  // namespace numafit::cache
