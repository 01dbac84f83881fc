#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "api/json_reader.h"
#include "api/pod_json.h"
#include "kube/requests.h"

namespace numafit::kube {
namespace {

using nlohmann::json;

// Who we are in managedFields.
constexpr char kFieldManager[] = "numafit.io-topology-capacity";
constexpr std::size_t kMaxMessage = 32'768;

std::string TimeText(std::int64_t seconds) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

// Whole characters only.
std::string Cut(const std::string& text) {
  if (text.size() <= kMaxMessage) return text;
  std::size_t end = kMaxMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

// Server-side apply on the status subresource. Forced: Kueue has written the fields before us.
absl::Status ApplyStatus(Client& client, const std::string& path, const json& object) {
  if (client.transport() == nullptr) {
    return absl::UnimplementedError("this client has no transport to write over");
  }
  const absl::StatusOr<Response> response = client.transport()->Send(
      {.method = "PATCH",
       .target = fmt::format("{}/status?fieldManager={}&force=true", path, kFieldManager),
       .accept = kAcceptJson,
       .content_type = "application/apply-patch+yaml",
       .body = object.dump(-1, ' ', false, json::error_handler_t::replace)});
  if (!response.ok()) return response.status();
  if (response->status == 200) return absl::OkStatus();
  return StatusOf(*response);
}

}  // namespace

absl::Status ApplyCheckState(Client& client, const CheckStateRequest& request) {
  const std::pair<const char*, const std::string*> needed[] = {
      {"version", &request.version},
      {"namespace", &request.workload_namespace},
      {"name", &request.workload_name},
      {"uid", &request.workload_uid},
      {"resourceVersion", &request.resource_version},
      {"check", &request.check}};
  for (const auto& [field, value] : needed) {
    if (value->empty()) {
      return absl::InvalidArgumentError(fmt::format("admission check state: no {}", field));
    }
  }
  const json entry = {{"name", request.check},
                      {"state", request.state},
                      {"message", Cut(request.message)},
                      {"lastTransitionTime", TimeText(request.since)}};
  // With uid and resourceVersion another Workload of that name, or a newer state, is a conflict.
  const json object = {{"apiVersion", "kueue.x-k8s.io/" + request.version},
                       {"kind", "Workload"},
                       {"metadata",
                        {{"name", request.workload_name},
                         {"namespace", request.workload_namespace},
                         {"uid", request.workload_uid},
                         {"resourceVersion", request.resource_version}}},
                       {"status", {{"admissionChecks", json::array({entry})}}}};
  const std::string path =
      fmt::format("/apis/kueue.x-k8s.io/{}/namespaces/{}/workloads/{}", request.version,
                  EscapeUrl(request.workload_namespace), EscapeUrl(request.workload_name));
  return ApplyStatus(client, path, object);
}

absl::Status ApplyCheckActive(Client& client, const CheckActiveRequest& request) {
  if (request.version.empty() || request.name.empty()) {
    return absl::InvalidArgumentError("admission check: version and name are needed");
  }
  const json condition = {{"type", "Active"},
                          {"status", request.active ? "True" : "False"},
                          {"reason", request.reason},
                          {"message", Cut(request.message)},
                          {"observedGeneration", request.observed_generation},
                          {"lastTransitionTime", TimeText(request.since)}};
  const json object = {{"apiVersion", "kueue.x-k8s.io/" + request.version},
                       {"kind", "AdmissionCheck"},
                       {"metadata", {{"name", request.name}}},
                       {"status", {{"conditions", json::array({condition})}}}};
  return ApplyStatus(client,
                     KueuePath(request.version, "admissionchecks") + "/" + EscapeUrl(request.name),
                     object);
}

absl::StatusOr<std::string> FindKueueVersion(Client& client) {
  if (client.transport() == nullptr) {
    return absl::UnimplementedError("this client has no transport to ask over");
  }
  const absl::StatusOr<Response> response =
      client.transport()->Send({.method = "GET",
                                .target = "/apis/kueue.x-k8s.io",
                                .accept = kAcceptJson,
                                .content_type = {},
                                .body = {}});
  if (!response.ok()) return response.status();
  if (response->status != 200) return StatusOf(*response);
  const absl::StatusOr<nlohmann::json> group = api::ParseJson(response->body, "APIGroup");
  if (!group.ok()) return absl::DataLossError(std::string(group.status().message()));
  absl::Status status;
  std::vector<std::string> served;
  api::JsonReader(*group, status)["versions"].ForEach(
      [&](const api::JsonReader& entry) { served.push_back(entry["version"].String()); });
  if (!status.ok()) return absl::DataLossError(std::string(status.message()));
  for (const char* version : {"v1beta2", "v1beta1"}) {
    if (std::find(served.begin(), served.end(), version) != served.end()) return version;
  }
  return absl::NotFoundError("kueue.x-k8s.io: neither v1beta2 nor v1beta1 is served");
}

}  // namespace numafit::kube
