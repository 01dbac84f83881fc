// Machines and Pods for the tests of cache/.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "cache/fleet_file.h"
#include "policy/demand.h"
#include "policy/topology.h"

namespace numafit::test {

inline constexpr const char* kGpu = "nvidia.com/gpu";
inline constexpr const char* kRdma = "device.gpustack.ai/rdma";

struct Machine {
  const char* name;
  policy::TopologyPolicy policy;
  policy::TopologyScope scope;
  int numa_nodes;
  int gpus;                 // per NUMA node
  int endpoints;            // per NUMA node
  int endpoint_numa_nodes;  // those with endpoints, from NUMA 0
  // Besides: GPUs that sit on two NUMA nodes at once.
  int wide_gpus = 0;
  // The static CPU manager (12 CPUs per NUMA node, two threads a core) and the Static memory
  // manager (64 GiB per NUMA node).
  bool managers = false;
};

inline constexpr Machine kEven = {
    "Even", policy::TopologyPolicy::kSingleNumaNode, policy::TopologyScope::kContainer, 2, 4, 4, 2};
inline constexpr Machine kUnaligned = {
    "Unaligned", policy::TopologyPolicy::kNone, policy::TopologyScope::kContainer, 2, 4, 4, 2};

inline const Machine kMachines[] = {
    kEven,
    kUnaligned,
    {"OneSided", policy::TopologyPolicy::kRestricted, policy::TopologyScope::kContainer, 2, 4, 4,
     1},
    {"Quarters", policy::TopologyPolicy::kSingleNumaNode, policy::TopologyScope::kPod, 4, 2, 2, 4},
    {"RestrictedQuarters", policy::TopologyPolicy::kRestricted, policy::TopologyScope::kPod, 4, 2,
     2, 4},
    {"BestEffort", policy::TopologyPolicy::kBestEffort, policy::TopologyScope::kContainer, 2, 4, 2,
     2},
    {"Wide", policy::TopologyPolicy::kRestricted, policy::TopologyScope::kContainer, 2, 2, 2, 2, 2},
};

inline const Machine kMachinesWithManagers[] = {
    {"EvenWithManagers", policy::TopologyPolicy::kSingleNumaNode, policy::TopologyScope::kContainer,
     2, 4, 4, 2, 0, true},
    {"RestrictedWithManagers", policy::TopologyPolicy::kRestricted,
     policy::TopologyScope::kContainer, 2, 4, 4, 2, 0, true},
    {"QuartersWithManagers", policy::TopologyPolicy::kRestricted, policy::TopologyScope::kPod, 4, 2,
     2, 4, 0, true},
    {"BestEffortWithManagers", policy::TopologyPolicy::kBestEffort,
     policy::TopologyScope::kContainer, 2, 4, 2, 2, 0, true},
    {"UnalignedWithManagers", policy::TopologyPolicy::kNone, policy::TopologyScope::kContainer, 2,
     4, 4, 2, 0, true},
};

inline void AddManagers(policy::TopologySpec& spec) {
  constexpr int kCpus = 12;
  int next = 0;
  for (policy::NumaNodeSpec& numa : spec.numa) {
    std::vector<int> cpus;
    for (int i = 0; i < kCpus; ++i) cpus.push_back(next++);
    numa.cores = policy::CoresOf(cpus, 2, numa.id);
    numa.memory = std::int64_t{64} << 30;
  }
  spec.kubelet.cpu_policy = policy::CpuPolicy::kStatic;
  spec.kubelet.reserved_cpu_milli = 2000;
  spec.kubelet.memory_policy = policy::MemoryPolicy::kStatic;
  spec.kubelet.reserved_memory = {{.numa = 0, .limits = {{"memory", std::int64_t{1} << 30}}}};
}

inline policy::TopologySpec SpecOf(const Machine& machine) {
  policy::TopologySpec spec;
  spec.kubelet.policy = machine.policy;
  spec.kubelet.scope = machine.scope;
  spec.kubelet.version = policy::KubeletVersion::Parse("v1.36.3");
  for (int numa = 0; numa < machine.numa_nodes; ++numa) {
    spec.numa.emplace_back().id = numa;
    for (int i = 0; i < machine.gpus; ++i) {
      auto& device = spec.devices[kGpu].emplace_back();
      device.id = "g" + std::to_string(numa) + "-" + std::to_string(i);
      device.numa = std::vector<int>{numa};
    }
    if (numa >= machine.endpoint_numa_nodes) continue;
    for (int i = 0; i < machine.endpoints; ++i) {
      auto& device = spec.devices[kRdma].emplace_back();
      device.id = "e" + std::to_string(numa) + "-" + std::to_string(i);
      device.numa = std::vector<int>{numa};
    }
  }
  for (int i = 0; i < machine.wide_gpus; ++i) {
    auto& device = spec.devices[kGpu].emplace_back();
    device.id = "w" + std::to_string(i);
    device.numa = std::vector<int>{0, 1};
  }
  if (machine.managers) AddManagers(spec);
  return spec;
}

inline std::shared_ptr<const policy::Topology> Make(const Machine& machine) {
  return policy::Topology::Create(SpecOf(machine)).value();
}

inline std::shared_ptr<policy::Demand> Want(int gpus, int endpoints) {
  auto demand = std::make_shared<policy::Demand>();
  policy::ContainerDemand& container = demand->containers.emplace_back();
  container.name = "main";
  if (gpus > 0) container.devices[kGpu] = gpus;
  if (endpoints > 0) container.devices[kRdma] = endpoints;
  demand->accelerators = {kGpu};
  demand->endpoints = {kRdma};
  return demand;
}

// One to three containers of one to four devices; sometimes with an init container or a sidecar.
inline std::shared_ptr<policy::Demand> RandomDemand(std::mt19937& random) {
  using Kind = policy::ContainerDemand::Kind;
  auto demand = Want(static_cast<int>(1 + random() % 4), static_cast<int>(random() % 4));
  if (random() % 4 == 0) {
    policy::ContainerDemand second;
    second.name = "second";
    second.devices[kGpu] = static_cast<int>(1 + random() % 2);
    demand->containers.push_back(second);
  }
  if (random() % 5 == 0) {
    policy::ContainerDemand first;
    first.name = "first";
    first.kind = random() % 2 == 0 ? Kind::kInit : Kind::kSidecar;
    first.devices[kGpu] = static_cast<int>(1 + random() % 3);
    demand->containers.insert(demand->containers.begin(), first);
  }
  return demand;
}

// The same, and more than half of them Guaranteed: CPUs (whole cores mostly) and memory of their
// own.
inline std::shared_ptr<policy::Demand> RandomDemandWithCpus(std::mt19937& random) {
  auto demand = RandomDemand(random);
  if (random() % 5 < 2) return demand;
  demand->qos = policy::QosClass::kGuaranteed;
  for (policy::ContainerDemand& container : demand->containers) {
    const auto cpus = static_cast<std::int64_t>(random() % 8 == 0 ? 3 : 2 + random() % 3 * 2);
    container.requests["cpu"] = cpus * 1000;
    container.requests["memory"] = (static_cast<std::int64_t>(4 + random() % 5 * 10) << 30) * 1000;
  }
  return demand;
}

}  // namespace numafit::test
