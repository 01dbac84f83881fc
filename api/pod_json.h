// Kubernetes objects as JSON text: read into, and written from, the values of api/objects.h.
//
// For the cold paths: JSON answers of the API server, files, tests. The rules are those of Go's
// encoding/json, so that everything kube-scheduler or kubectl can send is read alike: unknown keys
// are ignored, null is the same as absent, keys match without regard to (ASCII) case where no exact
// key is present, the last of equal keys wins, integers must be integer literals. YAML is converted
// to JSON by the caller. Nothing is defaulted here: a container with limits only has no requests.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/objects.h"

namespace numafit::api {

// InvalidArgument: malformed JSON with the byte position (counted from 1), or the path of a field
// that has the wrong type ("spec.containers[0].resources.limits.nvidia.com/gpu: …").
absl::StatusOr<Pod> PodFromJson(std::string_view text);
absl::StatusOr<Node> NodeFromJson(std::string_view text);

// The same from a parsed document; only the path is reported.
absl::StatusOr<Pod> PodFromJsonValue(const nlohmann::json& value);
absl::StatusOr<Node> NodeFromJsonValue(const nlohmann::json& value);

// Of any object: what stands under its `metadata`.
absl::StatusOr<ObjectMeta> ObjectMetaFromJsonValue(const nlohmann::json& object);
nlohmann::json ObjectMetaToJsonValue(const ObjectMeta& metadata);

// The fields that we read, as Kubernetes JSON without empty fields. What was read from the result
// equals the input, except that container_statuses is written as that many empty statuses.
std::string PodToJson(const Pod& pod);
std::string NodeToJson(const Node& node);

// Parses JSON text. InvalidArgument with the byte position; `what` names the document.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view what);

}  // namespace numafit::api
