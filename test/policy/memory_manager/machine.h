// Machines for the tests of the memory manager, in GiB.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "policy/memory_manager/memory_manager.h"

namespace numafit::policy::testing {

inline constexpr std::int64_t kGi = std::int64_t{1} << 30;
inline constexpr KubeletVersion k136{1, 36};
inline constexpr KubeletVersion k137{1, 37};

inline NumaMask Numa(std::initializer_list<int> ids) {
  NumaMask mask;
  for (const int id : ids) mask.add(id);
  return mask;
}

// A NUMA node with so much memory and, when given, hugepages of 1Gi.
struct Gib {
  std::int64_t memory;
  std::optional<std::int64_t> hugepages;

  // Not explicit: machines are written as lists of numbers.
  Gib(std::int64_t memory_gib,  // NOLINT(google-explicit-constructor)
      std::optional<std::int64_t> hugepages_gib = std::nullopt)
      : memory(memory_gib), hugepages(hugepages_gib) {}
};

// NUMA nodes 0, 1, …; 1 GiB of memory is reserved on NUMA node 0.
inline MemoryManager MachineOf(const std::vector<Gib>& nodes, KubeletVersion version = k136) {
  std::vector<MemoryNodeSpec> specs;
  for (const Gib& node : nodes) {
    MemoryNodeSpec& spec = specs.emplace_back();
    spec.id = static_cast<int>(specs.size()) - 1;
    spec.memory = static_cast<std::uint64_t>(node.memory * kGi);
    if (node.hugepages) {
      spec.hugepages["hugepages-1Gi"] = static_cast<std::uint64_t>(*node.hugepages * kGi);
    }
  }
  const std::vector<MemoryReservationSpec> reserved = {{.numa = 0, .type = "memory", .bytes = kGi}};
  return *MemoryManager::Create(specs, reserved, std::nullopt, version);
}

inline constexpr int kHugepages = 1;

// {type, GiB}…
inline MemoryRequests Request(std::initializer_list<std::pair<int, std::int64_t>> items) {
  MemoryRequests requests;
  for (const auto& [type, gib] : items) requests.Add(type, gib * kGi);
  return requests;
}
inline MemoryRequests Memory(std::int64_t gib) {
  return Request({{kMemoryType, gib}});
}

inline Hint On(std::initializer_list<int> ids, bool preferred = true) {
  return {.affinity = Numa(ids), .preferred = preferred};
}
inline constexpr Hint kAnywhere{.affinity = std::nullopt, .preferred = true};
inline constexpr Hint kNobodyAsked{.affinity = std::nullopt, .preferred = false};

inline MemoryBlock Block(std::initializer_list<int> ids, std::int64_t gib, int type = kMemoryType) {
  return {.numa = Numa(ids), .type = type, .size = static_cast<std::uint64_t>(gib * kGi)};
}

// Allocates for an app container without anything to reuse.
inline MemoryAllocation Take(const MemoryManager& manager, MemoryState& state,
                             const MemoryRequests& requests, const Hint& hint) {
  ReusableMemory none;
  return manager.Allocate(state, requests, hint, none, false);
}
inline std::int64_t FreeGib(const MemoryState& state, std::size_t position,
                            int type = kMemoryType) {
  return static_cast<std::int64_t>(state.at(position, type).free) / kGi;
}

}  // namespace numafit::policy::testing
