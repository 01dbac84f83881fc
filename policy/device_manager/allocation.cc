#include "policy/device_manager/allocation.h"

#include <cstddef>
#include <set>

namespace numafit::policy {
namespace {

// Whether devices of the class come before others under this affinity.
enum class Nearness { kAligned, kElsewhere, kPlaceless };

Nearness NearnessOf(const Topology::Pool& pool, const Topology::DeviceClass& device_class,
                    std::optional<NumaMask> affinity) {
  if (!affinity || !pool.aligned) return Nearness::kPlaceless;
  if (device_class.numa.intersects(*affinity)) return Nearness::kAligned;
  return device_class.placeless ? Nearness::kPlaceless : Nearness::kElsewhere;
}

int Sum(const ClassCounts& counts) {
  int sum = 0;
  for (const ClassCount& item : counts) sum += item.count;
  return sum;
}

void Append(ClassCounts& to, const ClassCounts& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Takes `count` of `group` into the plan; the group has enough.
void TakeFrom(AllocationPlan& plan, const ClassCounts& group, std::int64_t count, bool ordered) {
  const int wanted = static_cast<int>(count);
  if (wanted == 0) return;
  if (ordered) {
    int left = wanted;
    for (const ClassCount& item : group) {
      const int n = std::min(left, item.count);
      if (n > 0) plan.taken.push_back({item.class_index, n});
      left -= n;
    }
  } else if (group.size() == 1) {
    plan.taken.push_back({group[0].class_index, wanted});
  } else if (Sum(group) == wanted) {
    Append(plan.taken, group);
  } else {
    plan.choice = group;
    plan.chosen = wanted;
  }
}

// Returns how many are still wanted.
std::int64_t TakeReusable(const Topology::Pool& pool, const DeviceState& state,
                          std::int64_t request, AllocationPlan& plan) {
  ClassCounts reusable;
  const PoolClasses range(pool);
  for (int c = range.begin; c < range.end; ++c) {
    const int n = state.reusable[static_cast<std::size_t>(c)];
    if (n > 0) reusable.push_back({c, n});
  }
  const int all = Sum(reusable);
  if (all <= request) {
    plan.reused = std::move(reusable);
    return request - all;
  }
  if (reusable.size() == 1) {
    plan.reused.push_back({reusable[0].class_index, static_cast<int>(request)});
  } else {
    plan.choice = std::move(reusable);
    plan.chosen = static_cast<int>(request);
    plan.choose_reusable = true;
  }
  return 0;
}

AllocationPlan PlanOfKubelet(const Topology& topology, const DeviceState& state,
                             const DeviceRequest& request, std::optional<NumaMask> affinity) {
  AllocationPlan plan;
  const Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
  const PoolClasses range(pool);
  bool any_healthy = false;
  for (int c = range.begin; c < range.end; ++c) {
    any_healthy = any_healthy || topology.classes()[static_cast<std::size_t>(c)].healthy;
  }
  // Checked before the quantity: a limit of zero fails too.
  if (!any_healthy) {
    plan.possible = false;
    return plan;
  }
  if (request.count == 0) return plan;
  std::int64_t wanted = TakeReusable(pool, state, request.count, plan);
  if (wanted == 0) return plan;

  ClassCounts groups[3];
  std::int64_t available = 0;
  for (int c = range.begin; c < range.end; ++c) {
    const int free = FreeDevices(topology, state, c);
    if (free == 0) continue;
    available += free;
    const auto& device_class = topology.classes()[static_cast<std::size_t>(c)];
    groups[static_cast<int>(NearnessOf(pool, device_class, affinity))].push_back({c, free});
  }
  if (available < wanted) {
    plan.possible = false;
    return plan;
  }
  const std::int64_t aligned = Sum(groups[0]);
  if (wanted <= aligned) {
    TakeFrom(plan, groups[0], wanted, pool.has_preference);
    return plan;
  }
  Append(plan.taken, groups[0]);
  wanted -= aligned;
  if (pool.has_preference) {
    // The plugin is asked about all that is left, near or not.
    ClassCounts rest = groups[1];
    Append(rest, groups[2]);
    std::sort(rest.begin(), rest.end());
    TakeFrom(plan, rest, wanted, /*ordered=*/true);
    return plan;
  }
  const std::int64_t elsewhere = Sum(groups[1]);
  if (wanted <= elsewhere) {
    TakeFrom(plan, groups[1], wanted, /*ordered=*/false);
    return plan;
  }
  Append(plan.taken, groups[1]);
  TakeFrom(plan, groups[2], wanted - elsewhere, /*ordered=*/false);
  return plan;
}

// How many different endpoints the plugin can choose from; the most, as classes go.
std::size_t EndpointsOf(const Topology& topology, const AllocationPlan& plan) {
  std::set<int> endpoints;
  for (const ClassCounts* part : {&plan.reused, &plan.taken, &plan.choice}) {
    for (const ClassCount& item : *part) {
      const auto of_class = topology.ClassEndpoints(item.class_index);
      endpoints.insert(of_class.begin(), of_class.end());
    }
  }
  return endpoints.size();
}

}  // namespace

AllocationPlan PlanAllocation(const Topology& topology, const DeviceState& state,
                              const DeviceRequest& request, std::optional<NumaMask> affinity) {
  AllocationPlan plan = PlanOfKubelet(topology, state, request, affinity);
  const Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
  if (plan.possible && pool.one_token_per_endpoint && request.count > 1 &&
      EndpointsOf(topology, plan) < static_cast<std::size_t>(request.count)) {
    plan.possible = false;
  }
  return plan;
}

}  // namespace numafit::policy
