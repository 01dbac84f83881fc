// Where answers come from: a fleet that this process loads, or an extender's read API. Both give
// the same JSON, so that both look the same.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "api/objects.h"
#include "cli/arguments.h"

namespace numafit::cli {

class Source {
 public:
  virtual ~Source() = default;

  // cache::ToJson(Explanation) of the Pod. `node`: only that one; empty: all. `fold`: nodes with
  // equal answers share an entry.
  virtual absl::StatusOr<nlohmann::json> Explain(const api::Pod& pod, const std::string& node,
                                                 bool fold) = 0;
  // cache::NodesToJson.
  virtual absl::StatusOr<nlohmann::json> Nodes() = 0;
  // Whether the fleet is complete: the extender has read the lists of the API server.
  virtual absl::StatusOr<bool> Ready() = 0;
  // cache::PodsToJson. `node`: only that one; empty: all.
  virtual absl::StatusOr<nlohmann::json> Pods(const std::string& node, bool misaligned_only) = 0;
  // workloads/status_json.h. `all`: also those that can be placed; `only`: namespace/name, empty:
  // every one. InvalidArgument of a fleet file, which has none.
  virtual absl::StatusOr<nlohmann::json> Workloads(bool all, const std::string& only) = 0;
  // What could be placed of the quotas of Kueue's ClusterQueues (workloads/quota.h). NotFound: of a
  // fleet file, or an extender that does not watch them.
  virtual absl::StatusOr<nlohmann::json> ClusterQueues() = 0;
};

// --fleet FILE, --server URL, or the built-in fleet.
absl::StatusOr<std::unique_ptr<Source>> OpenSource(const Arguments& arguments);

// The options that OpenSource reads.
inline constexpr Option kSourceFleetOption = {
    .name = "fleet",
    .letter = 0,
    .value_name = "FILE",
    .help = "judge the nodes of a fleet file; the built-in example when nothing is given"};
inline constexpr Option kSourceServerOption = {.name = "server",
                                               .letter = 0,
                                               .value_name = "URL",
                                               .help = "ask a running numafit-extender instead"};
inline constexpr Option kOutputOption = {
    .name = "output", .letter = 'o', .value_name = "FORM", .help = "text (default) or json"};

}  // namespace numafit::cli
