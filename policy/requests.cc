#include "policy/requests.h"

#include <string_view>

#include "policy/cpu_manager/demand.h"
#include "policy/memory_manager/memory_manager.h"

namespace numafit::policy {
namespace {

MemoryRequests MemoryRequestsOf(const MemoryManager& manager, const ContainerDemand& container) {
  MemoryRequests requests;
  for (const auto& [resource, milli] : container.requests) {
    if (resource == "cpu") continue;
    if (milli % 1000 != 0) {
      requests.unreadable = true;
      continue;
    }
    requests.Add(manager.FindType(resource), milli / 1000);
  }
  return requests;
}

CpuDemand CpuDemandOf(const ContainerDemand& container) {
  const auto cpu = container.requests.find(std::string_view("cpu"));
  return {.kind = container.kind,
          .requests_cpu = cpu != container.requests.end(),
          .milli = cpu != container.requests.end() ? cpu->second : 0};
}

}  // namespace

RequestsOfContainers ContainerRequestsOf(const Topology& topology, const Demand& demand) {
  const bool own = demand.MayHaveOwnCpusAndMemory();
  RequestsOfContainers all;
  for (const ContainerDemand& container : demand.containers) {
    Requests& requests = all.emplace_back();
    requests.devices = ContainerRequests(topology, container);
    if (own && topology.cpu_manager() != nullptr) {
      requests.cpus = GuaranteedCpus(CpuDemandOf(container));
    }
    if (own && topology.memory_manager() != nullptr) {
      requests.asks_memory = true;
      requests.memory = MemoryRequestsOf(*topology.memory_manager(), container);
    }
  }
  return all;
}

Requests PodRequestsOf(const Topology& topology, const Demand& demand,
                       const RequestsOfContainers& containers) {
  Requests pod;
  absl::InlinedVector<DeviceRequests, 4> devices;
  for (const Requests& container : containers) devices.push_back(container.devices);
  pod.devices = PodRequests(demand, devices);
  if (!demand.MayHaveOwnCpusAndMemory()) return pod;
  if (topology.cpu_manager() != nullptr) {
    absl::InlinedVector<CpuDemand, 4> cpus;
    for (const ContainerDemand& container : demand.containers) {
      cpus.push_back(CpuDemandOf(container));
    }
    pod.cpus = PodGuaranteedCpus(cpus);
  }
  if (topology.memory_manager() != nullptr) {
    absl::InlinedVector<ContainerMemoryRequests, 4> memory;
    for (std::size_t i = 0; i < containers.size(); ++i) {
      memory.push_back({.kind = demand.containers[i].kind, .requests = containers[i].memory});
    }
    pod.asks_memory = true;
    pod.memory = PodMemoryRequests(memory);
  }
  return pod;
}

}  // namespace numafit::policy
