// The scheduler extender's wire format, v1 (k8s.io/kube-scheduler extender/v1).
//
// Plain values with the protocol's own names, and their JSON for the cold paths: bind, tests and
// the command line. /filter and /prioritize are read and answered by extender/ with buffers of its
// own. Keys are the exact Go names when written and matched without regard to case when read; null
// is the same as absent; unknown keys are ignored (kubernetes/kube-scheduler extender/v1/types.go).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/objects.h"

namespace numafit::api {

// kube-scheduler multiplies a score with the extender's weight and 10; it does not check the range.
inline constexpr std::int64_t kMinExtenderPriority = 0;
inline constexpr std::int64_t kMaxExtenderPriority = 10;

// The body of filter and prioritize. Exactly one of node_names (nodeCacheCapable: true) and nodes
// is set by kube-scheduler.
struct ExtenderArgs {
  Pod pod;
  std::optional<std::vector<std::string>> node_names;
  std::optional<std::vector<Node>> nodes;
};

// The answer of filter. Nodes in no map and not in node_names are dropped without a reason; a null
// and an empty list both reject every node.
struct ExtenderFilterResult {
  std::optional<std::vector<std::string>> node_names;
  std::optional<std::vector<Node>> nodes;
  StringMap failed_nodes;                   // name -> reason; preemption may help
  StringMap failed_and_unresolvable_nodes;  // name -> reason; it cannot
  std::string error;                        // not empty: the whole attempt fails with this text
};

struct HostPriority {
  std::string host;
  std::int64_t score = 0;
};
using HostPriorityList = std::vector<HostPriority>;

struct ExtenderBindingArgs {
  std::string pod_name;
  std::string pod_namespace;
  std::string pod_uid;
  std::string node;
};

struct ExtenderBindingResult {
  std::string error;  // empty: bound
};

// Of one node: whose leaving kube-scheduler thinks makes room.
struct PreemptionVictims {
  std::vector<std::string> uids;
  std::int64_t pdb_violations = 0;
};
using VictimsByNode = std::map<std::string, PreemptionVictims, std::less<>>;

// The body of preempt. kube-scheduler names victims by uid (nodeCacheCapable: true) or sends whole
// Pods, of which only the uid is read; where both are given, the uids are taken.
struct ExtenderPreemptionArgs {
  bool has_pod = false;
  Pod pod;
  VictimsByNode victims;
};

// The answer of preempt: a node that is left out is no candidate. Each that is there needs a
// victim.
struct ExtenderPreemptionResult {
  VictimsByNode victims;
};

// InvalidArgument: malformed JSON with the byte position, a wrong type with its path. A literal
// null and absent keys are read as empty values; what must be there is for the caller to check.
absl::StatusOr<ExtenderArgs> ParseExtenderArgs(std::string_view text);
absl::StatusOr<ExtenderBindingArgs> ParseExtenderBindingArgs(std::string_view text);
absl::StatusOr<ExtenderPreemptionArgs> ParseExtenderPreemptionArgs(std::string_view text);
absl::StatusOr<ExtenderPreemptionResult> ParseExtenderPreemptionResult(std::string_view text);
absl::StatusOr<ExtenderFilterResult> ParseExtenderFilterResult(std::string_view text);
absl::StatusOr<HostPriorityList> ParseHostPriorityList(std::string_view text);
absl::StatusOr<ExtenderBindingResult> ParseExtenderBindingResult(std::string_view text);

// Invalid UTF-8 is replaced, never thrown at.
std::string ToJson(const ExtenderArgs& args);
std::string ToJson(const ExtenderBindingArgs& args);
std::string ToJson(const ExtenderPreemptionResult& result);
std::string ToJson(const ExtenderFilterResult& result);
std::string ToJson(const HostPriorityList& list);
std::string ToJson(const ExtenderBindingResult& result);

}  // namespace numafit::api
