// The books of CPUs and memory in the states that a node may be in.
#pragma once

#include <vector>

#include "policy/compute_state.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::cache {

// What the books may be once a Pod with this holding is gone: more than one where the kubelet's
// random order decides. Empty when there are too many.
[[nodiscard]] std::vector<policy::ComputeState> AfterRelease(const policy::Topology& topology,
                                                             const policy::ComputeState& books,
                                                             const policy::Holding& holding);

// What was allocated to a Pod as a whole (policy/requests.h) in the form in which reports tell it:
// how its containers part it does not matter to anybody but them.
[[nodiscard]] policy::Holding AsOneContainer(policy::Holding holding);

// A Pod holds this: takes it out of the books, as a kubelet does that reads its own checkpoint.
void AddToBooks(const policy::Topology& topology, const policy::Holding& holding,
                policy::ComputeState& books);

// Gives the CPUs other ids, so that states that differ in nothing else become equal.
//
// Cores of one NUMA node, socket and uncore cache are alike: which of them a Pod has decides
// nothing, as long as no two Pods share a core. Then the cores of the Pods come first, in the order
// of `owners`, and the free ones last. Groups with a shared core keep their ids: which of its
// threads becomes free first will matter. Ids are guesses before and after: nobody sees the
// kubelet's.
void UseLowestCpus(const policy::Topology& topology, std::vector<policy::CpuSet*> owners,
                   policy::CpuSet& default_cpus);

// What a Pod gets, told apart only as far as it decides anything for the Pod and others: devices,
// CPUs by NUMA node, memory.
struct HoldingShape {
  policy::DeviceHolding devices;
  std::vector<int> cpus;  // by number of the NUMA node in CpuTopology
  std::vector<policy::ContainerMemory> memory;

  friend bool operator==(const HoldingShape&, const HoldingShape&) = default;
};
[[nodiscard]] HoldingShape ShapeOf(const policy::Topology& topology,
                                   const policy::Holding& holding);

}  // namespace numafit::cache
