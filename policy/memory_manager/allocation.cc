#include <algorithm>
#include <optional>

#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

using Outcome = MemoryAllocation::Outcome;

// The kubelet looks for memory's list when it needs a hint of its own, whatever is requested.
bool RequestsMemory(const MemoryRequests& requests) {
  return std::any_of(requests.items.begin(), requests.items.end(),
                     [](const auto& item) { return item.type == kMemoryType; });
}

Outcome NotWalkable(MemoryHints::Outcome outcome) {
  return outcome == MemoryHints::Outcome::kPanics ? Outcome::kPanics : Outcome::kIntractable;
}

}  // namespace

void MemoryManager::Take(MemoryState& state, NumaMask numa, int type, std::uint64_t size) const {
  numa.ForEach([&](int id) {
    MemoryState::Node& node = state.nodes[position(id)];
    ++node.assignments;
    node.cells = numa;
    MemoryState::Amount& amount = state.at(position(id), type);
    const std::uint64_t taken = std::min(size, amount.free);
    amount.reserved += taken;
    amount.free -= taken;
    size -= taken;
  });
}

bool MemoryManager::ViolatesGroups(const MemoryState& state, NumaMask numa) const {
  if (numa.count() == 1 || Mutated(Mutation::kMemoryGroupsUnchecked)) return false;
  bool violates = false;
  numa.ForEach([&](int id) {
    const MemoryState::Node& node = state.nodes[position(id)];
    if (node.assignments != 0 && node.cells != numa) violates = true;
  });
  return violates;
}

bool MemoryManager::HasFree(const MemoryState& state, const MemoryRequests& requests,
                            NumaMask numa) const {
  for (const MemoryRequests::Item& item : requests.items) {
    std::uint64_t free = 0;
    numa.ForEach([&](int id) { free += state.at(position(id), item.type).free; });
    if (free < item.bytes) return false;
  }
  return true;
}

bool MemoryManager::IsMissingOn(NumaMask numa, const MemoryRequests& requests) const {
  if ((numa & numa_) != numa) return true;
  return std::any_of(requests.items.begin(), requests.items.end(), [&](const auto& item) {
    if (item.type == kUnknownMemoryType) return !numa.empty();
    return (numa & numa_of_type_[static_cast<std::size_t>(item.type)]) != numa;
  });
}

Outcome MemoryManager::Place(const MemoryState& state, const MemoryRequests& requests,
                             const Hint& hint, const ReusableMemory& reusable,
                             NumaMask& numa) const {
  const MemoryHints::Outcome walkable = Walkable(requests);
  bool preferred = hint.preferred;
  if (hint.affinity) {
    numa = *hint.affinity;
  } else {
    if (walkable != MemoryHints::Outcome::kHints) return NotWalkable(walkable);
    if (requests.items.empty()) return Outcome::kNoDefaultHint;
    const std::optional<Hint> found = FindBestHint(state, requests, reusable, NumaMask());
    if (!found) return Outcome::kNoDefaultHint;
    // Hugepages alone have hints, but memory's list is empty: its best is no mask, not preferred.
    const bool usable = RequestsMemory(requests);
    if (preferred && !(usable && found->preferred)) return Outcome::kDefaultHintNotPreferred;
    if (!usable) return Outcome::kPanics;
    numa = *found->affinity;
    preferred = found->preferred;
  }
  if (IsMissingOn(numa, requests)) return Outcome::kPanics;
  if (!HasFree(state, requests, numa)) {
    if (walkable != MemoryHints::Outcome::kHints) return NotWalkable(walkable);
    if (!RequestsMemory(requests)) return Outcome::kNoExtendedHint;
    const std::optional<Hint> found = FindBestHint(state, requests, reusable, numa);
    if (!found) return Outcome::kNoExtendedHint;
    if (preferred && !found->preferred && !Mutated(Mutation::kMemoryExtendsFreely)) {
      return Outcome::kExtendedHintNotPreferred;
    }
    numa = *found->affinity;
  }
  return ViolatesGroups(state, numa) ? Outcome::kGroupViolation : Outcome::kAllocated;
}

MemoryAllocation MemoryManager::Allocate(MemoryState& state, const MemoryRequests& requests,
                                         const Hint& hint, ReusableMemory& reusable,
                                         bool is_regular_init) const {
  MemoryAllocation result;
  if (requests.unreadable) {
    result.outcome = Outcome::kUnreadableRequest;
    return result;
  }
  if (requests.items.empty() && version_.SkipsContainersWithoutMemory()) return result;
  NumaMask numa;
  result.outcome = Place(state, requests, hint, reusable, numa);
  if (result.outcome != Outcome::kAllocated) return result;
  result.held = true;
  for (const MemoryRequests::Item& item : requests.items) {
    result.blocks.push_back({.numa = numa, .type = item.type, .size = item.bytes});
    Take(state, numa, item.type, item.bytes - std::min(item.bytes, reusable.Of(numa, item.type)));
  }
  reusable.Update(result.blocks, is_regular_init);
  return result;
}

MemoryRequests PodMemoryRequests(std::span<const ContainerMemoryRequests> containers) {
  struct Sums {
    std::uint64_t init = 0;
    std::uint64_t sidecars = 0;
    std::uint64_t apps = 0;
    bool by_app = false;
  };
  MemoryRequests result;
  absl::InlinedVector<Sums, 4> sums;  // by type, the unknown one first
  for (const ContainerMemoryRequests& container : containers) {
    if (container.requests.unreadable) result.unreadable = true;
    for (const MemoryRequests::Item& item : container.requests.items) {
      const auto at = static_cast<std::size_t>(item.type - kUnknownMemoryType);
      if (sums.size() <= at) sums.resize(at + 1);
      Sums& sum = sums[at];
      if (container.kind == ContainerDemand::Kind::kSidecar) {
        sum.sidecars += item.bytes;
      } else if (container.kind == ContainerDemand::Kind::kInit) {
        sum.init = std::max(sum.init, sum.sidecars + item.bytes);
      } else {
        sum.apps += item.bytes;
        sum.by_app = true;
      }
    }
  }
  if (result.unreadable) return result;
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const Sums& sum = sums[at];
    if (!sum.by_app) continue;
    result.items.push_back({.type = static_cast<int>(at) + kUnknownMemoryType,
                            .bytes = std::max(sum.apps + sum.sidecars, sum.init)});
  }
  return result;
}

void ShrinkReusedBlocks(std::span<ContainerMemory> earlier, const MemoryBlocks& used) {
  if (Mutated(Mutation::kMemoryInitKeeps)) return;
  for (const MemoryBlock& block : used) {
    std::uint64_t left = block.size;
    for (ContainerMemory& container : earlier) {
      if (container.kind != ContainerDemand::Kind::kInit) continue;
      for (MemoryBlock& reused : container.blocks) {
        if (reused.type != block.type || reused.numa != block.numa) continue;
        const std::uint64_t shrunk = std::min(left, reused.size);
        reused.size -= shrunk;
        left -= shrunk;
      }
    }
  }
}

bool ReleaseOrderMatters(std::span<const MemoryBlock> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const MemoryBlock& a = blocks[i];
      const MemoryBlock& b = blocks[j];
      if (a.type != b.type || a.size == 0 || b.size == 0) continue;
      if (a.numa != b.numa && a.numa.intersects(b.numa)) return true;
    }
  }
  return false;
}

}  // namespace numafit::policy
