// What the memory manager keeps in its book. Twin of cm/memorymanager/state.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "policy/demand.h"
#include "policy/numa_mask.h"

namespace numafit::policy {

// Types of memory are indices into MemoryManager::types(); 0 is "memory".
inline constexpr int kMemoryType = 0;
// A hugepage size that no NUMA node of the machine has.
inline constexpr int kUnknownMemoryType = -1;

// So many bytes of one type, taken from these NUMA nodes; how many from each is not kept.
struct MemoryBlock {
  NumaMask numa;
  int type = kMemoryType;
  std::uint64_t size = 0;

  friend bool operator==(const MemoryBlock&, const MemoryBlock&) = default;
  friend std::strong_ordering operator<=>(const MemoryBlock& a, const MemoryBlock& b) {
    if (const auto order = a.type <=> b.type; order != 0) return order;
    if (const auto order = a.numa.bits() <=> b.numa.bits(); order != 0) return order;
    return a.size <=> b.size;
  }
};
// Of one container: each type once, ascending. (The kubelet's order is a Go map's and means
// nothing.)
using MemoryBlocks = absl::InlinedVector<MemoryBlock, 2>;

// What a container, in pod scope the Pod, requests: each type once, ascending.
struct MemoryRequests {
  struct Item {
    int type = kMemoryType;
    // The kubelet casts a signed quantity: a negative one is a huge one here too. Zero is a
    // request.
    std::uint64_t bytes = 0;

    friend bool operator==(const Item&, const Item&) = default;
  };

  absl::InlinedVector<Item, 2> items;
  // A quantity has no AsInt64 (a fraction of a byte, more than int64 holds): no hints, and the
  // allocation fails.
  bool unreadable = false;

  // Adds a type; unknown ones count once. Precondition: a known type was not added before.
  void Add(int type, std::int64_t bytes);

  friend bool operator==(const MemoryRequests&, const MemoryRequests&) = default;
};

// The machine state: per NUMA node what is free and in which group it is. A plain value, tied to
// the MemoryManager that made it. It depends on the path: a release gives memory back in the order
// of NUMA nodes, which need not be where its allocation took it.
struct MemoryState {
  struct Node {
    // Blocks on this NUMA node (a container has one per type).
    std::int32_t assignments = 0;
    // The group: the NUMA nodes of the block placed last, itself alone when there is none.
    NumaMask cells;

    friend bool operator==(const Node&, const Node&) = default;
    friend std::strong_ordering operator<=>(const Node& a, const Node& b) {
      if (const auto order = a.assignments <=> b.assignments; order != 0) return order;
      return a.cells.bits() <=> b.cells.bits();
    }
  };
  // Bytes. `free` wraps around where the kubelet's does (more reserved than there is).
  struct Amount {
    std::uint64_t free = 0;
    std::uint64_t reserved = 0;

    friend auto operator<=>(const Amount&, const Amount&) = default;
  };

  // By position in MemoryManager::numa_ids().
  absl::InlinedVector<Node, 2> nodes;
  // [type * NUMA nodes + position]; a type that a NUMA node has not stays zero.
  absl::InlinedVector<Amount, 6> amounts;

  [[nodiscard]] Amount& at(std::size_t position, int type) {
    return amounts[static_cast<std::size_t>(type) * nodes.size() + position];
  }
  [[nodiscard]] const Amount& at(std::size_t position, int type) const {
    return amounts[static_cast<std::size_t>(type) * nodes.size() + position];
  }

  friend bool operator==(const MemoryState&, const MemoryState&) = default;
  friend std::strong_ordering operator<=>(const MemoryState& a, const MemoryState& b) = default;
};

// Memory that the ended init containers of one Pod have left (initContainersReusableMemory).
//
// The kubelet keeps it from one allocation of the Pod to the next and drops it when another Pod
// allocates or when it restarts: start every admission with an empty one, but a resize (resize.h).
class ReusableMemory {
 public:
  [[nodiscard]] std::uint64_t Of(NumaMask numa, int type) const;
  // After a container got these blocks (updatePodReusableMemory): a regular init container's can be
  // used again, the larger of two counts; any other container, a sidecar too, uses them up.
  void Update(const MemoryBlocks& blocks, bool is_regular_init);
  void Clear() { entries_.clear(); }
  [[nodiscard]] const absl::InlinedVector<MemoryBlock, 2>& entries() const { return entries_; }

  friend bool operator==(const ReusableMemory&, const ReusableMemory&) = default;
  friend std::strong_ordering operator<=>(const ReusableMemory&, const ReusableMemory&) = default;

 private:
  absl::InlinedVector<MemoryBlock, 2> entries_;
};

// A container of a Pod, in kubelet order, and what the book says of it.
struct ContainerMemory {
  ContainerDemand::Kind kind = ContainerDemand::Kind::kApp;
  // The book has an entry, which may be without blocks.
  bool held = false;
  MemoryBlocks blocks;

  friend bool operator==(const ContainerMemory&, const ContainerMemory&) = default;
};

}  // namespace numafit::policy
