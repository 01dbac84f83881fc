// Walking the sets of NUMA nodes of one size.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "policy/numa_mask.h"

namespace numafit::policy {

// The ids of a mask, so that its subsets can be numbered 0 .. 2^n - 1. Numerical order is kept.
class NumaSubsets {
 public:
  explicit NumaSubsets(NumaMask mask) {
    mask.ForEach([&](int id) { ids_[count_++] = id; });
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] NumaMask Expand(std::uint64_t number) const {
    NumaMask mask;
    for (std::uint64_t rest = number; rest != 0; rest &= rest - 1) {
      mask.add(ids_[std::countr_zero(rest)]);
    }
    return mask;
  }
  // Ids that the mask has and the set has not are dropped.
  [[nodiscard]] std::uint64_t Compress(NumaMask mask) const {
    std::uint64_t number = 0;
    for (int i = 0; i < count_; ++i) {
      if (mask.contains(ids_[i])) number |= std::uint64_t{1} << i;
    }
    return number;
  }

 private:
  int ids_[NumaMask::kMaxIds] = {};
  int count_ = 0;
};

// More than about a million sets of this size: nobody may wait for a walk over them.
[[nodiscard]] constexpr bool SubsetsAreTooMany(int count, int size) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (size <= 0 || size >= count) return false;
  std::int64_t number = 1;
  for (int i = 1; i <= std::min(size, count - size); ++i) {
    number = number * (count - i + 1) / i;
    if (number > kMost) return true;
  }
  return count >= NumaMask::kMaxIds && size > 1;
}

// Calls f with every subset of this size, numerically ascending, while it returns true.
// Precondition: not too many.
template <typename F>
void ForEachSubsetOfSize(NumaMask nodes, int size, F&& f) {
  if (size <= 0 || size > nodes.count()) return;
  if (size == nodes.count()) {
    f(nodes);
    return;
  }
  if (size == 1) {
    for (std::uint64_t rest = nodes.bits(); rest != 0; rest &= rest - 1) {
      if (!f(NumaMask::FromBits(rest & (~rest + 1)))) return;
    }
    return;
  }
  const NumaSubsets subsets(nodes);
  const std::uint64_t end = std::uint64_t{1} << subsets.count();
  for (std::uint64_t pick = (std::uint64_t{1} << size) - 1; pick < end;) {
    if (!f(subsets.Expand(pick))) return;
    // The next number with as many bits.
    const std::uint64_t low = pick & (~pick + 1);
    const std::uint64_t up = pick + low;
    pick = (((pick ^ up) >> 2) / low) | up;
  }
}

}  // namespace numafit::policy
