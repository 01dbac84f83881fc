#include "policy/memory_manager/memory_manager.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

constexpr std::string_view kMemory = "memory";

using Sums = std::map<std::string, absl::int128>;

// What is reserved must be what the node keeps from Pods, type by type.
absl::Status CheckSums(const Sums& sums, const std::map<std::string, std::int64_t>& reservation) {
  Sums wanted;
  for (const auto& [type, bytes] : reservation) {
    if (type == kMemory || type.starts_with("hugepages-")) wanted[type] = bytes;
  }
  for (const auto& [type, sum] : sums) wanted.try_emplace(type, 0);
  for (const auto& [type, bytes] : wanted) {
    const auto sum = sums.find(type);
    if ((sum == sums.end() ? absl::int128(0) : sum->second) != bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("reservedMemory: ", type,
                       " does not add up to what kube-reserved, "
                       "system-reserved and the hard eviction threshold leave out of allocatable"));
    }
  }
  return absl::OkStatus();
}

// validateReservedMemory. Quantities have no bounds there, so the sums have none here.
absl::Status CheckReservations(std::span<const MemoryNodeSpec> nodes,
                               std::span<const MemoryReservationSpec> reserved,
                               const std::map<std::string, std::int64_t>* node_reservation) {
  Sums sums;
  for (const MemoryReservationSpec& item : reserved) {
    const bool exists = std::any_of(nodes.begin(), nodes.end(), [&](const MemoryNodeSpec& node) {
      return node.id == item.numa;
    });
    if (!exists) {
      return absl::InvalidArgumentError(
          absl::StrCat("reservedMemory: NUMA node ", item.numa, " is not on this machine"));
    }
    sums[item.type] += item.bytes;
  }
  return node_reservation == nullptr ? absl::OkStatus() : CheckSums(sums, *node_reservation);
}

absl::Status CheckIds(std::span<const MemoryNodeSpec> nodes) {
  std::set<int> seen;
  for (const MemoryNodeSpec& node : nodes) {
    if (node.id < 0 || node.id >= NumaMask::kMaxIds) {
      return absl::InvalidArgumentError(absl::StrCat("NUMA node ", node.id, " is outside 0..63"));
    }
    if (!seen.insert(node.id).second) {
      return absl::InvalidArgumentError(absl::StrCat("NUMA node ", node.id, " is there twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MemoryManager> MemoryManager::Create(
    std::span<const MemoryNodeSpec> nodes, std::span<const MemoryReservationSpec> reserved,
    const std::optional<std::map<std::string, std::int64_t>>& node_reservation,
    KubeletVersion version) {
  if (absl::Status status = CheckIds(nodes); !status.ok()) return status;
  if (absl::Status status =
          CheckReservations(nodes, reserved, node_reservation ? &*node_reservation : nullptr);
      !status.ok()) {
    return status;
  }
  // convertReserved: of two entries for one NUMA node and type the later counts.
  std::map<std::pair<int, std::string>, std::uint64_t> reserved_of;
  for (const MemoryReservationSpec& item : reserved) {
    reserved_of[{item.numa, item.type}] = static_cast<std::uint64_t>(item.bytes);
  }
  std::uint64_t all_reserved = 0;
  for (const auto& [key, bytes] : reserved_of) {
    if (key.second == kMemory) all_reserved += bytes;
  }
  if (all_reserved == 0) {
    return absl::InvalidArgumentError(
        "reservedMemory: the memory manager policy Static needs memory reserved for the system");
  }

  MemoryManager manager;
  manager.version_ = version;
  std::map<int, const MemoryNodeSpec*> by_id;
  std::set<std::string> hugepages;
  for (const MemoryNodeSpec& node : nodes) {
    by_id[node.id] = &node;
    for (const auto& [type, bytes] : node.hugepages) hugepages.insert(type);
  }
  manager.types_.assign(1, std::string(kMemory));
  manager.types_.insert(manager.types_.end(), hugepages.begin(), hugepages.end());
  manager.numa_of_type_.resize(manager.types_.size());
  for (const auto& [id, node] : by_id) {
    manager.position_[static_cast<std::size_t>(id)] = static_cast<std::int8_t>(manager.ids_.size());
    manager.ids_.push_back(id);
    manager.numa_.add(id);
    manager.initial_.nodes.push_back({.assignments = 0, .cells = NumaMask::Of(id)});
    std::uint64_t memory = node->memory - reserved_of[{id, std::string(kMemory)}];
    const std::size_t memory_at = manager.allocatable_.size();
    manager.allocatable_.resize(memory_at + manager.types_.size(), 0);
    manager.numa_of_type_[kMemoryType].add(id);
    for (std::size_t type = 1; type < manager.types_.size(); ++type) {
      const auto pages = node->hugepages.find(manager.types_[type]);
      if (pages == node->hugepages.end()) continue;
      manager.numa_of_type_[type].add(id);
      manager.allocatable_[memory_at + type] =
          pages->second - reserved_of[{id, manager.types_[type]}];
      if (!Mutated(Mutation::kMemoryWithHugepages)) memory -= pages->second;
    }
    manager.allocatable_[memory_at] = memory;
  }
  manager.initial_.amounts.resize(manager.allocatable_.size());
  for (std::size_t at = 0; at < manager.ids_.size(); ++at) {
    for (int type = 0; type < static_cast<int>(manager.types_.size()); ++type) {
      manager.initial_.at(at, type).free = manager.allocatable(at, type);
    }
  }
  return manager;
}

int MemoryManager::FindType(std::string_view name) const {
  const auto at = std::find(types_.begin(), types_.end(), name);
  return at == types_.end() ? kUnknownMemoryType : static_cast<int>(at - types_.begin());
}

void MemoryManager::Release(MemoryState& state, std::span<const MemoryBlock> blocks) const {
  for (const MemoryBlock& block : blocks) {
    std::uint64_t left = block.size;
    block.numa.ForEach([&](int id) {
      MemoryState::Node& node = state.nodes[position(id)];
      if (--node.assignments == 0 && !Mutated(Mutation::kMemoryGroupsLast)) {
        node.cells = NumaMask::Of(id);
      }
      MemoryState::Amount& amount = state.at(position(id), block.type);
      const std::uint64_t released = std::min(left, amount.reserved);
      amount.free += released;
      amount.reserved -= released;
      left -= released;
    });
  }
}

void MemoryManager::StartContainer(MemoryState& state, std::span<ContainerMemory> containers,
                                   std::size_t started) const {
  for (ContainerMemory& container : containers.first(started)) {
    if (container.kind != ContainerDemand::Kind::kInit || !container.held) continue;
    Release(state, container.blocks);
    container.held = false;
    container.blocks.clear();
  }
}

void ForgetEndedContainers(std::span<ContainerMemory> containers, std::size_t started) {
  for (ContainerMemory& container : containers.first(started)) {
    if (container.kind != ContainerDemand::Kind::kInit) continue;
    container.held = false;
    container.blocks.clear();
  }
}

void MemoryManager::Restore(MemoryState& state, std::span<const MemoryBlock> blocks) const {
  for (const MemoryBlock& block : blocks) Take(state, block.numa, block.type, block.size);
}

MemoryManager::Restored MemoryManager::Validate(const MemoryState& state,
                                                std::span<const MemoryBlock> blocks) const {
  MemoryState expected = initial_;
  for (const MemoryBlock& block : blocks) {
    const bool exists =
        (block.numa & numa_) == block.numa && block.type >= 0 &&
        block.type < static_cast<int>(types_.size()) &&
        (block.numa & numa_of_type_[static_cast<std::size_t>(block.type)]) == block.numa;
    if (!exists) return Restored::kRefused;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[i].numa != blocks[j].numa && blocks[i].numa.intersects(blocks[j].numa)) {
        return Restored::kOrderDecides;
      }
    }
    Take(expected, blocks[i].numa, blocks[i].type, blocks[i].size);
  }
  if (state.nodes != expected.nodes) return Restored::kRefused;
  // Within a group only the sums have to agree.
  for (std::size_t at = 0; at < ids_.size(); ++at) {
    const NumaMask cells = state.nodes[at].cells;
    for (int type = 0; type < static_cast<int>(types_.size()); ++type) {
      const NumaMask with_type = numa_of_type_[static_cast<std::size_t>(type)];
      if (!with_type.contains(ids_[at])) continue;
      if ((cells & with_type) != cells) return Restored::kRefused;
      MemoryState::Amount is;
      MemoryState::Amount should;
      cells.ForEach([&](int id) {
        is.free += state.at(position(id), type).free;
        is.reserved += state.at(position(id), type).reserved;
        should.free += expected.at(position(id), type).free;
        should.reserved += expected.at(position(id), type).reserved;
      });
      if (is != should) return Restored::kRefused;
    }
  }
  return Restored::kAccepted;
}

}  // namespace numafit::policy
