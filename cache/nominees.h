// Pods without a node for which kube-scheduler has chosen this one (status.nominatedNodeName),
// usually because it has evicted others there for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/judge.h"
#include "policy/demand.h"

namespace numafit::cache {

struct Nomination {
  std::string uid;
  std::int32_t priority = 0;
  std::int64_t creation_time = 0;  // seconds since the epoch
  std::shared_ptr<const policy::Demand> demand;

  // Whose room is kept from whom: higher priority first, then the older one.
  friend bool operator<(const Nomination& a, const Nomination& b);
  // Demands are compared as objects: the fleet has one for each that differs.
  friend bool operator==(const Nomination&, const Nomination&) = default;
};

// Those of one node. Immutable.
class Nominees {
 public:
  explicit Nominees(std::vector<Nomination> nominations);

  [[nodiscard]] const std::vector<Nomination>& nominations() const { return nominations_; }
  // Whether those whose room is kept from this Pod fit with it on the node as they do without it
  // (policy::Judge, one after the other, in every possible state). The Pod itself fits. Kept is the
  // room of nominees of at least its `priority`, as kube-scheduler does by count
  // (runtime/framework.go, addGENominatedPods); from a Pod that is a nominee here itself, of those
  // that come before it. A few admissions for each of them, in each state.
  [[nodiscard]] bool LeavesRoom(const NodeState& state, std::string_view uid, std::int32_t priority,
                                const policy::Demand& demand) const;

 private:
  std::vector<Nomination> nominations_;  // sorted
};

}  // namespace numafit::cache
