// Which devices does a container get? Twin of devicemanager's devicesToAllocate and
// filterByAffinity.
//
// 1. Devices of earlier init containers first, any of them.
// 2. Of the free devices those that touch the affinity (aligned), then those on other NUMA nodes,
//    then those without a NUMA node. Without an affinity, or in a pool without topology, all are
//    alike.
// 3. Within the group in which the request ends, the plugin's order of preference decides; without
//    one any pick is possible.
//
// Then the plugin's Allocate has a say: of a resource with one token per endpoint it fails where
// the devices that it may choose from are of fewer endpoints than the container has tokens.
//
// So a plan is: some devices for certain, and at most one choice of k out of some classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "policy/device_manager/state.h"
#include "policy/topology.h"
#include "policy/topology_manager/scope.h"
#include "policy/usage.h"

namespace numafit::policy {

using ClassCounts = absl::InlinedVector<ClassCount, 8>;

struct AllocationPlan {
  // False: the kubelet fails (UnexpectedAdmissionError), too few devices or none that is healthy,
  // or the plugin does.
  bool possible = true;
  ClassCounts reused;  // for certain, of the reusable ones
  ClassCounts taken;   // for certain, of the free ones
  // `chosen` more out of `choice`, from the reusable or from the free devices. chosen is less than
  // the sum of choice and choice has two classes or more; else both are empty.
  ClassCounts choice;
  int chosen = 0;
  bool choose_reusable = false;
};

[[nodiscard]] AllocationPlan PlanAllocation(const Topology& topology, const DeviceState& state,
                                            const DeviceRequest& request,
                                            std::optional<NumaMask> affinity);

// Calls f(split) for every way to take `count` out of `classes`, while f returns true; the split
// has an entry per class, zeros included. As many as possible from the first classes come first.
// Returns false when f did.
template <typename F>
bool ForEachSplit(const ClassCounts& classes, int count, F&& f) {
  absl::InlinedVector<int, 8> split(classes.size(), 0);
  // room[i]: how many the classes from i on have.
  absl::InlinedVector<int, 9> room(classes.size() + 1, 0);
  for (std::size_t i = classes.size(); i-- > 0;) room[i] = room[i + 1] + classes[i].count;
  const auto place = [&](const auto& self, std::size_t at, int left) -> bool {
    if (at == classes.size()) return f(split);
    const int most = std::min(left, classes[at].count);
    const int least = std::max(0, left - room[at + 1]);
    for (int n = most; n >= least; --n) {
      split[at] = n;
      if (!self(self, at + 1, left - n)) return false;
    }
    return true;
  };
  return place(place, 0, count);
}

}  // namespace numafit::policy
