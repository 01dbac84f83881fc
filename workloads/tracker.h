// Which admitted Workloads cannot be placed, since when, and why: one flag per Workload and
// admission cycle, raised, changed and taken down as Pods and nodes change.
//
// Flagged is a Workload that Kueue has admitted and of which Pods were tried and found no node, or
// were refused by their kubelet without a successor, or were never made. Never flagged are those
// whose Pods are gated, not tried yet, or about to get a node that is being cleared; whose nodes
// are still being made; that are evicted, finished, switched off, or run in another cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "workloads/cause.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {

struct Flag {
  WorkloadStatus workload;
  Blocked blocked;  // the Pods that the cause is about
  Finding finding;
  std::string why;          // WhyText
  std::int64_t since = 0;   // since when its Pods could have run; seconds since the epoch
  std::int64_t raised = 0;  // when it was flagged
  [[nodiscard]] Cause cause() const { return finding.cause; }
};

// Not thread-safe.
class Tracker {
 public:
  struct Options {
    // There is room: the scheduler will be there in a moment, or something else is wrong.
    std::int64_t other_after = 30;
    // Nobody can judge the nodes, for instance because Pods are just landing.
    std::int64_t stale_after = 10;
    // Pods that were refused or never made: their controller makes new ones, with a back-off.
    std::int64_t missing_after = 30;
    // Nodes that are being made (ProvisioningRequest).
    std::int64_t nodes_after = 600;
  };
  // `find_cause` is FindCause over the fleet.
  using FindCause = std::function<Finding(const Blocked&)>;

  Tracker(Options options, FindCause find_cause)
      : options_(options), find_cause_(std::move(find_cause)) {}

  struct News {
    // Flags raised in this round, and those whose cause is one that this admission cycle has not
    // had: each once per cycle and cause.
    std::vector<Flag> raised;
    // Workloads that were flagged until now (namespace/name).
    std::vector<std::string> cleared;
  };
  // Looks at all Workloads. `now`: seconds since the epoch. Costs a look at the fleet per different
  // kind of blocked Pod.
  News Step(const std::vector<WorkloadStatus>& workloads, std::int64_t now);

  // By namespace and name.
  [[nodiscard]] std::vector<Flag> flags() const;

 private:
  // A Workload's uid, and when it was admitted.
  using Cycle = std::pair<std::string, std::int64_t>;
  struct Known {
    Flag flag;  // as raised
    bool is_raised = false;
    std::set<Cause> told;
    // Since when the cause is one that may pass by itself; 0: it is not.
    std::int64_t passing_since = 0;
  };

  // What there is to flag; false: nothing (yet).
  bool Judge(const WorkloadStatus& workload, std::int64_t now, Flag* flag);
  [[nodiscard]] std::int64_t PatienceWith(Cause cause) const;
  bool JudgeMissing(const WorkloadStatus& workload, std::int64_t now, Flag* flag) const;
  const Finding& CauseOf(const Blocked& blocked);

  const Options options_;
  const FindCause find_cause_;
  std::map<Cycle, Known> known_;
  // Of this round: Pods that are alike are judged once.
  std::map<std::string, Finding> found_;
};

}  // namespace numafit::workloads
