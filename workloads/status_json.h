// What is known of Workloads as JSON, for the read API and `numafit workloads`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workloads/tracker.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {

// {"unplaceable": 2, "acceleratorsHeld": 16, "workloads": [{"namespace", "name", "clusterQueue",
//  "queue", "phase", "admittedSince", "expected", "pods": {"unschedulable": 2, …}, "missing",
//  "accelerators", "podsScheduled", and where it is flagged "cause", "why", "since",
//  "flaggedSince", "podSet", "example", "message", "pinnedNode", "nodes", "fitting", "nearest",
//  "nearestAnswer", "resources": [{"resource", "wanted", "free", "bestNuma": {"node", "numa",
//  "free"}}]}]}
// Times are RFC 3339. `all`: also those that are not flagged. `only`: namespace/name; empty: every
// one.
std::string ToJson(const std::vector<WorkloadStatus>& workloads, const std::vector<Flag>& flags,
                   bool all, std::string_view only);

}  // namespace numafit::workloads
