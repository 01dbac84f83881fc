#include "policy/score/packing.h"

#include <algorithm>
#include <cstdint>

#include "policy/score/score_strategy.h"

namespace numafit::policy {
namespace {

struct Share {
  std::int64_t used = 0;
  std::int64_t all = 0;
};

int HeldOf(const Outcome& outcome, int class_index) {
  for (const ClassCount& item : outcome.held.devices) {
    if (item.class_index == class_index) return item.count;
  }
  return 0;
}

std::int64_t Scaled(const Share& share) {
  return share.all == 0 ? 0 : std::min<std::int64_t>(share.used * kMaxScore / share.all, kMaxScore);
}

}  // namespace

int FullnessAfter(const Topology& topology, const Usage& before, const Outcome& outcome) {
  constexpr int kNumaParts = 3;
  std::int64_t sum = 0;
  int pools = 0;
  for (const Topology::Pool& pool : topology.pools()) {
    Share node;
    Share near;
    NumaMask touched;
    bool placeless = false;
    bool takes = false;
    const int end = pool.first_class + pool.class_count;
    for (int c = pool.first_class; c < end; ++c) {
      if (HeldOf(outcome, c) == 0) continue;
      takes = true;
      const NumaMask numa = topology.classes()[static_cast<std::size_t>(c)].numa;
      placeless = placeless || numa.empty();
      touched = touched | numa;
    }
    if (!takes) continue;
    for (int c = pool.first_class; c < end; ++c) {
      const Topology::DeviceClass& k = topology.classes()[static_cast<std::size_t>(c)];
      if (!k.healthy) continue;
      const std::int64_t used = before.taken(c) + HeldOf(outcome, c);
      node.used += used;
      node.all += k.count;
      if (k.numa.empty() ? placeless : k.numa.intersects(touched)) {
        near.used += used;
        near.all += k.count;
      }
    }
    sum += (Scaled(near) * kNumaParts + Scaled(node)) / (kNumaParts + 1);
    ++pools;
  }
  return pools == 0 ? 0 : static_cast<int>(sum / pools);
}

int NumaNodesUsed(const Topology& topology, const Outcome& outcome) {
  NumaMask used;
  // Devices with the fewest choices first.
  for (int choices = 1; choices <= topology.numa().count(); ++choices) {
    for (const ClassCount& item : outcome.held.devices) {
      const NumaMask numa = topology.classes()[static_cast<std::size_t>(item.class_index)].numa;
      if (numa.count() == choices && !numa.intersects(used)) used.add(numa.first());
    }
  }
  return std::max(1, used.count());
}

}  // namespace numafit::policy
