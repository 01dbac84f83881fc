// One admission rule at a time can be made wrong, to prove that the oracle would notice.
//
// Only in builds with NUMAFIT_MUTATIONS (CMake option, never in release): there the environment
// variable NUMAFIT_MUTATION=<name> chooses the rule, read once. Elsewhere Mutated is constant false
// and costs nothing.
#pragma once

#include <span>
#include <string_view>

namespace numafit::policy {

enum class Mutation {
  kWidthOverFree,        // width-over-free: minimal width counts free devices only
  kWidthSkipsUnhealthy,  // width-skips-unhealthy: … or healthy devices only
  kMasksMayDiffer,       // masks-may-differ: preferred hints of different masks merge as preferred
  kZeroIsNothing,        // zero-is-nothing: a limit of 0 makes no hints
  kNoReuse,              // no-reuse: init containers' devices are not used again
  kSidecarReuse,         // sidecar-reuse: a sidecar's devices are
  kVersionGateFlipped,   // version-gate-flipped: hints over the other set of NUMA nodes
  kTieBreakReversed,     // tie-break-reversed: among equals the numerically larger mask wins
  kClosestIgnored,       // closest-ignored: prefer-closest-numa-nodes does nothing
  kSharedDeviceOnce,     // shared-device-once: a device on several NUMA nodes counts on the first
  kEmptyTopologyIsNone,  // empty-topology-is-none: a topology without nodes is no topology
  kNoRoomIsDontCare,     // no-room-is-dont-care: an impossible resource is no preference
  kCpuWidthOverFree,     // cpu-width-over-free: minimal width counts free CPUs only
  kCpuReservedInHints,   // cpu-reserved-in-hints: reserved CPUs count toward hints
  kCpuReuseAnywhere,     // cpu-reuse-anywhere: hints need not include what init containers left
  kCpuFractionRoundsUp,  // cpu-fraction-rounds-up: 1500m is two CPUs of its own
  kCpuFullestFirst,      // cpu-fullest-first: the NUMA node with the most free CPUs comes first
  kCpuNoWholeCores,      // cpu-no-whole-cores: threads are picked one by one
  kCpuSmtAnyNumber,      // cpu-smt-any-number: full-pcpus-only takes halves of cores
  kCpuSmtCountsAll,  // cpu-smt-counts-all: full-pcpus-only counts siblings of reserved CPUs as free
  kCpuStrictIgnored,     // cpu-strict-ignored: strict-cpu-reservation does nothing
  kCpuSidecarLeaves,     // cpu-sidecar-leaves: any container's CPUs are used again
  kCpuSocketNotWidened,  // cpu-socket-not-widened: align-by-socket stays on the affinity's NUMA
                         // nodes
  kCpuNotDistributed,    // cpu-not-distributed: distribute-cpus-across-numa does nothing
  kCpuUncoreIgnored,     // cpu-uncore-ignored: prefer-align-cpus-by-uncorecache does nothing
  kMemoryWidthOverFree,  // memory-width-over-free: minimal width counts free memory
  kMemoryGroupsIgnored,  // memory-groups-ignored: hints may split and join groups of NUMA nodes
  kMemoryNoRoomIsImpossible,  // memory-no-room-is-impossible: no hint is no way, not no preference
  kMemoryExtendsFreely,       // memory-extends-freely: a wider hint need not be preferred
  kMemoryGroupsUnchecked,     // memory-groups-unchecked: an allocation may join groups
  kMemoryAnyoneLeaves,        // memory-anyone-leaves: any container's memory is used again
  kMemoryGroupsLast,          // memory-groups-last: a group outlives its last block
  kMemoryInitKeeps,  // memory-init-keeps: init containers' blocks are not shrunk by what is used
                     // again
  kMemoryWithHugepages,  // memory-with-hugepages: hugepages count as memory too
  kPodLevelIgnored,      // pod-level-ignored: Pods with resources of their own get CPUs and memory
  kQosIgnored,           // qos-ignored: Burstable Pods get CPUs and memory
  // After a restart of the kubelet:
  kPodLevelAllOwn,  // whole-pod-all-own: with the gate every container may have CPUs of its own
  kPodLevelSumsContainers,  // whole-pod-sums-containers: … the Pod is what its containers request
  kPodLevelEmptyPool,       // whole-pod-empty-pool: … and may leave nothing to share
  kPodLevelSidecarLeaves,   // whole-pod-sidecar-leaves: … a sidecar's CPUs are given again
  kPodLevelReleasesContainers,  // whole-pod-releases-containers: … memory goes by container
  kPodLevelKeepsOnRestart,      // whole-pod-keeps-on-restart: … and what it has stays
  kRestartCpuHintsAnew,  // restart-cpu-hints-anew: a container with CPUs is asked as if it had none
  kRestartMemoryHintsAnew,  // restart-memory-hints-anew: the same of memory
  kRestartMemoryAnew,       // restart-memory-anew: memory is allocated again
  kRestartDevicesAnew,      // restart-devices-anew: a container that runs needs its devices again
  kRestartCoresUnchecked,   // restart-cores-unchecked: whole cores are not asked about again
  kRestartNothingLeft,      // restart-nothing-left: a refused Pod holds nothing
  kRestartAnyCpuState,      // restart-any-cpu-state: the CPU manager starts with whatever it reads
  // When a Pod is resized in place:
  kResizeFeasible,          // resize-feasible: static managers are no obstacle
  kResizeInitContainers,    // resize-init-containers: those of init containers count in the other
                            // versions
  kResizeOtherVersion,      // resize-other-version: all managers are asked where only devices are
  kResizeDevicesAnew,       // resize-devices-anew: hints of devices as if the Pod had none
  kResizeHealthIgnored,     // resize-health-ignored: it does not matter whether they are healthy
  kResizeForgetsLeftovers,  // resize-forgets-leftovers: what init containers left is unknown
  kResizeNothingStays,      // resize-nothing-stays: a deferred resize leaves the books as they were
};

struct MutationName {
  Mutation mutation;
  std::string_view name;
};
[[nodiscard]] std::span<const MutationName> MutationNames();

#ifdef NUMAFIT_MUTATIONS
[[nodiscard]] bool Mutated(Mutation mutation);
#else
[[nodiscard]] constexpr bool Mutated(Mutation /*mutation*/) {
  return false;
}
#endif

}  // namespace numafit::policy
