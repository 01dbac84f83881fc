// A set of NUMA node ids.
#pragma once

#include <bit>
#include <cstdint>

namespace numafit::policy {

// Ids 0..63, one bit each: the twin of pkg/kubelet/cm/topologymanager/bitmask. A plain value.
class NumaMask {
 public:
  static constexpr int kMaxIds = 64;

  constexpr NumaMask() = default;
  static constexpr NumaMask FromBits(std::uint64_t bits) {
    NumaMask mask;
    mask.bits_ = bits;
    return mask;
  }
  // Precondition: 0 <= id < kMaxIds.
  static constexpr NumaMask Of(int id) { return FromBits(std::uint64_t{1} << id); }

  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr int count() const { return std::popcount(bits_); }
  [[nodiscard]] constexpr bool contains(int id) const { return ((bits_ >> id) & 1U) != 0; }
  [[nodiscard]] constexpr bool intersects(NumaMask other) const {
    return (bits_ & other.bits_) != 0;
  }
  // Smallest id in the set. Precondition: not empty.
  [[nodiscard]] constexpr int first() const { return std::countr_zero(bits_); }
  constexpr void add(int id) { bits_ |= std::uint64_t{1} << id; }

  // Fewer bits, or as many bits and the numerically smaller value (bitmask.IsNarrowerThan).
  [[nodiscard]] constexpr bool IsNarrowerThan(NumaMask other) const {
    if (count() != other.count()) return count() < other.count();
    return bits_ < other.bits_;
  }

  friend constexpr NumaMask operator&(NumaMask a, NumaMask b) {
    return FromBits(a.bits_ & b.bits_);
  }
  friend constexpr NumaMask operator|(NumaMask a, NumaMask b) {
    return FromBits(a.bits_ | b.bits_);
  }
  friend constexpr bool operator==(NumaMask, NumaMask) = default;

  // Calls f(id) for every id, ascending.
  template <typename F>
  constexpr void ForEach(F&& f) const {
    for (std::uint64_t rest = bits_; rest != 0; rest &= rest - 1) f(std::countr_zero(rest));
  }

 private:
  std::uint64_t bits_ = 0;
};

}  // namespace numafit::policy
