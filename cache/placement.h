// The annotation numafit.io/placement: where a bound Pod's devices are expected to be.
//
//   {"certain": true,
//    "containers": [{"name": "main", "numa": [0],
//                    "devices": {"nvidia.com/gpu": {"0": 4}, "device.gpustack.ai/rdma": {"0":
//                    4}}}],
//    "held": [{"nvidia.com/gpu": {"0": 4}, "device.gpustack.ai/rdma": {"0": 4}}]}
//
// A device count is given per set of NUMA nodes: "0", "0,1", or "none" for devices that publish no
// topology. `containers` is the first outcome that the kubelet may reach; `certain` says that it is
// the only one. `held` lists everything that the Pod as a whole may hold (init containers'
// leftovers included); absent when there are too many. It is what a restarted extender goes by.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/admit.h"
#include "policy/demand.h"
#include "policy/topology.h"

namespace numafit::cache {

inline constexpr std::string_view kPlacementAnnotation = "numafit.io/placement";

// `held` are the possible holdings, empty when unknown.
std::string PlacementJson(const policy::Topology& topology, const policy::Demand& demand,
                          const policy::AdmitResult& admission,
                          const std::vector<policy::DeviceHolding>& held);

// The possible holdings that the annotation names. Empty when it is not ours, does not fit the
// machine or the demand, or leaves them open.
std::vector<policy::DeviceHolding> HeldFromPlacement(const policy::Topology& topology,
                                                     const policy::Demand& demand,
                                                     std::string_view placement);

// "nvidia.com/gpu 2 on NUMA 0, device.gpustack.ai/rdma 2 on NUMA 0", for people; "nothing".
std::string HoldingText(const policy::Topology& topology, const policy::DeviceHolding& holding);

}  // namespace numafit::cache
