// The verdicts of the AdmissionCheck numafit.io/topology-capacity: a Workload that has its quota is
// let in when all its Pods would find a place, beside those of everybody who was let in before and
// whose Pods have no node yet. Ready is not a reservation (kueue.md 4): until a Pod has a node its
// room looks free, so it is counted here as taken.
//
// One Workload after the other: higher priority first, then who has had its quota for longer. One
// that waits holds up nobody; its Pods are not placed.
//
// Never Rejected: that switches a Workload off for good. What can change is not final.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/kueue_objects.h"
#include "cache/fleet.h"
#include "cache/what_if.h"
#include "workloads/node_table.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {

inline constexpr char kCheckController[] = "numafit.io/topology-capacity";

struct CheckOptions {
  // Where nodes that could take the Pods cannot be judged (no report, a lost agent, an absent
  // kubelet): let the Workload in, or let it wait until they can.
  bool admit_unjudged = false;
  // One that has waited so long with its quota says Retry once: Kueue takes the quota back, and
  // another Workload may pass before it is its turn again. Seconds; 0: it waits as Pending.
  std::int64_t retry_after = 0;
};

struct CheckVerdict {
  std::string workload_uid;
  std::string check;  // the AdmissionCheck's name
  std::string state;  // Pending, Ready, Retry
  std::string message;
  // A state that is not the present one began now; else when the present one did.
  std::int64_t since = 0;
  bool is_new = false;  // the state, not only the message
};

struct CheckInputs {
  const std::vector<QuotaHolder>& holders;
  const std::set<std::string>& checks;  // names of the AdmissionChecks that are ours
  const std::map<std::string, api::ResourceFlavor>& flavors;
  const NodeTable& nodes;
  const cache::Fleet& fleet;
  std::int64_t now = 0;  // seconds since the epoch
};

// One verdict per Workload that waits for us and check of ours on it, in the order of the
// decisions. Those that are admitted are never judged again: their own Pods have the room now.
// Takes read guards of the fleet; costs what cache::WhatIf costs.
[[nodiscard]] std::vector<CheckVerdict> Decide(const CheckInputs& inputs, cache::WhatIf& plan,
                                               const CheckOptions& options);

}  // namespace numafit::workloads
