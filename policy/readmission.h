// Readmit: does a kubelet that has restarted take its Pod again?
//
// A new kubelet reads who has which devices, CPUs and memory from the state files of the old one
// and admits every active Pod once more, oldest first, before its sources of Pods are ready and
// before any device plugin has come back. Rules, beside those of Admit:
//
// 1. Nothing of a Pod that is gone is taken back meanwhile (removeStaleState and
//    UpdateAllocatedDevices wait for the sources).
// 2. The CPU manager makes hints of the CPUs that a container has (cpumanager/policy_static.go,
//    GetTopologyHints, GetPodTopologyHints), the memory manager of its blocks
//    (memorymanager/policy_static.go, regenerateHints). What a container has, it keeps; what it has
//    not any more (memory of an init container that has ended) it is allocated anew.
// 3. Before 1.37 full-pcpus-only is checked again, with the cores that the Pod itself holds counted
//    as taken: KubeletVersion::KeepsAllocatedCpusUnchecked.
// 4. A Pod that was allocated as a whole has hints of what it has (where a container shares, there
//    are none: it has CPUs and requests none), but is allocated anew: what it had before is not
//    given back, and its new entries take the place of the old ones.
// 5. A container that runs needs no devices; one that does not run, and an init container that has
//    ended, is refused if it asks for any: no plugin lists a healthy one
//    (devicemanager/manager.go, devicesToAllocate).
//
// There is no choice: one Pod, one outcome.
#pragma once

#include <span>

#include "policy/admit.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/device_manager/held_devices.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// What a container has when its Pod is admitted again: by a kubelet that has come back, or for a
// resize (resize.h). A plain value.
struct HeldContainer {
  // Empty: the CPU manager's book has no entry.
  CpuSet cpus;
  ContainerMemory memory;
  // After a restart: the runtime says that it runs. Its devices are then those that it asked for.
  bool runs = false;
  // For a resize.
  HeldDevices devices;
};

// What a Pod that was allocated as a whole has beside that (requests.h): its own entries.
struct HeldAsAWhole {
  CpuSet cpus;
  MemoryBlocks memory;
};

struct ReadmitResult {
  // Its `held` has no devices: none is given out or taken back here. When refused, `held` and
  // `containers` (one for each) are what the Pod has all the same until the next admission.
  Outcome outcome;
  // Nobody can wait for the outcome; it means nothing then.
  bool intractable = false;
  bool endless = false;  // as in AdmitResult
};

// `usage` has `held` in its books. `held`: one for each container of the Demand.
// Precondition: no resource of `topology` lists a device. Pure, safe from any thread.
[[nodiscard]] ReadmitResult Readmit(const Topology& topology, const Usage& usage,
                                    const Demand& demand, std::span<const HeldContainer> held,
                                    const HeldAsAWhole& held_pod = {});

}  // namespace numafit::policy
