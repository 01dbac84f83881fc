// The merge of all resources' hints into one. Twin of topologymanager/policy.go (HintMerger).
//
// The kubelet tries every combination of one hint per resource, which is exponential in the number
// of resources. The same answer, folded resource by resource:
//
// * A combination is preferred only if all its hints are preferred and all its masks are equal. So
//   the preferred results are the masks that are a preferred hint of every resource that has masks,
//   and the best of them is the answer if there is one: no other combination matters then.
// * Otherwise every combination is not preferred, its result is the intersection of its masks, and
//   only which intersections can be reached matters. For the sets of masks of two resources these
//   come from an AND-convolution: count, for every set, the masks that contain it (zeta transform),
//   multiply, transform back (Moebius). n * 2^n steps per resource instead of 4^n.
//
// Among intersections, with B = the largest of the resources' narrowest hints: exactly B NUMA nodes
// is best, then the most below B, then the fewest above; then NumaInfo's order.
#pragma once

#include <optional>
#include <span>

#include "policy/topology_manager/hint.h"
#include "policy/topology_manager/numa_info.h"

namespace numafit::policy {

struct MergeResult {
  Hint hint;
  bool admit = false;
  // Too many sets of NUMA nodes to look at; the kubelet itself would need hours. Nothing else of
  // the result counts.
  bool intractable = false;
};

// The best mask of at most `widest` NUMA nodes that is a preferred hint of every resource with
// masks. Without such resources, or with an impossible one, the caller has decided already: this
// looks at the masks only.
struct PreferredMask {
  std::optional<NumaMask> mask;
  bool intractable = false;
};
[[nodiscard]] PreferredMask BestPreferredMask(const NumaInfo& numa,
                                              std::span<const ResourceHints> hints, int widest);

// The best intersection when no combination is preferred; nullopt when all are empty.
struct Intersection {
  std::optional<NumaMask> mask;
  bool intractable = false;
};
[[nodiscard]] Intersection BestIntersection(const NumaInfo& numa,
                                            std::span<const ResourceHints> hints);

// Merge as best-effort and restricted do it, `admit` left to the policy.
[[nodiscard]] MergeResult MergeHints(const NumaInfo& numa, std::span<const ResourceHints> hints,
                                     bool want_unpreferred, int widest = NumaMask::kMaxIds);

}  // namespace numafit::policy
