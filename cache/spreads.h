// The ways in which devices that are counted per resource may be spread over device classes.
#pragma once

#include <utility>
#include <vector>

#include "policy/demand.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::cache {

// (pool, count), sorted by pool.
using PoolTotals = std::vector<std::pair<int, int>>;

// What a Pod takes in all, init containers' leftovers included: the same whatever the kubelet
// picks.
[[nodiscard]] PoolTotals TotalsOf(const policy::Topology& topology, const policy::Demand& demand);

// What a holding has of each pool.
[[nodiscard]] PoolTotals TotalsOf(const policy::Topology& topology,
                                  const policy::DeviceHolding& holding);

// Every way to take `totals` from the healthy devices that `used` leaves. Empty when there are
// more than `limit`; a single empty holding when there is nothing to take. Totals above what is
// left are cut down to it.
[[nodiscard]] std::vector<policy::DeviceHolding> AllSpreads(const policy::Topology& topology,
                                                            const policy::Usage& used,
                                                            const PoolTotals& totals,
                                                            std::size_t limit);

// Some of them: for every NUMA node, and every pair while there are few, the ones that leave most
// and least room there, alike for every resource and opposed. Where AllSpreads gives up, these are
// the ones that alignment depends on.
[[nodiscard]] std::vector<policy::DeviceHolding> ExtremeSpreads(const policy::Topology& topology,
                                                                const policy::Usage& used,
                                                                const PoolTotals& totals,
                                                                std::size_t limit);

// The spreads that this kubelet may have picked for `demand` in some state: those it admits when
// nothing else is free. Kubelets that do not enforce may have picked any. Empty when there are more
// than `limit`.
[[nodiscard]] std::vector<policy::DeviceHolding> PossiblePicks(const policy::Topology& topology,
                                                               const policy::Demand& demand,
                                                               std::size_t limit);

}  // namespace numafit::cache
