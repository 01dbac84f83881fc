// The CPUs of a machine, as the kubelet sees them. Twin of cpumanager/topology (Discover).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/cpu_set.h"
#include "policy/numa_mask.h"

namespace numafit::policy {

// One online logical CPU.
struct CpuInfo {
  int cpu = 0;
  // Tells the cores of one NUMA node and socket apart, nothing more: sysfs' core_id or any other
  // number. (The kubelet itself names a core after its lowest CPU.)
  int core = 0;
  // sysfs' physical_package_id.
  int socket = 0;
  int numa = 0;
  // The id of the L3 cache that the CPU shares, or -1 where cadvisor reports none: also when the
  // cache is shared by the whole NUMA node (cadvisor then counts it as the node's). The kubelet
  // takes the socket's id then, and ids of the two kinds are one space.
  int uncore = -1;
};

// Immutable, everything counted beforehand. Safe from any thread.
//
// Groups (NUMA nodes, sockets, cores, uncore caches) are numbered 0, 1, … in the order of their
// ids, so that the kubelet's "smaller id first" is "smaller number first".
class CpuTopology {
 public:
  struct Group {
    int id = 0;
    int size = 0;  // CPUs
    CpuSet cpus;
    std::vector<std::uint16_t> cores;  // ascending
  };
  struct Core {
    std::uint16_t numa = 0;
    std::uint16_t socket = 0;
    std::uint16_t uncore = 0;
    std::uint16_t size = 0;   // CPUs
    std::uint32_t first = 0;  // where they start in threads(), ascending
  };
  // What two groups have in common: the CPUs of a NUMA node that are in a socket, say.
  struct Part {
    std::uint16_t inner = 0;
    CpuSet cpus;
  };

  // InvalidArgument: no CPU, a CPU twice, ids out of range (CPUs 0..4095, NUMA nodes 0..63).
  [[nodiscard]] static absl::StatusOr<CpuTopology> Create(std::vector<CpuInfo> cpus);

  [[nodiscard]] const CpuSet& all() const { return all_; }
  // NUMA nodes that have CPUs: others do not exist for the CPU manager.
  [[nodiscard]] NumaMask numa_mask() const { return numa_mask_; }
  [[nodiscard]] int cpu_count() const { return cpu_count_; }

  [[nodiscard]] const std::vector<Group>& numa_nodes() const { return numa_nodes_; }
  [[nodiscard]] const std::vector<Group>& sockets() const { return sockets_; }
  [[nodiscard]] const std::vector<Group>& uncores() const { return uncores_; }
  [[nodiscard]] const std::vector<Core>& cores() const { return cores_; }
  [[nodiscard]] const std::uint16_t* threads(const Core& core) const {
    return threads_.data() + core.first;
  }
  [[nodiscard]] int core_of(int cpu) const { return core_of_[static_cast<std::size_t>(cpu)]; }

  // By number of the NUMA node (socket): its sockets, its uncore caches (its NUMA nodes).
  [[nodiscard]] const std::vector<std::vector<Part>>& sockets_in_numa() const {
    return sockets_in_numa_;
  }
  [[nodiscard]] const std::vector<std::vector<Part>>& uncores_in_numa() const {
    return uncores_in_numa_;
  }
  [[nodiscard]] const std::vector<std::vector<Part>>& numa_in_sockets() const {
    return numa_in_sockets_;
  }
  // By number of the socket, its NUMA nodes by id.
  [[nodiscard]] const std::vector<NumaMask>& socket_masks() const { return socket_masks_; }

  // The kubelet's averages, rounded down: wrong for single cores, sockets and caches of uneven
  // machines, and what it computes with. At least 1.
  [[nodiscard]] int CpusPerCore() const { return cpu_count_ / static_cast<int>(cores_.size()); }
  [[nodiscard]] int CpusPerSocket() const { return cpu_count_ / static_cast<int>(sockets_.size()); }
  [[nodiscard]] int CpusPerUncore() const { return cpu_count_ / static_cast<int>(uncores_.size()); }
  // The most threads that a core has.
  [[nodiscard]] int WidestCore() const { return widest_core_; }
  // At least as many sockets as NUMA nodes: the NUMA node is the larger unit.
  [[nodiscard]] bool NumaFirst() const { return sockets_.size() >= numa_nodes_.size(); }

  // The fewest NUMA nodes whose CPUs, all of them, suffice; all NUMA nodes when none do; 1 for
  // requests below 1.
  [[nodiscard]] int MinimalWidth(std::int64_t request) const;

  // CPUs of the NUMA nodes of `mask`; ids without CPUs add nothing.
  [[nodiscard]] CpuSet InNuma(NumaMask mask) const;
  // CPUs of all sockets that have a CPU on a NUMA node of `mask`.
  [[nodiscard]] CpuSet InSocketsOf(NumaMask mask) const;

 private:
  CpuTopology() = default;
  void AddCores(const std::vector<CpuInfo>& cpus);
  void AddParts();

  CpuSet all_;
  NumaMask numa_mask_;
  int cpu_count_ = 0;
  int widest_core_ = 0;
  std::vector<Group> numa_nodes_;
  std::vector<Group> sockets_;
  std::vector<Group> uncores_;
  std::vector<Core> cores_;
  std::vector<std::uint16_t> threads_;
  std::vector<int> core_of_;
  std::vector<std::vector<Part>> sockets_in_numa_;
  std::vector<std::vector<Part>> uncores_in_numa_;
  std::vector<std::vector<Part>> numa_in_sockets_;
  std::vector<NumaMask> socket_masks_;
  std::vector<int> largest_numa_nodes_;  // CPUs in the largest, the two largest, …
};

}  // namespace numafit::policy
