#include "policy/unit_room.h"

#include <algorithm>
#include <limits>

#include "policy/numa_subsets.h"

namespace numafit::policy {
namespace {

// Sets of NUMA nodes of one size that a question about a refusal may look at.
constexpr std::int64_t kMostSubsets = 4096;

bool AsksForDevicesOnly(const Requests& requests) {
  return requests.cpus == 0 && (!requests.asks_memory || requests.memory.items.empty());
}

std::int64_t SubsetsOf(int count, int size) {
  std::int64_t number = 1;
  for (int i = 1; i <= std::min(size, count - size) && number <= kMostSubsets; ++i) {
    number = number * (count - i + 1) / i;
  }
  return number;
}

// NUMA nodes that add anything.
NumaMask NodesOf(const Topology& topology, const Requests& requests) {
  NumaMask nodes = NumaNodesOf(topology, requests.devices);
  if (requests.cpus != 0) nodes = nodes | topology.cpu_manager()->topology().numa_mask();
  if (requests.asks_memory && !requests.memory.items.empty()) nodes = nodes | topology.numa();
  return nodes;
}

}  // namespace

Requests AllUnitRequests(const Topology& topology, const Demand& demand, std::size_t container) {
  const RequestsOfContainers all = ContainerRequestsOf(topology, demand);
  if (topology.kubelet().scope == TopologyScope::kPod) return PodRequestsOf(topology, demand, all);
  return all[container];
}

Usage UsageAtRefusal(const Topology& topology, Usage before, const Outcome& refusal) {
  if (topology.kubelet().scope == TopologyScope::kPod) return before;
  before.Add(refusal.held.devices);
  if (topology.HasBooks()) {
    before.compute() = refusal.compute;
    // What the refused container itself has got.
    const auto refused = static_cast<std::size_t>(std::max(0, refusal.refused_container));
    if (refused < refusal.containers.size()) {
      before.compute().default_cpus |= refusal.containers[refused].cpus;
    }
  }
  return before;
}

std::int64_t CpusOn(const Topology& topology, NumaMask mask, Counted counted, const Usage& usage) {
  const CpuManager& manager = *topology.cpu_manager();
  const CpuSet cpus = manager.topology().InNuma(mask);
  if (counted == Counted::kAll) return cpus.count();
  const CpuSet open = cpus - manager.reserved();
  return counted == Counted::kHealthy ? open.count() : open.CountAnd(usage.compute().default_cpus);
}

std::int64_t MemoryOn(const Topology& topology, NumaMask mask, int type, Counted counted,
                      const Usage& usage) {
  const MemoryManager& manager = *topology.memory_manager();
  if (type < 0) return 0;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < manager.numa_ids().size(); ++i) {
    if (!mask.contains(manager.numa_ids()[i])) continue;
    const std::uint64_t bytes = counted == Counted::kFree ? usage.compute().memory.at(i, type).free
                                                          : manager.allocatable(i, type);
    // More is reserved than there is: the kubelet's number wraps around, and means nothing.
    if (bytes <= kMost) sum += static_cast<std::int64_t>(bytes);
  }
  return sum;
}

int FewestNumaNodesOfMemory(const Topology& topology, const MemoryRequests& memory) {
  Requests requests;
  requests.asks_memory = true;
  requests.memory = memory;
  return FewestNumaNodes(topology, requests);
}

bool HasRoom(const Topology& topology, const Requests& requests, NumaMask mask, Counted counted,
             const Usage& usage) {
  if (requests.cpus > 0 && CpusOn(topology, mask, counted, usage) < requests.cpus) return false;
  if (requests.asks_memory) {
    for (const MemoryRequests::Item& item : requests.memory.items) {
      const std::int64_t room = MemoryOn(topology, mask, item.type, counted, usage);
      if (static_cast<std::uint64_t>(room) < item.bytes) return false;
    }
  }
  return HasRoom(topology, requests.devices, mask, counted, usage);
}

bool SomeNodesHaveRoom(const Topology& topology, const Requests& requests, int width,
                       Counted counted, const Usage& usage) {
  if (AsksForDevicesOnly(requests)) {
    return SomeNodesHaveRoom(topology, requests.devices, width, counted, usage);
  }
  const NumaMask nodes = NodesOf(topology, requests);
  if (nodes.count() <= width || SubsetsOf(nodes.count(), width) > kMostSubsets) {
    return HasRoom(topology, requests, topology.numa(), counted, usage);
  }
  bool found = false;
  ForEachSubsetOfSize(nodes, width, [&](NumaMask mask) {
    found = HasRoom(topology, requests, mask, counted, usage);
    return !found;
  });
  return found;
}

int FewestNumaNodes(const Topology& topology, const Requests& requests) {
  if (AsksForDevicesOnly(requests)) return FewestNumaNodes(topology, requests.devices);
  const Usage none(topology);
  const int all = topology.numa().count();
  for (int width = 1; width < all; ++width) {
    if (SomeNodesHaveRoom(topology, requests, width, Counted::kAll, none)) return width;
  }
  return all;
}

}  // namespace numafit::policy
