// Machines and Pods for the tests, short to write.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/admit.h"
#include "policy/demand.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy::testing {

inline constexpr char kGpu[] = "nvidia.com/gpu";
inline constexpr char kNic[] = "rdma/hca";

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Builds a TopologySpec step by step; ids are <first letter of the resource><number>.
class Machine {
 public:
  // NUMA nodes 0..numa_nodes-1, the newest kubelet.
  explicit Machine(int numa_nodes, TopologyPolicy policy = TopologyPolicy::kRestricted) {
    for (int id = 0; id < numa_nodes; ++id) spec_.numa.emplace_back().id = id;
    spec_.kubelet.policy = policy;
  }

  // So many devices on NUMA node 0, 1, …
  Machine& Pool(const std::string& resource, const std::vector<int>& per_node) {
    for (std::size_t node = 0; node < per_node.size(); ++node) {
      for (int i = 0; i < per_node[node]; ++i)
        Device(resource, std::vector<int>{static_cast<int>(node)});
    }
    spec_.devices[resource];
    return *this;
  }
  Machine& Device(const std::string& resource, std::optional<std::vector<int>> numa,
                  bool healthy = true, const std::string& endpoint = "") {
    std::vector<DeviceSpec>& devices = spec_.devices[resource];
    DeviceSpec& device = devices.emplace_back();
    device.id = resource.substr(0, 1) + std::to_string(devices.size() - 1);
    device.numa = std::move(numa);
    device.healthy = healthy;
    device.endpoint = endpoint;
    return *this;
  }
  // The devices listed so far, of this resource and NUMA node, are unhealthy from the first on.
  Machine& Break(const std::string& resource, int node, int count) {
    for (DeviceSpec& device : spec_.devices[resource]) {
      if (count > 0 && device.numa == std::vector<int>{node}) {
        device.healthy = false;
        --count;
      }
    }
    return *this;
  }
  Machine& Scope(TopologyScope scope) {
    spec_.kubelet.scope = scope;
    return *this;
  }
  Machine& Version(int minor) {
    spec_.kubelet.version = {1, minor};
    return *this;
  }
  Machine& Closest(const std::vector<std::vector<int>>& distances) {
    spec_.kubelet.prefer_closest_numa_nodes = true;
    for (std::size_t i = 0; i < distances.size(); ++i) spec_.numa[i].distances = distances[i];
    return *this;
  }
  Machine& Prefer(const std::string& resource, std::vector<std::string> order) {
    spec_.preferred_allocation[resource] = std::move(order);
    return *this;
  }

  // So many CPUs on each NUMA node, numbered on; NUMA nodes are sockets. The static CPU manager,
  // with so many thousandths of a CPU reserved.
  Machine& StaticCpus(int cpus_per_node, int threads_per_core = 1,
                      std::map<std::string, std::string> options = {}, int reserved_milli = 1000) {
    int next = 0;
    for (NumaNodeSpec& node : spec_.numa) {
      std::vector<int> cpus;
      for (int i = 0; i < cpus_per_node; ++i) cpus.push_back(next++);
      node.cores = CoresOf(cpus, threads_per_core, node.id);
    }
    spec_.kubelet.cpu_policy = CpuPolicy::kStatic;
    spec_.kubelet.cpu_options = std::move(options);
    spec_.kubelet.reserved_cpu_milli = reserved_milli;
    return *this;
  }
  // So many GiB on each NUMA node, and the Static memory manager with 1 GiB reserved on the first.
  Machine& StaticMemory(int gib_per_node) {
    for (NumaNodeSpec& node : spec_.numa) node.memory = gib_per_node * kGiB;
    spec_.kubelet.memory_policy = MemoryPolicy::kStatic;
    spec_.kubelet.reserved_memory = {{.numa = spec_.numa.front().id, .limits = {{"memory", kGiB}}}};
    return *this;
  }
  // On every NUMA node.
  Machine& Hugepages(const std::string& size, std::int64_t page_bytes, std::int64_t pages) {
    for (NumaNodeSpec& node : spec_.numa) node.hugepages.push_back({size, page_bytes, pages});
    return *this;
  }

  TopologySpec& spec() { return spec_; }
  [[nodiscard]] std::shared_ptr<const Topology> Build() const {
    auto topology = Topology::Create(spec_);
    if (!topology.ok()) return nullptr;
    return *topology;
  }

 private:
  TopologySpec spec_;
};

using Limits = std::map<std::string, std::int64_t, std::less<>>;

// Builds a Demand container by container; kGpu is an accelerator, kNic an endpoint.
class PodOf {
 public:
  PodOf() {
    demand_.accelerators = {kGpu};
    demand_.endpoints = {kNic};
  }
  PodOf& Init(Limits limits) { return Add(ContainerDemand::Kind::kInit, std::move(limits)); }
  PodOf& Sidecar(Limits limits) { return Add(ContainerDemand::Kind::kSidecar, std::move(limits)); }
  PodOf& App(Limits limits) { return Add(ContainerDemand::Kind::kApp, std::move(limits)); }
  // The container added last requests so many thousandths of a CPU and GiB; the Pod is Guaranteed.
  PodOf& With(std::int64_t cpu_milli, std::int64_t memory_gib) {
    demand_.qos = QosClass::kGuaranteed;
    auto& requests = demand_.containers.back().requests;
    requests["cpu"] = cpu_milli;
    requests["memory"] = memory_gib * kGiB * 1000;
    return *this;
  }
  PodOf& WithHugepages(const std::string& size, std::int64_t bytes) {
    demand_.containers.back().requests["hugepages-" + size] = bytes * 1000;
    return *this;
  }
  PodOf& Qos(QosClass qos) {
    demand_.qos = qos;
    return *this;
  }
  PodOf& PodLevelResources() {
    demand_.pod_level_resources = true;
    return *this;
  }
  // … so many thousandths of a CPU and GiB, and the Pod is Guaranteed.
  PodOf& Whole(std::int64_t cpu_milli, std::int64_t memory_gib) {
    demand_.qos = QosClass::kGuaranteed;
    demand_.pod_level_resources = true;
    demand_.pod_requests["cpu"] = cpu_milli;
    demand_.pod_requests["memory"] = memory_gib * kGiB * 1000;
    return *this;
  }
  // The container added last is Guaranteed by itself.
  PodOf& Own(std::int64_t cpu_milli, std::int64_t memory_gib) {
    demand_.containers.back().requests_equal_limits = true;
    return With(cpu_milli, memory_gib);
  }
  PodOf& Needs(AlignmentNeed need) {
    demand_.alignment = need;
    return *this;
  }
  PodOf& Distinct() {
    demand_.distinct_endpoints = true;
    demand_.shared_endpoints = {kNic};
    return *this;
  }
  operator const Demand&() const { return demand_; }  // NOLINT(google-explicit-constructor)

 private:
  PodOf& Add(ContainerDemand::Kind kind, Limits limits) {
    ContainerDemand& container = demand_.containers.emplace_back();
    container.kind = kind;
    container.devices = std::move(limits);
    return *this;
  }
  Demand demand_;
};

// So many devices of the resource on each NUMA node are in use.
inline void Take(const Topology& topology, Usage& usage, const std::string& resource,
                 const std::vector<int>& per_node) {
  const Topology::Pool& pool =
      topology.pools()[static_cast<std::size_t>(topology.FindPool(resource))];
  for (int c = pool.first_class; c < pool.first_class + pool.class_count; ++c) {
    const auto& k = topology.classes()[static_cast<std::size_t>(c)];
    if (!k.healthy || k.numa.count() != 1) continue;
    const auto node = static_cast<std::size_t>(k.numa.first());
    if (node < per_node.size() && per_node[node] > 0) usage.Add({{c, per_node[node]}});
  }
}

// How many devices of the resource a holding has on the NUMA node.
inline int On(const Topology& topology, const DeviceHolding& holding, const std::string& resource,
              int node) {
  const Topology::Pool& pool =
      topology.pools()[static_cast<std::size_t>(topology.FindPool(resource))];
  int count = 0;
  for (const ClassCount& item : holding) {
    if (item.class_index < pool.first_class ||
        item.class_index >= pool.first_class + pool.class_count) {
      continue;
    }
    const auto& k = topology.classes()[static_cast<std::size_t>(item.class_index)];
    if (k.numa.contains(node)) count += item.count;
  }
  return count;
}

inline NumaMask MaskOf(std::initializer_list<int> ids) {
  NumaMask mask;
  for (const int id : ids) mask.add(id);
  return mask;
}

}  // namespace numafit::policy::testing
