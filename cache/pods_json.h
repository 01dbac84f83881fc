// The Pods of a fleet that hold accelerators or endpoints, as JSON: `numafit pods` and the read
// API.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/fleet.h"

namespace numafit::cache {

struct PodsOptions {
  std::string node;  // only this node; empty: all
  bool misaligned_only = false;
};

// {"pods": [{"pod", "node", "state": PodStateName, "alignment", "possible": [text], "containers":
//  [{"name", "init", "alignment", "devices": [{"resource", "kind": "accelerator" or "endpoint",
//  "numa": [ids, sorted; empty: not known], "published", "count"}]}]}]}, misaligned Pods first,
//  then
// by node and name. Words and fields are those of cache/pod_holdings.h. NotFound when options.node
// is not in the fleet.
absl::StatusOr<std::string> PodsToJson(const std::vector<NodeView>& fleet,
                                       const PodsOptions& options);

}  // namespace numafit::cache
