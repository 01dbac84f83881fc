// What is asked for at once, by all managers: a container, or the Pod in pod scope.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "policy/demand.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/topology.h"
#include "policy/topology_manager/scope.h"

namespace numafit::policy {

struct Requests {
  DeviceRequests devices;
  // Exclusive CPUs; 0 where the CPU manager has no say.
  std::int64_t cpus = 0;
  // The memory manager is asked, which may be for nothing.
  bool asks_memory = false;
  MemoryRequests memory;

  [[nodiscard]] bool empty() const {
    return devices.empty() && cpus == 0 && !(asks_memory && !memory.items.empty());
  }
};
using RequestsOfContainers = absl::InlinedVector<Requests, 4>;

[[nodiscard]] RequestsOfContainers ContainerRequestsOf(const Topology& topology,
                                                       const Demand& demand);
// `containers` are those of the Demand, in its order.
[[nodiscard]] Requests PodRequestsOf(const Topology& topology, const Demand& demand,
                                     const RequestsOfContainers& containers);

}  // namespace numafit::policy
