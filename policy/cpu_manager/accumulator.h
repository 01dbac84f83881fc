// The working state of one pick. Twin of cpuAccumulator; used by assignment.cc and
// distribution.cc only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "policy/cpu_manager/assignment.h"
#include "policy/cpu_manager/cpu_topology.h"
#include "policy/cpu_set.h"

namespace numafit::policy {

// Numbers of groups, in the order in which they are tried. A group that lies in two larger ones is
// there twice.
using GroupOrder = absl::InlinedVector<std::uint16_t, 16>;

class CpuAccumulator {
 public:
  // `topology` must outlive the accumulator. Negative counts are satisfied.
  CpuAccumulator(const CpuTopology& topology, CpuSet available, std::int64_t count)
      : topology_(topology), available_(std::move(available)), needed_(count) {}

  [[nodiscard]] const CpuSet& available() const { return available_; }
  [[nodiscard]] const CpuSet& result() const { return result_; }
  // Below zero when more were picked than asked for.
  [[nodiscard]] std::int64_t needed() const { return needed_; }
  [[nodiscard]] bool IsSatisfied() const { return needed_ < 1; }
  [[nodiscard]] bool IsFailed() const { return needed_ > available_.count(); }

  // `size` is what the kubelet subtracts; the CPUs may be taken already.
  void Take(const CpuSet& cpus, int size) {
    result_ |= cpus;
    available_ -= cpus;
    needed_ -= size;
  }

  // Those with an available CPU, fewest available CPUs first.
  [[nodiscard]] GroupOrder NumaNodes() const;
  [[nodiscard]] GroupOrder Sockets() const;

  void TakeFullNumaNodes();
  void TakeFullSockets();
  void TakeUncores();
  void TakeFullCores();
  void TakeRemaining(bool spread);

 private:
  [[nodiscard]] GroupOrder UncoresInOrder() const;
  // The groups whose cores are listed one after the other, in order.
  [[nodiscard]] GroupOrder CoreParents() const;
  [[nodiscard]] const CpuTopology::Group& CoreParent(std::uint16_t number) const {
    return topology_.NumaFirst() ? topology_.sockets()[number] : topology_.numa_nodes()[number];
  }
  [[nodiscard]] int FreeIn(const CpuTopology::Core& core, const CpuSet& available) const {
    const std::uint16_t* const threads = topology_.threads(core);
    int free = 0;
    for (int i = 0; i < core.size; ++i) free += available.contains(threads[i]) ? 1 : 0;
    return free;
  }
  void TakeFullUncores();
  void TakePartialUncore(const CpuTopology::Group& uncore);
  void TakeOne(int cpu) {
    result_.Add(cpu);
    available_.Remove(cpu);
    --needed_;
  }

  const CpuTopology& topology_;
  CpuSet available_;
  CpuSet result_;
  std::int64_t needed_;
};

// takeByTopologyNUMAPacked.
[[nodiscard]] Taken TakePacked(const CpuTopology& topology, const CpuSet& available,
                               std::int64_t count, bool spread, bool prefer_uncore);

// takeByTopologyNUMADistributed, count in whole groups. Precondition: rules.group_size >= 1.
[[nodiscard]] Taken TakeDistributed(const CpuTopology& topology, const CpuSet& available,
                                    std::int64_t count, const AssignmentRules& rules);

}  // namespace numafit::policy
