// Hints: on which sets of NUMA nodes could a resource be placed? Twin of topologymanager's
// TopologyHint and of the lists that hint providers return.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "policy/numa_mask.h"

namespace numafit::policy {

// One hint, and the result of a merge. nullopt is the kubelet's nil mask.
struct Hint {
  std::optional<NumaMask> affinity;
  bool preferred = false;

  friend bool operator==(const Hint&, const Hint&) = default;
};

// The hints of one resource. The kubelet lists every set of NUMA nodes; the merge here asks about
// the few that it needs, so the list is kept as the rule that makes it.
struct ResourceHints {
  enum class Kind {
    kDontCare,    // the provider's list is nil: one hint (nil, preferred)
    kImpossible,  // the list is empty: one hint (nil, not preferred)
    kMasks,       // the sets of NUMA nodes for which Contains is true: at least one
  };
  // So many units can come from a set of NUMA nodes that touches `numa`.
  struct Supply {
    NumaMask numa;
    std::int64_t units = 0;
  };

  Kind kind = Kind::kDontCare;
  // Hints are subsets of these NUMA nodes.
  NumaMask nodes;
  // Hints with so many NUMA nodes are preferred.
  int preferred_width = 1;
  std::int64_t request = 0;
  absl::InlinedVector<Supply, 8> supplies;
  // A hint must touch each of these (devices that must be re-used); an empty one forbids all.
  absl::InlinedVector<NumaMask, 2> must_touch;

  // Whether `mask`, a non-empty subset of `nodes`, is in the list. With a mask every larger mask
  // is too; the merge does not rely on that.
  [[nodiscard]] bool Contains(NumaMask mask) const {
    for (const NumaMask needed : must_touch) {
      if (!mask.intersects(needed)) return false;
    }
    std::int64_t sum = 0;
    for (const Supply& supply : supplies) {
      if (mask.intersects(supply.numa)) sum += supply.units;
    }
    return sum >= request;
  }
};

}  // namespace numafit::policy
