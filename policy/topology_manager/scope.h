// What is asked for at once: a container, or the Pod. Twin of topologymanager's scopes and of
// component-helpers' PodLimits.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "policy/demand.h"
#include "policy/topology.h"

namespace numafit::policy {

// `count` devices of pools()[pool]; zero is a request too.
struct DeviceRequest {
  int pool = 0;
  std::int64_t count = 0;

  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};
// Sorted by pool, no pool twice.
using DeviceRequests = absl::InlinedVector<DeviceRequest, 4>;

// A container's limits, those of resources that the node has registered.
[[nodiscard]] DeviceRequests ContainerRequests(const Topology& topology,
                                               const ContainerDemand& container);

// Per resource the larger of: all app containers and sidecars together; any init container
// together with the sidecars before it. `containers` are those of the Demand, in its order.
[[nodiscard]] DeviceRequests PodRequests(const Demand& demand,
                                         const absl::InlinedVector<DeviceRequests, 4>& containers);

}  // namespace numafit::policy
