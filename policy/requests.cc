#include "policy/requests.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "policy/cpu_manager/demand.h"
#include "policy/feature_gates.h"
#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

using Amounts = std::map<std::string, std::int64_t, std::less<>>;

MemoryRequests MemoryRequestsOf(const MemoryManager& manager, const Amounts& amounts,
                                bool zero_counts = true) {
  MemoryRequests requests;
  for (const auto& [resource, milli] : amounts) {
    if (resource == "cpu" || (milli == 0 && !zero_counts)) continue;
    if (milli % 1000 != 0) {
      requests.unreadable = true;
      continue;
    }
    requests.Add(manager.FindType(resource), milli / 1000);
  }
  return requests;
}

CpuDemand CpuDemandOf(const Amounts& requests, ContainerDemand::Kind kind) {
  const auto cpu = requests.find(std::string_view("cpu"));
  return {.kind = kind,
          .requests_cpu = cpu != requests.end(),
          .milli = cpu != requests.end() ? cpu->second : 0};
}

CpuDemand CpuDemandOf(const ContainerDemand& container) {
  return CpuDemandOf(container.requests, container.kind);
}

// A container that is not Guaranteed by itself has no CPUs and no memory apart from its Pod's.
bool SharesWithItsPod(const ContainerDemand& container) {
  return !container.requests_equal_limits && !Mutated(Mutation::kPodLevelAllOwn);
}

// What a Pod with resources of its own asks for in pod scope: those, whatever its containers do.
void AddPodLevelRequests(const Topology& topology, const Demand& demand, Requests& pod) {
  if (topology.cpu_manager() != nullptr) {
    pod.cpus = GuaranteedCpus(CpuDemandOf(demand.pod_requests, ContainerDemand::Kind::kApp));
  }
  if (topology.memory_manager() != nullptr) {
    pod.asks_memory = true;
    pod.memory = MemoryRequestsOf(*topology.memory_manager(), demand.pod_requests,
                                  /*zero_counts=*/false);
  }
}

}  // namespace

bool MayHaveOwnCpusAndMemory(const Topology& topology, const Demand& demand) {
  return demand.IsGuaranteed() &&
         (!demand.pod_level_resources || PodLevelResourceManagersAreOn(topology.kubelet()) ||
          Mutated(Mutation::kPodLevelIgnored));
}

bool IsAllocatedAsAWhole(const Topology& topology, const Demand& demand) {
  const KubeletSettings& kubelet = topology.kubelet();
  return demand.pod_level_resources && kubelet.policy != TopologyPolicy::kNone &&
         kubelet.scope == TopologyScope::kPod && PodLevelResourceManagersAreOn(kubelet);
}

bool GetsDevicesOnlyWhenItStarts(const Topology& topology, const Demand& demand) {
  if (!IsAllocatedAsAWhole(topology, demand)) return false;
  return std::any_of(demand.containers.begin(), demand.containers.end(),
                     [&](const ContainerDemand& container) {
                       const DeviceRequests requests = ContainerRequests(topology, container);
                       return std::any_of(requests.begin(), requests.end(),
                                          [](const auto& request) { return request.count > 0; });
                     });
}

RequestsOfContainers ContainerRequestsOf(const Topology& topology, const Demand& demand) {
  const bool own = MayHaveOwnCpusAndMemory(topology, demand);
  RequestsOfContainers all;
  for (const ContainerDemand& container : demand.containers) {
    Requests& requests = all.emplace_back();
    requests.devices = ContainerRequests(topology, container);
    const bool shares = demand.pod_level_resources && SharesWithItsPod(container);
    if (own && topology.cpu_manager() != nullptr && !shares) {
      requests.cpus = GuaranteedCpus(CpuDemandOf(container));
    }
    if (own && topology.memory_manager() != nullptr) {
      requests.asks_memory = true;
      if (!shares)
        requests.memory = MemoryRequestsOf(*topology.memory_manager(), container.requests);
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
  if (!MayHaveOwnCpusAndMemory(topology, demand)) return pod;
  if (demand.pod_level_resources && !Mutated(Mutation::kPodLevelSumsContainers)) {
    AddPodLevelRequests(topology, demand, pod);
    return pod;
  }
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
