// The API server's answers as values: lists, single objects, watch events and Status errors, in its
// protobuf encoding or in JSON, whichever the server chose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/kueue_objects.h"
#include "api/node_report.h"
#include "api/node_resource_topology.h"
#include "api/objects.h"
#include "api/workload.h"

namespace numafit::kube {

enum class Encoding { kProtobuf, kJson };

// From a Content-Type header; everything that is not Kubernetes' protobuf is taken for JSON.
[[nodiscard]] Encoding EncodingOf(std::string_view content_type);

template <typename T>
struct List {
  std::vector<T> items;
  std::string resource_version;
  std::string continue_token;  // empty: the last page
};

// meta/v1 Status: how the API server says no.
struct ApiStatus {
  int code = 0;
  std::string reason;
  std::string message;
};

enum class EventType { kUpsert, kDelete, kBookmark, kError };

template <typename T>
struct Event {
  EventType type = EventType::kError;
  // The object of kUpsert and kDelete; of kBookmark only the resource version.
  T object;
  ApiStatus error;  // of kError
};

// Instantiated for api::Pod, api::Node, api::NodeReport and, but for DecodeObject, for
// api::NodeResourceTopology and Kueue's objects (custom resources come in JSON only, and one that
// cannot be used is no error). Malformed bytes are DataLoss and never crash: every length inside is
// checked by the parser against what is there.
template <typename T>
absl::StatusOr<T> DecodeObject(std::string_view bytes, Encoding encoding);
template <typename T>
absl::StatusOr<List<T>> DecodeList(std::string_view bytes, Encoding encoding);
// One frame of a watch stream, without its length.
template <typename T>
absl::StatusOr<Event<T>> DecodeEvent(std::string_view frame, Encoding encoding);

// The body of an answer that is no success. Nothing recognised: an empty Status.
[[nodiscard]] ApiStatus DecodeStatus(std::string_view bytes, Encoding encoding);

// The absl status that stands for a Kubernetes status: 400 and 422 InvalidArgument, 401
// Unauthenticated, 403 PermissionDenied, 404 NotFound, 409 Aborted, 410 OutOfRange, 429
// ResourceExhausted, 502, 503 and 504 Unavailable, everything else Internal.
absl::Status ToAbslStatus(int http_status, const ApiStatus& status);

}  // namespace numafit::kube
