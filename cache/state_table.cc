#include "cache/state_table.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

namespace numafit::cache {
namespace {

std::uint64_t NextId() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

template <typename T>
void AppendRaw(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string& key, const std::string& text) {
  AppendRaw(key, static_cast<std::uint32_t>(text.size()));
  key += text;
}

void AppendUsage(std::string& key, const policy::Usage& usage) {
  AppendRaw(key, static_cast<std::uint32_t>(usage.raw().size()));
  for (const std::int32_t taken : usage.raw()) AppendRaw(key, taken);
  AppendText(key, policy::FormatCpuSet(usage.compute().default_cpus));
  const policy::MemoryState& memory = usage.compute().memory;
  for (const policy::MemoryState::Node& node : memory.nodes) {
    AppendRaw(key, node.assignments);
    AppendRaw(key, node.cells.bits());
  }
  for (const policy::MemoryState::Amount& amount : memory.amounts) AppendRaw(key, amount.free);
}

void AppendHolding(std::string& key, const policy::Holding& holding) {
  AppendRaw(key, static_cast<std::uint32_t>(holding.devices.size()));
  for (const policy::ClassCount& item : holding.devices) {
    AppendRaw(key, item.class_index);
    AppendRaw(key, item.count);
  }
  AppendText(key, policy::FormatCpuSet(holding.cpus));
  AppendRaw(key, static_cast<std::uint32_t>(holding.memory.size()));
  for (const policy::ContainerMemory& container : holding.memory) {
    AppendRaw(key, container.held);
    AppendRaw(key, static_cast<std::uint32_t>(container.blocks.size()));
    for (const policy::MemoryBlock& block : container.blocks) {
      AppendRaw(key, block.numa.bits());
      AppendRaw(key, block.type);
      AppendRaw(key, block.size);
    }
  }
}

std::string KeyOf(const NodeState& state) {
  std::string key;
  AppendRaw(key, reinterpret_cast<std::uintptr_t>(state.topology.get()));
  AppendRaw(key, state.barrier);
  for (const std::string& shape : state.cooling) AppendText(key, shape);
  AppendRaw(key, static_cast<std::uint32_t>(state.cooling.size()));
  AppendRaw(key, state.knowledge.settling);
  AppendRaw(key, state.exhaustive);
  AppendRaw(key, state.counts_only);
  AppendRaw(key, state.leaving);
  AppendRaw(key, state.max_states);
  AppendRaw(key, static_cast<std::uint32_t>(state.knowledge.usages.size()));
  for (const policy::Usage& usage : state.knowledge.usages) AppendUsage(key, usage);
  AppendRaw(key, static_cast<std::uint32_t>(state.pending.size()));
  for (const auto& demand : state.pending) {
    AppendText(key, demand->Fingerprint());
  }
  for (const NodeState::Now& now : state.now) {
    for (const NodeState::Now::Place place : now.places) AppendRaw(key, place);
    for (const policy::Holding& holding : now.held) AppendHolding(key, holding);
    AppendUsage(key, now.usage);
  }
  return key;
}

}  // namespace

std::shared_ptr<const NodeState> StateTable::Intern(NodeState described) {
  std::string key = KeyOf(described);
  if (const auto found = states_.find(key); found != states_.end()) return found->second;
  if (states_.size() >= sweep_at_) Sweep();
  described.id = NextId();
  auto state = std::make_shared<const NodeState>(std::move(described));
  states_.emplace(std::move(key), state);
  return state;
}

void StateTable::Sweep() {
  absl::erase_if(states_, [](const auto& entry) { return entry.second.use_count() == 1; });
  sweep_at_ = std::max(kMinKept, states_.size() * 4);
}

}  // namespace numafit::cache
