// Every book that the kubelet may have once Pods that are gone are released.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "policy/memory_manager/memory_manager.h"
#include "policy/memory_manager/memory_state.h"

namespace numafit::policy {

struct ReleasedStates {
  // At least one.
  std::set<MemoryState> states;
  // There are more orders than are looked at; `states` has some of what they lead to.
  bool truncated = false;
};

// The kubelet releases the Pods one after the other in the order of a Go map, each Pod's containers
// likewise (removeStaleState). `pods` has the containers of each. One state unless the order
// matters (ReleaseOrderMatters).
[[nodiscard]] ReleasedStates AfterReleases(const MemoryManager& manager, const MemoryState& state,
                                           std::span<const std::vector<ContainerMemory>> pods);

}  // namespace numafit::policy
