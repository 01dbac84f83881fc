#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/json_reader.h"
#include "api/pod_json.h"
#include "kube/requests.h"

namespace numafit::kube {

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
