// What must land together, and on how few NUMA nodes this hardware could have it.
//
// A unit is a container, in pod scope the whole Pod. A unit that asks for accelerators and
// endpoints has an alignment need (docs/how-the-mirror-works.md): its devices belong on one NUMA
// node, or on the fewest that this hardware allows. The fewest is counted over all devices,
// allocated and unhealthy ones too, as the kubelet counts its minimal width: it is a fact of the
// machine and does not change while Pods come and go.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "policy/admit.h"
#include "policy/demand.h"
#include "policy/numa_mask.h"
#include "policy/topology.h"
#include "policy/topology_manager/scope.h"
#include "policy/usage.h"

namespace numafit::policy {

struct AlignmentUnit {
  // The containers of the Demand that it is made of: [first, last).
  std::size_t first_container = 0;
  std::size_t last_container = 0;
  // Its accelerators and endpoints, at least one of each; no zero.
  DeviceRequests requests;
  // Its endpoints alone.
  DeviceRequests endpoints;
};

// The units of the Demand that have an alignment need.
[[nodiscard]] std::vector<AlignmentUnit> AlignmentUnits(const Topology& topology,
                                                        const Demand& demand);

// All that a refused unit asked for, whatever it is; pod scope: the Pod.
[[nodiscard]] DeviceRequests UnitRequests(const Topology& topology, const Demand& demand,
                                          std::size_t container);

// Devices that count toward a request.
enum class Counted {
  kAll,      // of the machine
  kHealthy,  // those that an empty machine could give
  kFree,     // healthy and not in `usage`
};

// Whether the NUMA nodes in `mask` have the devices for all requests. Devices of which nobody
// knows a NUMA node count on every mask.
[[nodiscard]] bool HasRoom(const Topology& topology, const DeviceRequests& requests, NumaMask mask,
                           Counted counted, const Usage& usage);

// Where the devices that these requests are about are, as far as that is known.
[[nodiscard]] NumaMask NumaNodesOf(const Topology& topology, const DeviceRequests& requests);

// The fewest NUMA nodes of the machine that have the devices for all requests, counting all; all of
// the machine's when even those do not.
[[nodiscard]] int FewestNumaNodes(const Topology& topology, const DeviceRequests& requests);

// Whether some `width` NUMA nodes have room.
[[nodiscard]] bool SomeNodesHaveRoom(const Topology& topology, const DeviceRequests& requests,
                                     int width, Counted counted, const Usage& usage);

// Whether the whole node has the devices, wherever they are.
[[nodiscard]] bool NodeHasRoom(const Topology& topology, const DeviceRequests& requests,
                               Counted counted, const Usage& usage);

// The name of a resource that the Pod needs as accelerator or endpoint and that the node has not
// registered; empty when there is none.
[[nodiscard]] std::string_view MissingResource(const Topology& topology, const Demand& demand);

}  // namespace numafit::policy
