// Resize: does a kubelet take other requests and limits of CPUs and memory for a Pod that it runs?
//
// Rules (allocation/allocation_manager.go and, from 1.36, allocation/handlers.go)
// 1. A Guaranteed Pod is infeasible, for good, beside the static CPU manager when the CPUs that a
//    container requests change, then beside the Static memory manager when its memory does:
//    exclusive or not. Init containers other than sidecars count from 1.36 on. The gates
//    InPlacePodVerticalScalingExclusiveCPUs and …ExclusiveMemory (off by default) let them pass;
//    what a container has then stays all the same.
// 2. Else the Pod is admitted once more, with the new requests and with what it has. What refuses
//    it there defers the resize, whatever the reason: the kubelet tries again later.
// 3. Devices are asked about like CPUs and memory, though their number cannot change: hints are
//    where they are, healthy or not (devicemanager/topology_hints.go). Devices that are unhealthy
//    or not listed any more are then not allocated again, so no resize passes as long as a
//    container has one (devicemanager/manager.go, devicesToAllocate). Resources that were not
//    registered when the Pod was admitted are given out now.
// 4. CPUs and memory as after a restart (readmission.h). Memory of an init container that has ended
//    is taken again; when the resize is deferred all the same, it stays taken.
// 5. Unlike after a restart the managers still know what the Pod's init containers had left, unless
//    another Pod was given something since.
// 6. From 1.37 on nothing is allocated in a resize, and CPUs and memory are not asked about
//    (lifecycle.ResizeOperation): only hints of devices decide.
//
// Not here: resource predicates and the node's allocatable, and swap.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "policy/admit.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/device_manager/held_devices.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/readmission.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// What a running Pod has, and what the managers remember of it.
struct RunningPod {
  // One for each container of the Demand; `runs` is not read.
  std::vector<HeldContainer> containers;
  // Of all of them together, each device once.
  HeldDevices devices;
  // What its init containers have left over and nobody has taken; empty when another Pod was given
  // devices, CPUs, or memory, since, and after a restart.
  HeldDevices left_devices;
  CpuSet left_cpus;
  ReusableMemory left_memory;
};

enum class ResizeVerdict {
  kNone,        // there is nothing to resize, or nobody left to do it
  kTaken,       // the Pod has the new requests and limits
  kInfeasible,  // the kubelet does not try again
  kDeferred,    // it does
};
// The reason of the Pod's condition PodResizePending, or "none" or "taken".
[[nodiscard]] std::string_view ResizeVerdictName(ResizeVerdict verdict);

// Why a resize from one Demand to the other is infeasible, in the words of the kubelet's metric
// kubelet_pod_infeasible_resizes_total; nullopt when it is not.
// Precondition: the same containers.
[[nodiscard]] std::optional<std::string_view> WhyInfeasible(const Topology& topology,
                                                            const Demand& has, const Demand& asked);

struct ResizeResult {
  // `admitted`: taken; else deferred, for the reason, but for kPanic. Each has one entry in
  // `containers` for each container: its CPUs and memory after the resize, and the devices that the
  // resize gave it beside those that it has. `held` likewise: all CPUs and memory of the Pod, and
  // new devices.
  std::vector<Outcome> outcomes;
  // There are more; nothing is known then.
  bool truncated = false;
  bool intractable = false;  // as in AdmitResult
  bool endless = false;
};

// `usage` has what the Pod has. Preconditions: feasible; not allocated as a whole (requests.h).
// Pure, safe from any thread.
[[nodiscard]] ResizeResult Resize(const Topology& topology, const Usage& usage, const Demand& asked,
                                  const RunningPod& running,
                                  int max_outcomes = AdmitResult::kMaxOutcomes);

}  // namespace numafit::policy
