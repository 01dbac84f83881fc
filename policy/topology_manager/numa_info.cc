#include "policy/topology_manager/numa_info.h"

#include "policy/mutation.h"

namespace numafit::policy {

NumaInfo::NumaInfo(const Topology& topology, bool closest)
    : topology_(topology), closest_(closest && !Mutated(Mutation::kClosestIgnored)) {}

bool NumaInfo::IsBetter(NumaMask a, NumaMask b) const {
  if (a.count() != b.count()) return a.count() < b.count();
  if (closest_) {
    const std::int64_t sum_a = DistanceSum(a);
    const std::int64_t sum_b = DistanceSum(b);
    if (sum_a != sum_b) return sum_a < sum_b;
  }
  if (Mutated(Mutation::kTieBreakReversed)) return a.bits() > b.bits();
  return a.bits() < b.bits();
}

std::int64_t NumaInfo::DistanceSum(NumaMask mask) const {
  std::int64_t sum = 0;
  mask.ForEach(
      [&](int from) { mask.ForEach([&](int to) { sum += topology_.Distance(from, to); }); });
  return sum;
}

}  // namespace numafit::policy
