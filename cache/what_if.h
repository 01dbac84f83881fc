// What would find a place: Pods that do not exist yet, placed one after the other on a copy of the
// fleet, each where the scheduler would be told to put it.
//
// A Pod that is placed here counts for the next one as if its kubelet had admitted it. The fleet
// goes on changing meanwhile: of each node the copy is made when the first Pod is placed on it.
#pragma once

#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "policy/demand.h"

namespace numafit::cache {

// Not thread-safe. The Fleet that made it outlives it. Do not hold a ReadGuard while calling.
class WhatIf {
 public:
  struct Answer {
    int placed = 0;  // Pods that found a place
    // Nodes that they may go to and that could not be judged.
    int unknown = 0;   // without a report, stale, with an absent kubelet: for longer, maybe
    int settling = 0;  // Pods are just landing there, or one was just refused: for a moment
  };

  virtual ~WhatIf() = default;

  // Places up to `pods` Pods that ask for `demand` on nodes that `allows` (by name). A Pod that
  // asks for nothing that such a node gives out one by one finds a place there, always. Costs a
  // judgement per distinct state of a node, of each demand once, and one per Pod placed.
  virtual Answer Place(const policy::Demand& demand, int pods,
                       absl::FunctionRef<bool(std::string_view node)> allows) = 0;
  // What was placed stays.
  virtual void Keep() = 0;
  // What was placed since the last Keep is taken back.
  virtual void Undo() = 0;
};

}  // namespace numafit::cache
