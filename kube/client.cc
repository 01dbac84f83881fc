#include "kube/client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "kube/decode.h"
#include "kube/http/transport.h"
#include "kube/requests.h"

namespace numafit::kube {
namespace {

std::string PodPath(const std::string& pod_namespace, const std::string& name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", EscapeUrl(pod_namespace), EscapeUrl(name));
}

class HttpClient : public Client {
 public:
  explicit HttpClient(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  absl::Status Bind(const BindRequest& request) override {
    if (request.pod_namespace.empty() || request.pod_name.empty() || request.node.empty()) {
      return absl::InvalidArgumentError("binding: namespace, Pod name and node name are needed");
    }
    nlohmann::json metadata = {{"name", request.pod_name}, {"namespace", request.pod_namespace}};
    // With the UID a Pod that was recreated under the same name is a 409, not a wrong bind.
    if (!request.pod_uid.empty()) metadata["uid"] = request.pod_uid;
    if (!request.annotations.empty()) metadata["annotations"] = request.annotations;
    const nlohmann::json binding = {
        {"apiVersion", "v1"},
        {"kind", "Binding"},
        {"metadata", std::move(metadata)},
        {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", request.node}}}};
    const absl::StatusOr<Response> response = transport_->Send(
        {.method = "POST",
         .target = PodPath(request.pod_namespace, request.pod_name) + "/binding",
         .accept = kAccept,
         .content_type = "application/json",
         .body = binding.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    if (!response.ok()) return response.status();
    if (response->status >= 200 && response->status < 300) return absl::OkStatus();
    return StatusOf(*response);
  }

  absl::Status AnnotatePod(const std::string& pod_namespace, const std::string& name,
                           const std::string& uid, const std::string& key,
                           const std::string& value) override {
    if (pod_namespace.empty() || name.empty() || uid.empty() || key.empty()) {
      return absl::InvalidArgumentError("annotate: namespace, Pod name, uid and key are needed");
    }
    // The API server takes a uid in a patch as a precondition.
    return Patch(PodPath(pod_namespace, name),
                 {{"metadata", {{"uid", uid}, {"annotations", {{key, value}}}}}});
  }

  absl::Status PostEvent(const EventRequest& event) override {
    return kube::PostEvent(*transport_, event);
  }

  absl::StatusOr<api::NodeReport> GetNodeReport(const std::string& name) override {
    return kube::GetNodeReport(*transport_, name);
  }

  absl::Status ApplyNodeReport(const api::NodeReport& report) override {
    return kube::ApplyNodeReport(*transport_, report);
  }

  absl::StatusOr<api::Pod> GetPod(const std::string& pod_namespace,
                                  const std::string& name) override {
    return Get<api::Pod>(PodPath(pod_namespace, name), pod_namespace.empty() || name.empty());
  }

  absl::StatusOr<api::Node> GetNode(const std::string& name) override {
    return Get<api::Node>("/api/v1/nodes/" + EscapeUrl(name), name.empty());
  }

  Transport* transport() override { return transport_.get(); }

 private:
  absl::Status Patch(std::string target, const nlohmann::json& patch) {
    const absl::StatusOr<Response> response = transport_->Send(
        {.method = "PATCH",
         .target = std::move(target),
         .accept = kAccept,
         .content_type = "application/merge-patch+json",
         .body = patch.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    if (!response.ok()) return response.status();
    if (response->status == 200) return absl::OkStatus();
    return StatusOf(*response);
  }

  template <typename T>
  absl::StatusOr<T> Get(std::string target, bool unnamed) {
    // An empty name would ask for a list.
    if (unnamed) return absl::InvalidArgumentError("get: a name is needed");
    const absl::StatusOr<Response> response = transport_->Send({.method = "GET",
                                                                .target = std::move(target),
                                                                .accept = kAccept,
                                                                .content_type = {},
                                                                .body = {}});
    if (!response.ok()) return response.status();
    if (response->status != 200) return StatusOf(*response);
    return DecodeObject<T>(response->body, EncodingOf(response->content_type));
  }

  std::unique_ptr<Transport> transport_;
};

}  // namespace

absl::Status Client::PostEvent(const EventRequest&) {
  return absl::UnimplementedError("this client posts no Events");
}
absl::StatusOr<api::NodeReport> Client::GetNodeReport(const std::string&) {
  return absl::UnimplementedError("this client has no NodeReports");
}
absl::Status Client::ApplyNodeReport(const api::NodeReport&) {
  return absl::UnimplementedError("this client has no NodeReports");
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(Credentials credentials, Options options) {
  absl::StatusOr<std::unique_ptr<Transport>> transport =
      Transport::Create(credentials, {.max_connections = options.max_connections,
                                      .timeout = std::chrono::milliseconds(options.timeout_ms)});
  if (!transport.ok()) return transport.status();
  return std::make_unique<HttpClient>(*std::move(transport));
}

}  // namespace numafit::kube
