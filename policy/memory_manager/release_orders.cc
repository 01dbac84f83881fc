#include "policy/memory_manager/release_orders.h"

#include <cstdint>
#include <tuple>
#include <utility>

namespace numafit::policy {
namespace {

constexpr std::size_t kMostSteps = 4096;
constexpr std::size_t kMostContainers = 64;

// Containers that are left to release, and the Pod whose turn it is (-1: any).
using Step = std::tuple<std::uint64_t, int, MemoryState>;

struct Item {
  int pod = 0;
  const MemoryBlocks* blocks = nullptr;
};

bool HasLeft(const std::vector<Item>& items, std::uint64_t left, int pod) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (((left >> i) & 1U) != 0 && items[i].pod == pod) return true;
  }
  return false;
}

ReleasedStates AllOrders(const MemoryManager& manager, const MemoryState& state,
                         const std::vector<Item>& items) {
  ReleasedStates result;
  std::set<Step> seen;
  const std::uint64_t all =
      items.size() == kMostContainers ? ~std::uint64_t{0} : (std::uint64_t{1} << items.size()) - 1;
  std::vector<Step> work = {{all, -1, state}};
  while (!work.empty()) {
    const Step step = std::move(work.back());
    work.pop_back();
    const auto& [left, turn, now] = step;
    if (left == 0) {
      result.states.insert(now);
      continue;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (((left >> i) & 1U) == 0 || (turn >= 0 && items[i].pod != turn)) continue;
      const std::uint64_t rest = left & ~(std::uint64_t{1} << i);
      MemoryState next = now;
      manager.Release(next, *items[i].blocks);
      const int next_turn = HasLeft(items, rest, items[i].pod) ? items[i].pod : -1;
      Step following{rest, next_turn, std::move(next)};
      if (!seen.insert(following).second) continue;
      if (seen.size() > kMostSteps) {
        result.truncated = true;
        if (result.states.empty()) result.states.insert(std::get<2>(following));
        return result;
      }
      work.push_back(std::move(following));
    }
  }
  return result;
}

}  // namespace

ReleasedStates AfterReleases(const MemoryManager& manager, const MemoryState& state,
                             std::span<const std::vector<ContainerMemory>> pods) {
  std::vector<Item> items;
  std::vector<MemoryBlock> blocks;
  for (std::size_t pod = 0; pod < pods.size(); ++pod) {
    for (const ContainerMemory& container : pods[pod]) {
      if (container.blocks.empty()) continue;
      items.push_back({static_cast<int>(pod), &container.blocks});
      blocks.insert(blocks.end(), container.blocks.begin(), container.blocks.end());
    }
  }
  const bool order_matters = ReleaseOrderMatters(blocks);
  if (order_matters && items.size() <= kMostContainers) return AllOrders(manager, state, items);
  ReleasedStates result;
  result.truncated = order_matters;
  MemoryState after = state;
  for (const Item& item : items) manager.Release(after, *item.blocks);
  result.states.insert(std::move(after));
  return result;
}

}  // namespace numafit::policy
