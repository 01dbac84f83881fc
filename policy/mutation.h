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
