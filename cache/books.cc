#include "cache/books.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "policy/cpu_manager/cpu_topology.h"
#include "policy/memory_manager/release_orders.h"

namespace numafit::cache {
namespace {

using policy::CpuSet;
using policy::CpuTopology;

constexpr int kFree = 1 << 30;
constexpr int kShared = -1;

// Who has all of the core: an index into `owners`, kFree, or kShared.
int OwnerOf(const CpuSet& core, const std::vector<CpuSet*>& owners, const CpuSet& default_cpus) {
  if (core.IsSubsetOf(default_cpus)) return kFree;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (core.IsSubsetOf(*owners[i])) return static_cast<int>(i);
  }
  return kShared;
}

// One group of cores that are alike.
void Renumber(const std::vector<CpuSet>& cores, const std::vector<CpuSet*>& owners,
              CpuSet& default_cpus) {
  std::vector<int> owner_of_core;
  for (const CpuSet& core : cores) {
    owner_of_core.push_back(OwnerOf(core, owners, default_cpus));
    if (owner_of_core.back() == kShared) return;
  }
  if (std::is_sorted(owner_of_core.begin(), owner_of_core.end())) return;
  for (const CpuSet& core : cores) {
    default_cpus -= core;
    for (CpuSet* owner : owners) *owner -= core;
  }
  std::sort(owner_of_core.begin(), owner_of_core.end());
  for (std::size_t i = 0; i < cores.size(); ++i) {
    const int owner = owner_of_core[i];
    (owner == kFree ? default_cpus : *owners[static_cast<std::size_t>(owner)]) |= cores[i];
  }
}

}  // namespace

std::vector<policy::ComputeState> AfterRelease(const policy::Topology& topology,
                                               const policy::ComputeState& books,
                                               const policy::Holding& holding) {
  policy::ComputeState after = books;
  after.default_cpus |= holding.cpus;
  if (holding.memory.empty() || topology.memory_manager() == nullptr) return {std::move(after)};
  const policy::ReleasedStates released =
      policy::AfterReleases(*topology.memory_manager(), books.memory, {&holding.memory, 1});
  if (released.truncated) return {};
  std::vector<policy::ComputeState> all;
  for (const policy::MemoryState& memory : released.states) {
    after.memory = memory;
    all.push_back(after);
  }
  return all;
}

policy::Holding AsOneContainer(policy::Holding holding) {
  if (holding.container_cpus.empty() && holding.pod_memory.empty()) return holding;
  holding.memory = holding.MemoryToRelease();
  holding.pod_memory.clear();
  holding.container_cpus = {};
  return holding;
}

void AddToBooks(const policy::Topology& topology, const policy::Holding& holding,
                policy::ComputeState& books) {
  books.default_cpus -= holding.cpus;
  if (topology.memory_manager() == nullptr) return;
  for (const policy::ContainerMemory& container : holding.memory) {
    topology.memory_manager()->Restore(books.memory, container.blocks);
  }
}

void UseLowestCpus(const policy::Topology& topology, std::vector<CpuSet*> owners,
                   CpuSet& default_cpus) {
  if (topology.cpu_manager() == nullptr) return;
  const CpuTopology& machine = topology.cpu_manager()->topology();
  const CpuSet& reserved = topology.cpu_manager()->reserved();
  using Key = std::tuple<int, int, int, int>;
  std::map<Key, std::vector<CpuSet>> groups;
  for (const CpuTopology::Core& core : machine.cores()) {
    CpuSet cpus;
    for (int i = 0; i < core.size; ++i) cpus.Add(machine.threads(core)[i]);
    if (cpus.intersects(reserved)) continue;
    groups[{core.numa, core.socket, core.uncore, core.size}].push_back(std::move(cpus));
  }
  for (const auto& [key, cores] : groups) Renumber(cores, owners, default_cpus);
}

HoldingShape ShapeOf(const policy::Topology& topology, const policy::Holding& holding) {
  HoldingShape shape;
  shape.devices = holding.devices;
  shape.memory = holding.memory;
  if (topology.cpu_manager() == nullptr) return shape;
  for (const CpuTopology::Group& numa : topology.cpu_manager()->topology().numa_nodes()) {
    shape.cpus.push_back(numa.cpus.CountAnd(holding.cpus));
  }
  return shape;
}

}  // namespace numafit::cache
