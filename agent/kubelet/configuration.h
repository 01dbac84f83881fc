// How the kubelet is configured: asked of the kubelet (configz), or read second-hand from its
// configuration file, drop-ins and command line.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/host_files.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

// The fields of a KubeletConfiguration that decide admission. What it does not name is left empty:
// that is "not known", never the default (configz writes all defaults out). InvalidArgument names
// the field.
absl::StatusOr<v1alpha1::Kubelet> ReadKubeletConfiguration(const nlohmann::json& configuration);

// From the answer of /configz, {"kubeletconfig": …}. Sets `confirmed`.
absl::StatusOr<v1alpha1::Kubelet> ParseConfigz(std::string_view text);

struct ConfigzOptions {
  std::string url;         // "https://127.0.0.1:10250"
  std::string token_file;  // of a service account that may get nodes/configz
  // The kubelet's certificate is checked against these authorities. Without them it is checked only
  // if `url` is no loopback address: nobody but root answers there.
  std::string ca_file;
  std::string tls_server_name;  // empty: that of `url`
  std::chrono::milliseconds timeout{3'000};
};
// Unavailable, DeadlineExceeded; PermissionDenied with the kubelet's words for 401 and 403.
absl::StatusOr<v1alpha1::Kubelet> FetchConfigz(const ConfigzOptions& options);

// The words with which a kubelet runs here, from /proc/PID/cmdline; NotFound when none does.
absl::StatusOr<std::vector<std::string>> FindKubeletCommand(const HostFiles& proc);

// What these words say, in the kubelet's order: the file of --config, drop-ins of --config-dir by
// path (RFC 7386 merge), then flags, of which feature gates are added and all others replace.
// Relative files cannot be found. `host` stands for "/". `fallback_file` is read when there is no
// --config; it may be missing. Never `confirmed`.
absl::StatusOr<v1alpha1::Kubelet> ReadConfigurationFiles(const HostFiles& host,
                                                         const std::vector<std::string>& command,
                                                         const std::string& fallback_file);

}  // namespace numafit::agent
