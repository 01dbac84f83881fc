#include "kube/metadata_reader.h"

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/json_reader.h"
#include "api/pod_json.h"
#include "kube/requests.h"

namespace numafit::kube {
namespace {

constexpr char kAcceptMetadata[] =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json;q=0.5";
// Whoever may make Pods may invent owners: what is remembered has a bound.
constexpr std::size_t kMostGroups = 256;

// "/apis/batch/v1", "/api/v1".
absl::StatusOr<std::string> PathOf(const std::string& api_version) {
  const std::size_t slash = api_version.find('/');
  if (slash == std::string::npos && !api_version.empty()) {
    return "/api/" + EscapeUrl(api_version);
  }
  const std::string group = api_version.substr(0, slash);
  const std::string version = slash == std::string::npos ? "" : api_version.substr(slash + 1);
  if (group.empty() || version.empty() || version.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("apiVersion: \"{:.100}\" is neither VERSION nor GROUP/VERSION", api_version));
  }
  return fmt::format("/apis/{}/{}", EscapeUrl(group), EscapeUrl(version));
}

// What the API server takes for a part of a path (apimachinery, IsValidPathSegmentName).
bool IsPathSegment(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_of("/%") == std::string_view::npos;
}

}  // namespace

absl::StatusOr<nlohmann::json> MetadataReader::Get(std::string target, const char* accept,
                                                   std::string_view what) {
  if (client_.transport() == nullptr) {
    return absl::UnimplementedError("this client has no transport to ask over");
  }
  const absl::StatusOr<Response> response = client_.transport()->Send({.method = "GET",
                                                                       .target = std::move(target),
                                                                       .accept = accept,
                                                                       .content_type = {},
                                                                       .body = {}},
                                                                      cancel_);
  if (!response.ok()) return response.status();
  if (response->status != 200) return StatusOf(*response);
  absl::StatusOr<nlohmann::json> value = api::ParseJson(response->body, what);
  if (!value.ok()) return absl::DataLossError(std::string(value.status().message()));
  return value;
}

absl::StatusOr<MetadataReader::Kinds> MetadataReader::Discover(const std::string& path) {
  const absl::StatusOr<nlohmann::json> list = Get(path, kAcceptJson, "APIResourceList");
  if (!list.ok()) return list.status();
  Kinds kinds;
  absl::Status status;
  api::JsonReader(*list, status)["resources"].ForEach([&](const api::JsonReader& entry) {
    std::string plural = entry["name"].String();
    // A subresource, "jobs/status", has the kind of what it belongs to.
    if (plural.find('/') != std::string::npos) return;
    kinds[entry["kind"].String()] = {std::move(plural), entry["namespaced"].Bool()};
  });
  if (!status.ok()) return absl::DataLossError(std::string(status.message()));
  return kinds;
}

absl::StatusOr<MetadataReader::Resource> MetadataReader::FindResource(
    const std::string& api_version, const std::string& kind) {
  const auto known = served_.find(api_version);
  if (known != served_.end()) {
    const auto found = known->second.find(kind);
    if (found != known->second.end()) return found->second;
  }
  const absl::StatusOr<std::string> path = PathOf(api_version);
  if (!path.ok()) return path.status();
  absl::StatusOr<Kinds> kinds = Discover(*path);
  if (!kinds.ok()) return kinds.status();
  if (served_.size() >= kMostGroups) served_.clear();
  const Kinds& served = served_.insert_or_assign(api_version, *std::move(kinds)).first->second;
  const auto found = served.find(kind);
  if (found == served.end()) {
    return absl::NotFoundError(fmt::format("{:.100} has no kind {:.100}", api_version, kind));
  }
  return found->second;
}

absl::StatusOr<api::ObjectMeta> MetadataReader::Read(const ObjectName& object) {
  const absl::StatusOr<Resource> resource = FindResource(object.api_version, object.kind);
  if (!resource.ok()) return resource.status();
  if (!IsPathSegment(object.name) ||
      (resource->is_namespaced && !IsPathSegment(object.namespace_))) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{:.100}/{:.100}\" cannot be a namespace and a name", object.namespace_, object.name));
  }
  absl::StatusOr<std::string> path = PathOf(object.api_version);
  if (!path.ok()) return path.status();
  if (resource->is_namespaced) *path += "/namespaces/" + EscapeUrl(object.namespace_);
  *path += fmt::format("/{}/{}", EscapeUrl(resource->plural), EscapeUrl(object.name));
  const absl::StatusOr<nlohmann::json> value = Get(*std::move(path), kAcceptMetadata, object.kind);
  if (!value.ok()) return value.status();
  absl::StatusOr<api::ObjectMeta> metadata = api::ObjectMetaFromJsonValue(*value);
  if (!metadata.ok()) return absl::DataLossError(std::string(metadata.status().message()));
  return metadata;
}

}  // namespace numafit::kube
