#include "policy/usage.h"

#include <compare>
#include <tuple>

#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

// For an order of no meaning.
auto Key(const ContainerMemory& memory) {
  return std::tie(memory.kind, memory.held, memory.blocks);
}

}  // namespace

std::strong_ordering operator<=>(const Holding& a, const Holding& b) {
  const auto compute = std::tie(a.devices, a.cpus, a.container_cpus) <=>
                       std::tie(b.devices, b.cpus, b.container_cpus);
  if (compute < 0) return std::strong_ordering::less;
  if (compute > 0) return std::strong_ordering::greater;
  if (a.pod_memory < b.pod_memory) return std::strong_ordering::less;
  if (b.pod_memory < a.pod_memory) return std::strong_ordering::greater;
  if (a.memory.size() != b.memory.size()) return a.memory.size() <=> b.memory.size();
  for (std::size_t i = 0; i < a.memory.size(); ++i) {
    if (Key(a.memory[i]) < Key(b.memory[i])) return std::strong_ordering::less;
    if (Key(b.memory[i]) < Key(a.memory[i])) return std::strong_ordering::greater;
  }
  return std::strong_ordering::equal;
}

std::vector<ContainerMemory> Holding::MemoryToRelease() const {
  if (pod_memory.empty() || Mutated(Mutation::kPodLevelReleasesContainers)) return memory;
  return {{.kind = ContainerDemand::Kind::kApp, .held = true, .blocks = pod_memory}};
}

void Usage::Release(const Topology& topology, const Holding& holding) {
  Remove(holding.devices);
  compute_.default_cpus |= holding.cpus;
  if (topology.memory_manager() == nullptr) return;
  for (const ContainerMemory& container : holding.MemoryToRelease()) {
    topology.memory_manager()->Release(compute_.memory, container.blocks);
  }
}

}  // namespace numafit::policy
