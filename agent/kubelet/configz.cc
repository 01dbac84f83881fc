#include <fmt/format.h>

#include <memory>

#include "agent/kubelet/configuration.h"
#include "kube/client.h"
#include "kube/http/transport.h"
#include "kube/read_file.h"

namespace numafit::agent {
namespace {

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

absl::StatusOr<kube::Credentials> MakeCredentials(const ConfigzOptions& options) {
  const absl::StatusOr<kube::ServerUrl> url = kube::ParseServerUrl(options.url);
  if (!url.ok()) return url.status();
  kube::Credentials credentials;
  credentials.server = options.url;
  credentials.token_file = options.token_file;
  credentials.tls_server_name = options.tls_server_name;
  if (options.ca_file.empty()) {
    credentials.insecure_skip_verify = IsLoopback(url->endpoint.host);
    return credentials;
  }
  absl::StatusOr<std::string> ca = kube::ReadFile(options.ca_file);
  if (!ca.ok()) return ca.status();
  credentials.ca_pem = *std::move(ca);
  return credentials;
}

}  // namespace

absl::StatusOr<v1alpha1::Kubelet> FetchConfigz(const ConfigzOptions& options) {
  const absl::StatusOr<kube::Credentials> credentials = MakeCredentials(options);
  if (!credentials.ok()) return credentials.status();
  kube::Transport::Options transport_options;
  transport_options.max_connections = 1;
  transport_options.timeout = options.timeout;
  absl::StatusOr<std::unique_ptr<kube::Transport>> transport =
      kube::Transport::Create(*credentials, transport_options);
  if (!transport.ok()) return transport.status();
  const absl::StatusOr<kube::Response> answer =
      (*transport)->Send({"GET", "/configz", "application/json", "", ""});
  if (!answer.ok()) return answer.status();
  if (answer->status == 401 || answer->status == 403) {
    return absl::PermissionDeniedError(
        fmt::format("configz: {} {}", answer->status, Trim(answer->body.substr(0, 300))));
  }
  if (answer->status != 200) {
    return absl::UnavailableError(fmt::format("configz: HTTP status {}", answer->status));
  }
  return ParseConfigz(answer->body);
}

}  // namespace numafit::agent
