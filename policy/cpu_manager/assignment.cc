#include "policy/cpu_manager/assignment.h"

#include <utility>

#include "policy/cpu_manager/accumulator.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

struct Counted {
  int free = 0;
  std::uint16_t number = 0;
};
using CountedGroups = absl::InlinedVector<Counted, 16>;

// Fewest free CPUs first, then the smaller number; appended to `order`.
void AppendSorted(CountedGroups& groups, GroupOrder& order) {
  if (Mutated(Mutation::kCpuFullestFirst)) {
    for (Counted& group : groups) group.free = -group.free;
  }
  // Insertion: groups are few and mostly in order.
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const Counted group = groups[i];
    std::size_t at = i;
    while (at > 0 && (groups[at - 1].free > group.free || (groups[at - 1].free == group.free &&
                                                           groups[at - 1].number > group.number))) {
      groups[at] = groups[at - 1];
      --at;
    }
    groups[at] = group;
  }
  for (const Counted& group : groups) order.push_back(group.number);
}

void AppendAll(const std::vector<CpuTopology::Group>& groups, const CpuSet& available,
               GroupOrder& order) {
  CountedGroups counted;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const int free = available.CountAnd(groups[i].cpus);
    if (free > 0) counted.push_back({free, static_cast<std::uint16_t>(i)});
  }
  AppendSorted(counted, order);
}

// Of `groups` those that have an available CPU within the outer group; all of their available CPUs
// count.
void AppendParts(const std::vector<CpuTopology::Part>& parts,
                 const std::vector<CpuTopology::Group>& groups, const CpuSet& available,
                 GroupOrder& order) {
  if (parts.size() == 1) {
    if (available.intersects(parts[0].cpus)) order.push_back(parts[0].inner);
    return;
  }
  CountedGroups counted;
  for (const CpuTopology::Part& part : parts) {
    if (!available.intersects(part.cpus)) continue;
    counted.push_back({available.CountAnd(groups[part.inner].cpus), part.inner});
  }
  AppendSorted(counted, order);
}

}  // namespace

GroupOrder CpuAccumulator::NumaNodes() const {
  GroupOrder order;
  if (topology_.NumaFirst()) {
    AppendAll(topology_.numa_nodes(), available_, order);
    return order;
  }
  for (const std::uint16_t socket : Sockets()) {
    AppendParts(topology_.numa_in_sockets()[socket], topology_.numa_nodes(), available_, order);
  }
  return order;
}

GroupOrder CpuAccumulator::Sockets() const {
  GroupOrder order;
  if (!topology_.NumaFirst()) {
    AppendAll(topology_.sockets(), available_, order);
    return order;
  }
  for (const std::uint16_t node : NumaNodes()) {
    AppendParts(topology_.sockets_in_numa()[node], topology_.sockets(), available_, order);
  }
  return order;
}

GroupOrder CpuAccumulator::UncoresInOrder() const {
  GroupOrder order;
  for (const std::uint16_t node : NumaNodes()) {
    AppendParts(topology_.uncores_in_numa()[node], topology_.uncores(), available_, order);
  }
  return order;
}

GroupOrder CpuAccumulator::CoreParents() const {
  return topology_.NumaFirst() ? Sockets() : NumaNodes();
}

void CpuAccumulator::TakeFullNumaNodes() {
  const CpuSet before = available_;
  for (const std::uint16_t number : NumaNodes()) {
    const CpuTopology::Group& node = topology_.numa_nodes()[number];
    if (needed_ < node.size || before.CountAnd(node.cpus) != node.size) continue;
    Take(node.cpus, node.size);
  }
}

void CpuAccumulator::TakeFullSockets() {
  const CpuSet before = available_;
  for (const std::uint16_t number : Sockets()) {
    const CpuTopology::Group& socket = topology_.sockets()[number];
    // "Full" is told by the average, taken are all.
    if (needed_ < socket.size || before.CountAnd(socket.cpus) != topology_.CpusPerSocket()) {
      continue;
    }
    Take(socket.cpus, socket.size);
  }
}

void CpuAccumulator::TakeFullUncores() {
  const CpuSet before = available_;
  for (const std::uint16_t number : UncoresInOrder()) {
    const CpuTopology::Group& uncore = topology_.uncores()[number];
    if (needed_ < uncore.size || before.CountAnd(uncore.cpus) != uncore.size) continue;
    Take(uncore.cpus, uncore.size);
  }
}

// Takes what is still needed from this one cache, or nothing.
void CpuAccumulator::TakePartialUncore(const CpuTopology::Group& uncore) {
  const int per_core = topology_.CpusPerCore();
  const std::int64_t cores = (needed_ + per_core - 1) / per_core;
  CpuSet cpus;
  std::int64_t used = 0;
  for (const std::uint16_t number : uncore.cores) {
    if (used == cores) break;
    const CpuTopology::Core& core = topology_.cores()[number];
    const std::uint16_t* const threads = topology_.threads(core);
    bool any = false;
    for (int i = 0; i < core.size; ++i) {
      if (!available_.contains(threads[i])) continue;
      cpus.Add(threads[i]);
      any = true;
    }
    if (any) ++used;
  }
  int size = cpus.count();
  // An odd rest leaves the sibling with the highest id.
  if (needed_ % 2 != 0 && per_core > 1 && size > needed_) {
    int last = 0;
    cpus.ForEach([&](int cpu) { last = cpu; });
    cpus.Remove(last);
    --size;
  }
  if (size == needed_) Take(cpus, size);
}

void CpuAccumulator::TakeUncores() {
  const GroupOrder order = UncoresInOrder();
  // The kubelet tries this again before each cache below, when nothing is left to gain.
  if (needed_ >= topology_.CpusPerUncore()) TakeFullUncores();
  for (const std::uint16_t number : order) {
    if (IsSatisfied()) return;
    TakePartialUncore(topology_.uncores()[number]);
  }
}

void CpuAccumulator::TakeFullCores() {
  if (Mutated(Mutation::kCpuNoWholeCores)) return;
  const CpuSet before = available_;
  const int per_core = topology_.CpusPerCore();
  // Whole cores have equally many free CPUs, so within a parent they come by their ids.
  for (const std::uint16_t parent : CoreParents()) {
    for (const std::uint16_t number : CoreParent(parent).cores) {
      if (IsSatisfied()) return;
      const CpuTopology::Core& core = topology_.cores()[number];
      if (needed_ < core.size || FreeIn(core, before) != per_core) continue;
      const std::uint16_t* const threads = topology_.threads(core);
      for (int i = 0; i < core.size; ++i) TakeOne(threads[i]);
    }
  }
}

void CpuAccumulator::TakeRemaining(bool spread) {
  const CpuSet before = available_;
  if (spread) {
    for (const std::uint16_t number : Sockets()) {
      (before & topology_.sockets()[number].cpus).ForEach([&](int cpu) {
        if (!IsSatisfied()) TakeOne(cpu);
      });
      if (IsSatisfied()) return;
    }
    return;
  }
  for (const std::uint16_t parent : CoreParents()) {
    for (int free = 1; free <= topology_.WidestCore(); ++free) {
      for (const std::uint16_t number : CoreParent(parent).cores) {
        const CpuTopology::Core& core = topology_.cores()[number];
        if (FreeIn(core, before) != free) continue;
        const std::uint16_t* const threads = topology_.threads(core);
        for (int i = 0; i < core.size; ++i) {
          if (!before.contains(threads[i])) continue;
          TakeOne(threads[i]);
          if (IsSatisfied()) return;
        }
      }
    }
  }
}

Taken TakePacked(const CpuTopology& topology, const CpuSet& available, std::int64_t count,
                 bool spread, bool prefer_uncore) {
  CpuAccumulator picked(topology, available, count);
  if (picked.IsSatisfied()) return {};
  if (picked.IsFailed()) return {{}, TakeFailure::kNotEnough};

  if (topology.NumaFirst()) {
    picked.TakeFullNumaNodes();
    if (!picked.IsSatisfied()) picked.TakeFullSockets();
  } else {
    picked.TakeFullSockets();
    if (!picked.IsSatisfied()) picked.TakeFullNumaNodes();
  }
  if (!picked.IsSatisfied() && prefer_uncore) picked.TakeUncores();
  if (!picked.IsSatisfied() && !spread) picked.TakeFullCores();
  if (!picked.IsSatisfied()) picked.TakeRemaining(spread);
  if (!picked.IsSatisfied()) return {{}, TakeFailure::kAccounting};
  return {picked.result(), TakeFailure::kNone};
}

Taken TakeByTopology(const CpuTopology& topology, const CpuSet& available, std::int64_t count,
                     const AssignmentRules& rules) {
  if (!rules.distribute) {
    return TakePacked(topology, available, count, rules.spread, rules.prefer_uncore);
  }
  if (count % rules.group_size != 0) {
    return TakePacked(topology, available, count, rules.spread, false);
  }
  return TakeDistributed(topology, available, count, rules);
}

}  // namespace numafit::policy
