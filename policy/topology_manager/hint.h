// Hints: on which sets of NUMA nodes could a resource be placed? Twin of topologymanager's
// TopologyHint and of the lists that hint providers return.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "policy/numa_mask.h"

namespace numafit::policy {

// One hint, and the result of a merge. nullopt is the kubelet's nil mask.
struct Hint {
  std::optional<NumaMask> affinity;
  bool preferred = false;

  friend bool operator==(const Hint&, const Hint&) = default;
};

// The hints of one resource, or of several that have the same. The kubelet lists every set of NUMA
// nodes; the merge here asks about the few that it needs, so the list is kept as the rule that
// makes it.
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
  // CPU manager option align-by-socket: hints whose NUMA nodes have CPUs of exactly so many sockets
  // are preferred too; 0 without the option. `sockets` has an entry per socket: its NUMA nodes.
  int preferred_sockets = 0;
  absl::InlinedVector<NumaMask, 4> sockets;
  // So many resources have this very list (the memory manager gives each page size the same one).
  int resources = 1;
  std::int64_t request = 0;
  absl::InlinedVector<Supply, 8> supplies;
  // A hint must touch each of these (devices that must be re-used); an empty one forbids all.
  absl::InlinedVector<NumaMask, 2> must_touch;
  // Where the rule is more than a sum (the memory manager's groups): the hints one by one,
  // numerically ascending. `request`, `supplies` and `must_touch` mean nothing then.
  bool is_listed = false;
  std::vector<NumaMask> listed;

  // Whether `mask`, a non-empty subset of `nodes`, is in the list. A larger mask need not be.
  [[nodiscard]] bool Contains(NumaMask mask) const {
    if (is_listed) {
      return std::binary_search(listed.begin(), listed.end(), mask,
                                [](NumaMask a, NumaMask b) { return a.bits() < b.bits(); });
    }
    for (const NumaMask needed : must_touch) {
      if (!mask.intersects(needed)) return false;
    }
    std::int64_t sum = 0;
    for (const Supply& supply : supplies) {
      if (mask.intersects(supply.numa)) sum += supply.units;
    }
    return sum >= request;
  }
  // Whether a hint with these NUMA nodes is preferred.
  [[nodiscard]] bool Prefers(NumaMask mask) const {
    if (mask.count() == preferred_width) return true;
    if (preferred_sockets == 0) return false;
    int spanned = 0;
    for (const NumaMask socket : sockets) spanned += mask.intersects(socket) ? 1 : 0;
    return spanned == preferred_sockets;
  }
};

}  // namespace numafit::policy
