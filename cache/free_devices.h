// Free and all devices of a node per resource and NUMA node: the numbers that people are shown.
#pragma once

#include <string>
#include <vector>

#include "cache/judge.h"
#include "policy/demand.h"
#include "policy/topology.h"

namespace numafit::cache {

// Ranges over what the kubelet's state may be: at_least < at_most where it is not certain.
struct FreeCount {
  // The NUMA node; -1: devices without one. A device on several NUMA nodes counts on each.
  int numa = -1;
  int at_least = 0;
  int at_most = 0;
  int all = 0;  // unhealthy ones too
};

struct ResourceFree {
  std::string resource;
  std::vector<FreeCount> by_numa;  // ascending; every NUMA node of the machine, -1 only if needed
  FreeCount total;                 // every device once
  int unhealthy = 0;
};

[[nodiscard]] ResourceFree FreeDevices(const NodeState& state, int pool);

// The most devices of the pool that are free on one NUMA node, whatever the kubelet's state is.
struct FreeTogether {
  int count = 0;
  int numa = -1;  // -1: it depends on the state which one, or none has any
};
[[nodiscard]] FreeTogether MostOnOneNumaNode(const NodeState& state, int pool);

// "gpu" for "nvidia.com/gpu": what stands after the last slash.
[[nodiscard]] std::string ShortName(const std::string& resource);
// "0", "0 and 1", "0, 1 and 2".
[[nodiscard]] std::string NumaList(policy::NumaMask mask);

}  // namespace numafit::cache
