// Devices that a container, or a Pod, has already: what the kubelet asks about when it admits the
// Pod of running containers once more (devicemanager/pod_devices.go).
#pragma once

#include "absl/container/inlined_vector.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// A plain value.
struct HeldDevices {
  // `count` devices of pools()[pool].
  struct Unlisted {
    int pool = 0;
    int count = 0;
  };

  // Those that their plugin lists, healthy or not.
  DeviceHolding listed;
  // Those that it lists no more; no pool twice.
  absl::InlinedVector<Unlisted, 1> unlisted;

  // How many of the pool, listed or not.
  [[nodiscard]] int Of(const Topology& topology, int pool) const;
  [[nodiscard]] bool HasUnlisted(int pool) const;
  // Whether the plugin lists all of them as healthy.
  [[nodiscard]] bool AreHealthy(const Topology& topology, int pool) const;
};

}  // namespace numafit::policy
