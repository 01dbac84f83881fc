// Machines for the tests of the CPU manager, short to write.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "policy/cpu_manager/cpu_topology.h"
#include "policy/cpu_set.h"

namespace numafit::policy::testing {

// NUMA nodes of so many cores; the second threads come after all first ones, as Linux numbers them:
// Uniform(2, 2, 2, 1) has the cores {0,4} {1,5} on NUMA node 0, {2,6} {3,7} on 1.
inline std::vector<CpuInfo> Uniform(int numa_nodes, int cores_per_numa, int threads,
                                    int numa_per_socket, int cores_per_uncore = 0) {
  const int cores = numa_nodes * cores_per_numa;
  std::vector<CpuInfo> cpus;
  for (int thread = 0; thread < threads; ++thread) {
    for (int core = 0; core < cores; ++core) {
      const int numa = core / cores_per_numa;
      cpus.push_back({.cpu = thread * cores + core,
                      .core = core,
                      .socket = numa / numa_per_socket,
                      .numa = numa,
                      .uncore = cores_per_uncore == 0 ? -1 : core / cores_per_uncore});
    }
  }
  return cpus;
}

// NUMA nodes of two sockets each, one thread per core.
inline std::vector<CpuInfo> TwoSocketsEach(int numa_nodes, int cores_per_numa) {
  std::vector<CpuInfo> cpus = Uniform(numa_nodes, cores_per_numa, 1, 1);
  for (CpuInfo& cpu : cpus) cpu.socket = cpu.core * 2 / cores_per_numa;
  return cpus;
}

// One NUMA node; sockets of 8 and 4 CPUs, 6 on average.
inline std::vector<CpuInfo> UnevenSockets() {
  std::vector<CpuInfo> cpus = Uniform(1, 12, 1, 1);
  for (CpuInfo& cpu : cpus) cpu.socket = cpu.cpu < 8 ? 0 : 1;
  return cpus;
}

// Two cores of two threads, {0,1} {2,3}, and four of one: 1 on average.
inline std::vector<CpuInfo> HybridCores() {
  std::vector<CpuInfo> cpus = Uniform(1, 8, 1, 1);
  cpus[1].core = 0;
  cpus[3].core = 2;
  return cpus;
}

// Socket 0 has CPUs 0-1 on NUMA node 0 and 2-3 on NUMA node 1, socket 1 has 4-7 on NUMA node 1.
inline std::vector<CpuInfo> SocketOnTwoNumaNodes() {
  std::vector<CpuInfo> cpus = Uniform(2, 4, 1, 1);
  for (CpuInfo& cpu : cpus) {
    cpu.numa = cpu.cpu < 2 ? 0 : 1;
    cpu.socket = cpu.cpu < 4 ? 0 : 1;
  }
  return cpus;
}

inline CpuTopology TopologyOf(std::vector<CpuInfo> cpus) {
  return *CpuTopology::Create(std::move(cpus));
}
inline CpuSet Cpus(std::string_view text) {
  return *ParseCpuSet(text);
}

}  // namespace numafit::policy::testing
