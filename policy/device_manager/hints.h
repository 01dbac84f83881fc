// The device manager as a hint provider. Twin of devicemanager/topology_hints.go.
#pragma once

#include "policy/device_manager/held_devices.h"
#include "policy/device_manager/state.h"
#include "policy/topology.h"
#include "policy/topology_manager/hint.h"
#include "policy/topology_manager/scope.h"

namespace numafit::policy {

// The hints for one resource. In container scope devices of earlier init containers are counted
// (`use_reusable`), in pod scope they are not.
[[nodiscard]] ResourceHints DeviceHints(const Topology& topology, const DeviceState& state,
                                        const DeviceRequest& request, bool use_reusable);

// … for one who has devices of the resource already: on which NUMA nodes these are, healthy or not.
// Impossible when they are not as many as requested, or when one of them has no NUMA node. (One
// that is not listed any more has none here; the kubelet panics.) Precondition: `held` has some of
// the resource.
[[nodiscard]] ResourceHints HeldDeviceHints(const Topology& topology, const DeviceState& state,
                                            const DeviceRequest& request, const HeldDevices& held);

}  // namespace numafit::policy
