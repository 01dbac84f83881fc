#include <algorithm>
#include <bit>

#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"
#include "policy/numa_subsets.h"

namespace numafit::policy {
namespace {

// Sets of NUMA nodes by number: bit i is the NUMA node at position i.
template <typename T>
using BySet = absl::InlinedVector<T, 256>;

// sums[set] = the sum of value(position) over the set, wrapping around.
template <typename Value>
void SumUp(std::size_t nodes, Value&& value, BySet<std::uint64_t>& sums) {
  sums[0] = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    const std::size_t with = std::size_t{1} << i;
    const std::uint64_t more = value(i);
    for (std::size_t set = 0; set < with; ++set) sums[with + set] = sums[set] + more;
  }
}

// marks[set] becomes 1 where the sum is less than wanted.
void Mark(const BySet<std::uint64_t>& sums, std::uint64_t wanted, BySet<std::uint8_t>& marks) {
  for (std::size_t set = 1; set < sums.size(); ++set) {
    marks[set] = static_cast<std::uint8_t>(marks[set] | (sums[set] < wanted ? 1 : 0));
  }
}

// Which sets the groups of NUMA nodes allow.
class Groups {
 public:
  explicit Groups(const MemoryState& state) : state_(state) {
    for (std::size_t i = 0; i < state.nodes.size(); ++i) {
      const MemoryState::Node& node = state.nodes[i];
      const std::uint64_t bit = std::uint64_t{1} << i;
      const bool alone = node.cells.count() == 1;
      if (!alone) in_group_ |= bit;
      if (node.assignments <= 0) continue;
      (alone ? used_alone_ : used_in_group_) |= bit;
    }
  }
  [[nodiscard]] bool Allow(std::uint64_t set, NumaMask mask) const {
    if (Mutated(Mutation::kMemoryGroupsIgnored)) return true;
    if ((set & (set - 1)) == 0) return (set & in_group_) == 0;
    if ((set & used_alone_) != 0) return false;
    for (std::uint64_t rest = set & used_in_group_; rest != 0; rest &= rest - 1) {
      if (state_.nodes[static_cast<std::size_t>(std::countr_zero(rest))].cells != mask) {
        return false;
      }
    }
    return true;
  }

 private:
  const MemoryState& state_;
  std::uint64_t in_group_ = 0;
  std::uint64_t used_alone_ = 0;
  std::uint64_t used_in_group_ = 0;
};

}  // namespace

template <typename Visit>
int MemoryManager::ForEachHint(const MemoryState& state, const MemoryRequests& requests,
                               const ReusableMemory& reusable, Visit&& visit) const {
  const std::size_t nodes = ids_.size();
  const std::size_t end = std::size_t{1} << nodes;
  const NumaSubsets subsets(numa_);
  BySet<std::uint64_t> sums(end);
  BySet<std::uint8_t> too_small(end, 0);
  BySet<std::uint8_t> too_full(end, 0);
  for (const MemoryRequests::Item& item : requests.items) {
    SumUp(
        nodes, [&](std::size_t i) { return allocatable(i, item.type); }, sums);
    Mark(sums, item.bytes, too_small);
    SumUp(
        nodes, [&](std::size_t i) { return state.at(i, item.type).free; }, sums);
    for (const MemoryBlock& entry : reusable.entries()) {
      if (entry.type == item.type) sums[subsets.Compress(entry.numa)] += entry.size;
    }
    Mark(sums, item.bytes, too_full);
  }
  const Groups groups(state);
  const bool numbered_like_ids = numa_.bits() == end - 1;
  BySet<std::uint64_t>& counts = sums;
  SumUp(
      nodes, [](std::size_t) { return std::uint64_t{1}; }, counts);
  std::uint64_t width = nodes;
  for (std::uint64_t set = 1; set < end; ++set) {
    if (too_small[set] != 0) continue;
    if (!Mutated(Mutation::kMemoryWidthOverFree)) width = std::min(width, counts[set]);
    if (too_full[set] != 0) continue;
    width = std::min(width, counts[set]);
    const NumaMask mask = numbered_like_ids ? NumaMask::FromBits(set) : subsets.Expand(set);
    if (groups.Allow(set, mask)) visit(mask, static_cast<int>(counts[set]));
  }
  return static_cast<int>(width);
}

MemoryHints::Outcome MemoryManager::Walkable(const MemoryRequests& requests) const {
  for (const MemoryRequests::Item& item : requests.items) {
    const bool everywhere = item.type != kUnknownMemoryType &&
                            numa_of_type_[static_cast<std::size_t>(item.type)] == numa_;
    if (!everywhere && !ids_.empty()) return MemoryHints::Outcome::kPanics;
  }
  return ids_.size() > kMostNumaNodes ? MemoryHints::Outcome::kIntractable
                                      : MemoryHints::Outcome::kHints;
}

MemoryHints MemoryManager::Hints(const MemoryState& state, const MemoryRequests& requests,
                                 const ReusableMemory& reusable) const {
  MemoryHints result;
  if (requests.unreadable) return result;
  if (requests.items.empty() && version_.SkipsContainersWithoutMemory()) return result;
  result.outcome = Walkable(requests);
  // Without a request there is no list that a hint could go to.
  if (result.outcome != MemoryHints::Outcome::kHints || requests.items.empty()) return result;
  ResourceHints& hints = result.hints;
  hints.listed.reserve((std::size_t{1} << std::min<std::size_t>(ids_.size(), 8)) - 1);
  const int width = ForEachHint(state, requests, reusable,
                                [&](NumaMask mask, int) { hints.listed.push_back(mask); });
  if (hints.listed.empty()) {
    if (Mutated(Mutation::kMemoryNoRoomIsImpossible)) {
      hints.kind = ResourceHints::Kind::kImpossible;
    }
    return result;
  }
  hints.preferred_width = width;
  hints.kind = ResourceHints::Kind::kMasks;
  hints.nodes = numa_;
  hints.is_listed = true;
  hints.resources = static_cast<int>(requests.items.size());
  return result;
}

ResourceHints MemoryManager::RegeneratedHints(const MemoryRequests& requests,
                                              const MemoryBlocks& blocks) {
  ResourceHints hints;
  const bool same = !requests.unreadable && !blocks.empty() &&
                    std::equal(blocks.begin(), blocks.end(), requests.items.begin(),
                               requests.items.end(), [](const auto& block, const auto& item) {
                                 return block.type == item.type && block.size == item.bytes;
                               });
  if (!same) return hints;
  hints.kind = ResourceHints::Kind::kMasks;
  hints.nodes = blocks[0].numa;
  hints.preferred_width = hints.nodes.count();
  hints.is_listed = true;
  hints.listed.push_back(hints.nodes);
  hints.resources = static_cast<int>(blocks.size());
  return hints;
}

ResourceHints MemoryManager::NoHints(const MemoryRequests& requests) const {
  ResourceHints hints;
  hints.kind = ResourceHints::Kind::kImpossible;
  hints.nodes = numa_;
  hints.resources = static_cast<int>(requests.items.size());
  return hints;
}

std::optional<Hint> MemoryManager::FindBestHint(const MemoryState& state,
                                                const MemoryRequests& requests,
                                                const ReusableMemory& reusable,
                                                NumaMask included) const {
  std::optional<NumaMask> best;
  int best_count = 0;
  const int width = ForEachHint(state, requests, reusable, [&](NumaMask mask, int count) {
    if ((mask & included) != included) return;
    // Masks come numerically ascending, so of equally narrow ones the first is the narrowest.
    if (best && count >= best_count) return;
    best = mask;
    best_count = count;
  });
  if (!best) return std::nullopt;
  // No hint is narrower than a preferred one, so the narrowest is preferred if any is.
  return Hint{.affinity = best, .preferred = best_count == width};
}

}  // namespace numafit::policy
