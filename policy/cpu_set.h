// A set of logical CPUs.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace numafit::policy {

// Ids 0..4095, one bit each; machines of up to 256 CPUs need no heap. Twin of
// k8s.io/utils/cpuset. A plain value: equal sets are equal objects, with an order of no meaning.
class CpuSet {
 public:
  static constexpr int kMaxIds = 4096;

  CpuSet() = default;
  // Precondition of everything that takes an id: 0 <= id < kMaxIds.
  CpuSet(std::initializer_list<int> ids) {
    for (const int id : ids) Add(id);
  }

  [[nodiscard]] bool empty() const {
    return (low_[0] | low_[1] | low_[2] | low_[3]) == 0 && high_.empty();
  }
  [[nodiscard]] int count() const {
    int sum = 0;
    for (const std::uint64_t word : low_) sum += Count(word);
    for (const std::uint64_t word : high_) sum += Count(word);
    return sum;
  }
  [[nodiscard]] bool contains(int id) const {
    const auto at = static_cast<std::size_t>(id) / 64;
    const std::uint64_t word =
        at < kLow ? low_[at] : (at - kLow < high_.size() ? high_[at - kLow] : 0);
    return ((word >> (id % 64)) & 1U) != 0;
  }
  void Add(int id) {
    const auto at = static_cast<std::size_t>(id) / 64;
    if (at >= kLow && at - kLow >= high_.size()) high_.resize(at - kLow + 1, 0);
    Word(at) |= std::uint64_t{1} << (id % 64);
  }
  void Remove(int id) {
    const auto at = static_cast<std::size_t>(id) / 64;
    if (at >= kLow && at - kLow >= high_.size()) return;
    Word(at) &= ~(std::uint64_t{1} << (id % 64));
    Trim();
  }

  [[nodiscard]] bool intersects(const CpuSet& other) const {
    for (std::size_t i = 0; i < kLow; ++i) {
      if ((low_[i] & other.low_[i]) != 0) return true;
    }
    for (std::size_t i = 0; i < CommonHigh(other); ++i) {
      if ((high_[i] & other.high_[i]) != 0) return true;
    }
    return false;
  }
  [[nodiscard]] bool IsSubsetOf(const CpuSet& other) const {
    if (high_.size() > other.high_.size()) return false;
    for (std::size_t i = 0; i < kLow; ++i) {
      if ((low_[i] & ~other.low_[i]) != 0) return false;
    }
    for (std::size_t i = 0; i < high_.size(); ++i) {
      if ((high_[i] & ~other.high_[i]) != 0) return false;
    }
    return true;
  }
  // (*this & other).count() without making the set.
  [[nodiscard]] int CountAnd(const CpuSet& other) const {
    int sum = 0;
    for (std::size_t i = 0; i < kLow; ++i) sum += Count(low_[i] & other.low_[i]);
    for (std::size_t i = 0; i < CommonHigh(other); ++i) sum += Count(high_[i] & other.high_[i]);
    return sum;
  }

  CpuSet& operator|=(const CpuSet& other) {
    for (std::size_t i = 0; i < kLow; ++i) low_[i] |= other.low_[i];
    if (other.high_.size() > high_.size()) high_.resize(other.high_.size(), 0);
    for (std::size_t i = 0; i < other.high_.size(); ++i) high_[i] |= other.high_[i];
    return *this;
  }
  CpuSet& operator&=(const CpuSet& other) {
    for (std::size_t i = 0; i < kLow; ++i) low_[i] &= other.low_[i];
    high_.resize(CommonHigh(other));
    for (std::size_t i = 0; i < high_.size(); ++i) high_[i] &= other.high_[i];
    Trim();
    return *this;
  }
  CpuSet& operator-=(const CpuSet& other) {
    for (std::size_t i = 0; i < kLow; ++i) low_[i] &= ~other.low_[i];
    for (std::size_t i = 0; i < CommonHigh(other); ++i) high_[i] &= ~other.high_[i];
    Trim();
    return *this;
  }
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return std::move(a |= b); }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return std::move(a &= b); }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return std::move(a -= b); }

  friend bool operator==(const CpuSet&, const CpuSet&) = default;
  friend std::strong_ordering operator<=>(const CpuSet&, const CpuSet&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const CpuSet& set) {
    return H::combine(std::move(state), set.low_, set.high_);
  }

  // Calls f(id) for every id, ascending. f must not change the set.
  template <typename F>
  void ForEach(F&& f) const {
    for (std::size_t i = 0; i < kLow + high_.size(); ++i) {
      for (std::uint64_t rest = i < kLow ? low_[i] : high_[i - kLow]; rest != 0; rest &= rest - 1) {
        f(static_cast<int>(i) * 64 + std::countr_zero(rest));
      }
    }
  }

 private:
  static constexpr std::size_t kLow = 4;

  // Most words of a NUMA node's set are 0, and counting costs more than asking.
  static int Count(std::uint64_t word) { return word == 0 ? 0 : std::popcount(word); }
  [[nodiscard]] std::uint64_t& Word(std::size_t at) {
    return at < kLow ? low_[at] : high_[at - kLow];
  }
  [[nodiscard]] std::size_t CommonHigh(const CpuSet& other) const {
    return high_.size() < other.high_.size() ? high_.size() : other.high_.size();
  }
  // The last of the high words is never 0.
  void Trim() {
    while (!high_.empty() && high_.back() == 0) high_.pop_back();
  }

  std::array<std::uint64_t, kLow> low_{};  // ids 0..255
  std::vector<std::uint64_t> high_;        // those above
};

// As the kubelet writes sets, in its state file and in messages: "0-3,8"; "" for the empty set.
[[nodiscard]] std::string FormatCpuSet(const CpuSet& set);

// Reads that form and what people write (any order, overlaps), like the kubelet's reservedCpus.
// InvalidArgument with the part that is wrong.
[[nodiscard]] absl::StatusOr<CpuSet> ParseCpuSet(std::string_view text);

}  // namespace numafit::policy
