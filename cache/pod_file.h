// Pods out of the manifests that people have: YAML or JSON, Pods and everything with a Pod
// template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/objects.h"

namespace numafit::cache {

// Every Pod of the text, in its order: Pods; Jobs, Deployments, ReplicaSets, StatefulSets,
// DaemonSets and whatever else has spec.template; CronJobs; Lists of them; several documents.
// Documents of other kinds are passed over. A Pod from a template has its owner's name (or its
// generateName) and namespace; a missing namespace is "default".
// InvalidArgument names file, line or path, and value; also when there is no Pod in it.
absl::StatusOr<std::vector<api::Pod>> ParsePods(std::string_view text, const std::string& file);

}  // namespace numafit::cache
