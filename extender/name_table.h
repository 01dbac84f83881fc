// The fleet's node names in one piece of memory, in the order of their numbers.
//
// A filter call looks up thousands of names. Most are where they are expected, so that a look-up is
// one comparison; with every name in an allocation of its own each comparison would wait for
// memory. Names keep their number for the life of a Fleet. Not thread-safe: one per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cache/fleet.h"

namespace numafit::extender {

class NameTable {
 public:
  // Adds the nodes that have come since.
  void Follow(const cache::Fleet& fleet, const cache::Fleet::ReadGuard& guard) {
    if (size() != fleet.size()) Append(fleet, guard);
  }

  [[nodiscard]] std::size_t size() const { return ends_.size() - 1; }
  // Is this the name of the node `index`? False for an index that no node has.
  [[nodiscard]] bool Is(std::int32_t index, std::string_view name) const {
    const auto at = static_cast<std::size_t>(index);
    if (at + 1 >= ends_.size()) return false;
    const std::uint32_t begin = ends_[at];
    return ends_[at + 1] - begin == name.size() &&
           SameBytes(text_.data() + begin, name.data(), name.size());
  }

 private:
  // memcmp in place: for names of this length the call costs more than the comparison.
  static bool SameBytes(const char* a, const char* b, std::size_t size) {
    const auto word = [](const char* from) {
      std::uint64_t value = 0;
      std::memcpy(&value, from, sizeof(value));
      return value;
    };
    if (size < sizeof(std::uint64_t)) return std::memcmp(a, b, size) == 0;
    std::uint64_t differs = word(a + size - 8) ^ word(b + size - 8);
    for (std::size_t i = 0; i + 8 <= size; i += 8) differs |= word(a + i) ^ word(b + i);
    return differs == 0;
  }

  void Append(const cache::Fleet& fleet, const cache::Fleet::ReadGuard& guard);

  std::string text_;
  std::vector<std::uint32_t> ends_ = {0};  // name i is text_[ends_[i], ends_[i + 1])
};

}  // namespace numafit::extender
