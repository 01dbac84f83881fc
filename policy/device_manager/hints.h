// The device manager as a hint provider. Twin of devicemanager/topology_hints.go.
#pragma once

#include "policy/device_manager/state.h"
#include "policy/topology.h"
#include "policy/topology_manager/hint.h"
#include "policy/topology_manager/scope.h"

namespace numafit::policy {

// The hints for one resource. In container scope devices of earlier init containers are counted
// (`use_reusable`), in pod scope they are not.
[[nodiscard]] ResourceHints DeviceHints(const Topology& topology, const DeviceState& state,
                                        const DeviceRequest& request, bool use_reusable);

}  // namespace numafit::policy
