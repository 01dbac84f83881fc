// The device manager's book while one Pod is being admitted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// Per class of the topology. A plain value.
struct DeviceState {
  // allocatedDevices: held by any container of any active Pod, this one included.
  absl::InlinedVector<std::int32_t, 32> taken;
  // devicesToReuse: held by init containers of this Pod that have ended by now.
  absl::InlinedVector<std::int32_t, 32> reusable;

  explicit DeviceState(const Usage& usage)
      : taken(usage.raw().begin(), usage.raw().end()), reusable(usage.raw().size(), 0) {}
};

// The classes of a pool, as a range of indices.
struct PoolClasses {
  int begin = 0;
  int end = 0;

  explicit PoolClasses(const Topology::Pool& pool)
      : begin(pool.first_class), end(pool.first_class + pool.class_count) {}
};

// Healthy and not allocated. Never negative, also when a node is over-committed.
[[nodiscard]] inline int FreeDevices(const Topology& topology, const DeviceState& state,
                                     int class_index) {
  const auto at = static_cast<std::size_t>(class_index);
  const Topology::DeviceClass& device_class = topology.classes()[at];
  return device_class.healthy ? std::max(0, device_class.count - state.taken[at]) : 0;
}

}  // namespace numafit::policy
