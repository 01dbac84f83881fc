#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/node_report.pb.h"
#include "api/pod_json.h"
#include "kube/requests.h"

namespace numafit::kube {
namespace {

using nlohmann::json;

// Each try is a look and a write.
constexpr int kTries = 4;

std::string PathOf(const std::string& name) {
  return fmt::format("{}/{}", kNodeReportsPath, EscapeUrl(name));
}

// The stored object as it is; nothing when there is none. NotFound: there is no such resource.
// `cached`: from the API server's memory, which may be a little behind.
absl::StatusOr<std::optional<json>> Look(Transport& transport, const std::string& name,
                                         bool cached) {
  const absl::StatusOr<Response> response =
      transport.Send({.method = "GET",
                      .target = PathOf(name) + (cached ? "?resourceVersion=0" : ""),
                      .accept = kAcceptJson,
                      .content_type = {},
                      .body = {}});
  if (!response.ok()) return response.status();
  if (response->status == 404) return std::nullopt;
  if (response->status != 200) return StatusOf(*response);
  absl::StatusOr<json> object = api::ParseJson(response->body, api::kNodeReportKind);
  if (!object.ok()) return absl::DataLossError(std::string(object.status().message()));
  if (!object->is_object()) return absl::DataLossError("NodeReport: expected an object");
  return std::optional<json>(*std::move(object));
}

absl::Status Write(Transport& transport, const char* method, std::string target,
                   const json& object) {
  const absl::StatusOr<Response> response =
      transport.Send({.method = method,
                      .target = std::move(target),
                      .accept = kAcceptJson,
                      .content_type = "application/json",
                      .body = object.dump(-1, ' ', false, json::error_handler_t::replace)});
  if (!response.ok()) return response.status();
  if (response->status == 200 || response->status == 201) return absl::OkStatus();
  return StatusOf(*response);
}

// What stands in the way of replacing `stored`: nothing, or that it is not older. A stored report
// that nobody can read is replaced.
absl::Status MayReplace(const json& stored, const v1alpha1::NodeReportStatus& status) {
  const absl::StatusOr<api::NodeReport> other = api::NodeReportFromJsonValue(stored);
  if (!other.ok() || other->status->boot_id() != status.boot_id() ||
      other->status->generation() < status.generation()) {
    return absl::OkStatus();
  }
  return absl::AbortedError(
      fmt::format("nodereports \"{}\": generation {} of this boot is stored, so generation {} is "
                  "not newer",
                  other->metadata.name, other->status->generation(), status.generation()));
}

bool Has(const std::vector<api::OwnerReference>& owners, const api::OwnerReference& owner) {
  return std::find(owners.begin(), owners.end(), owner) != owners.end();
}

bool IsSame(const json& stored, const api::NodeReport& report) {
  const absl::StatusOr<api::NodeReport> other = api::NodeReportFromJsonValue(stored);
  if (!other.ok()) return false;
  for (const api::OwnerReference& owner : report.metadata.owners) {
    if (!Has(other->metadata.owners, owner)) return false;
  }
  return api::NodeReportStatusToJson(*other->status) == api::NodeReportStatusToJson(*report.status);
}

// Puts the owners of `written` into `stored`, in the place of those of the same kind: a Node that
// was made anew has another uid. Those of other kinds are somebody else's.
void SetOwners(const json& written, json& stored) {
  const json& metadata = written.at("metadata");
  const auto ours = metadata.find("ownerReferences");
  if (ours == metadata.end() || !stored.contains("metadata")) return;
  json owners = json::array();
  const auto theirs = stored["metadata"].find("ownerReferences");
  if (theirs != stored["metadata"].end() && theirs->is_array()) {
    for (const json& owner : *theirs) {
      const bool replaced = std::any_of(ours->begin(), ours->end(), [&owner](const json& our) {
        return owner.is_object() && owner.value("kind", json()) == our.at("kind");
      });
      if (!replaced) owners.push_back(owner);
    }
  }
  for (const json& owner : *ours) owners.push_back(owner);
  stored["metadata"]["ownerReferences"] = std::move(owners);
}

// One look and one write. Aborted with `again` set: somebody else was faster.
absl::Status ApplyOnce(Transport& transport, const api::NodeReport& report, const json& written,
                       bool cached, bool& again) {
  again = false;
  absl::StatusOr<std::optional<json>> stored = Look(transport, report.metadata.name, cached);
  if (!stored.ok()) return stored.status();
  absl::Status status;
  if (!stored->has_value()) {
    status = Write(transport, "POST", kNodeReportsPath, written);
  } else {
    json& object = **stored;
    if (IsSame(object, report)) return absl::OkStatus();
    if (absl::Status may = MayReplace(object, *report.status); !may.ok()) return may;
    // Its resourceVersion goes back with it: the API server refuses when it is not the last one.
    object["status"] = written.at("status");
    SetOwners(written, object);
    status = Write(transport, "PUT", PathOf(report.metadata.name), object);
    // Deleted since.
    again = absl::IsNotFound(status);
  }
  again = again || absl::IsAborted(status);
  return status;
}

}  // namespace

absl::StatusOr<api::NodeReport> GetNodeReport(Transport& transport, const std::string& name) {
  // An empty name would ask for a list.
  if (name.empty()) return absl::InvalidArgumentError("get: a name is needed");
  const absl::StatusOr<std::optional<json>> object = Look(transport, name, false);
  if (!object.ok()) return object.status();
  if (!object->has_value()) {
    return absl::NotFoundError(fmt::format("nodereports \"{}\" not found", name));
  }
  return api::NodeReportFromJsonValue(**object);
}

absl::Status ApplyNodeReport(Transport& transport, const api::NodeReport& report) {
  if (report.metadata.name.empty() || report.status == nullptr) {
    return absl::InvalidArgumentError("report: a name and a status are needed");
  }
  api::NodeReport ours;
  ours.metadata.name = report.metadata.name;
  ours.metadata.owners = report.metadata.owners;
  ours.status = report.status;
  const absl::StatusOr<json> written =
      api::ParseJson(api::NodeReportToJson(ours), api::kNodeReportKind);
  if (!written.ok()) return written.status();
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    bool again = false;
    // The first look costs the API server next to nothing; what it shows may be old, but then the
    // write says so.
    status = ApplyOnce(transport, report, *written, i == 0, again);
    if (!again) break;
  }
  return status;
}

}  // namespace numafit::kube
