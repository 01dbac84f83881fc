#include "policy/mutation.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace numafit::policy {
namespace {

constexpr std::array kNames = {
    MutationName{Mutation::kWidthOverFree, "width-over-free"},
    MutationName{Mutation::kWidthSkipsUnhealthy, "width-skips-unhealthy"},
    MutationName{Mutation::kMasksMayDiffer, "masks-may-differ"},
    MutationName{Mutation::kZeroIsNothing, "zero-is-nothing"},
    MutationName{Mutation::kNoReuse, "no-reuse"},
    MutationName{Mutation::kSidecarReuse, "sidecar-reuse"},
    MutationName{Mutation::kVersionGateFlipped, "version-gate-flipped"},
    MutationName{Mutation::kTieBreakReversed, "tie-break-reversed"},
    MutationName{Mutation::kClosestIgnored, "closest-ignored"},
    MutationName{Mutation::kSharedDeviceOnce, "shared-device-once"},
    MutationName{Mutation::kEmptyTopologyIsNone, "empty-topology-is-none"},
    MutationName{Mutation::kNoRoomIsDontCare, "no-room-is-dont-care"},
    MutationName{Mutation::kCpuWidthOverFree, "cpu-width-over-free"},
    MutationName{Mutation::kCpuReservedInHints, "cpu-reserved-in-hints"},
    MutationName{Mutation::kCpuReuseAnywhere, "cpu-reuse-anywhere"},
    MutationName{Mutation::kCpuFractionRoundsUp, "cpu-fraction-rounds-up"},
    MutationName{Mutation::kCpuFullestFirst, "cpu-fullest-first"},
    MutationName{Mutation::kCpuNoWholeCores, "cpu-no-whole-cores"},
    MutationName{Mutation::kCpuSmtAnyNumber, "cpu-smt-any-number"},
    MutationName{Mutation::kCpuSmtCountsAll, "cpu-smt-counts-all"},
    MutationName{Mutation::kCpuStrictIgnored, "cpu-strict-ignored"},
    MutationName{Mutation::kCpuSidecarLeaves, "cpu-sidecar-leaves"},
    MutationName{Mutation::kCpuSocketNotWidened, "cpu-socket-not-widened"},
    MutationName{Mutation::kCpuNotDistributed, "cpu-not-distributed"},
    MutationName{Mutation::kCpuUncoreIgnored, "cpu-uncore-ignored"},
    MutationName{Mutation::kMemoryWidthOverFree, "memory-width-over-free"},
    MutationName{Mutation::kMemoryGroupsIgnored, "memory-groups-ignored"},
    MutationName{Mutation::kMemoryNoRoomIsImpossible, "memory-no-room-is-impossible"},
    MutationName{Mutation::kMemoryExtendsFreely, "memory-extends-freely"},
    MutationName{Mutation::kMemoryGroupsUnchecked, "memory-groups-unchecked"},
    MutationName{Mutation::kMemoryAnyoneLeaves, "memory-anyone-leaves"},
    MutationName{Mutation::kMemoryGroupsLast, "memory-groups-last"},
    MutationName{Mutation::kMemoryInitKeeps, "memory-init-keeps"},
    MutationName{Mutation::kMemoryWithHugepages, "memory-with-hugepages"},
    MutationName{Mutation::kPodLevelIgnored, "pod-level-ignored"},
    MutationName{Mutation::kQosIgnored, "qos-ignored"},
    MutationName{Mutation::kPodLevelAllOwn, "whole-pod-all-own"},
    MutationName{Mutation::kPodLevelSumsContainers, "whole-pod-sums-containers"},
    MutationName{Mutation::kPodLevelEmptyPool, "whole-pod-empty-pool"},
    MutationName{Mutation::kPodLevelSidecarLeaves, "whole-pod-sidecar-leaves"},
    MutationName{Mutation::kPodLevelReleasesContainers, "whole-pod-releases-containers"},
    MutationName{Mutation::kPodLevelKeepsOnRestart, "whole-pod-keeps-on-restart"},
    MutationName{Mutation::kRestartCpuHintsAnew, "restart-cpu-hints-anew"},
    MutationName{Mutation::kRestartMemoryHintsAnew, "restart-memory-hints-anew"},
    MutationName{Mutation::kRestartMemoryAnew, "restart-memory-anew"},
    MutationName{Mutation::kRestartDevicesAnew, "restart-devices-anew"},
    MutationName{Mutation::kRestartCoresUnchecked, "restart-cores-unchecked"},
    MutationName{Mutation::kRestartNothingLeft, "restart-nothing-left"},
    MutationName{Mutation::kRestartAnyCpuState, "restart-any-cpu-state"},
    MutationName{Mutation::kResizeFeasible, "resize-feasible"},
    MutationName{Mutation::kResizeInitContainers, "resize-init-containers"},
    MutationName{Mutation::kResizeOtherVersion, "resize-other-version"},
    MutationName{Mutation::kResizeDevicesAnew, "resize-devices-anew"},
    MutationName{Mutation::kResizeHealthIgnored, "resize-health-ignored"},
    MutationName{Mutation::kResizeForgetsLeftovers, "resize-forgets-leftovers"},
    MutationName{Mutation::kResizeNothingStays, "resize-nothing-stays"},
};

}  // namespace

std::span<const MutationName> MutationNames() {
  return kNames;
}

#ifdef NUMAFIT_MUTATIONS
namespace {

std::optional<Mutation> Chosen() {
  const char* name = std::getenv("NUMAFIT_MUTATION");
  if (name == nullptr || *name == '\0') return std::nullopt;
  for (const MutationName& known : kNames) {
    if (known.name == name) return known.mutation;
  }
  // A misspelt mutation that changes nothing would pass for one that nobody notices.
  std::fprintf(stderr, "NUMAFIT_MUTATION=%s is not known\n", name);
  std::abort();
}

}  // namespace

bool Mutated(Mutation mutation) {
  static const std::optional<Mutation> chosen = Chosen();
  return chosen == mutation;
}
#endif

}  // namespace numafit::policy
