// The agent's configuration: a YAML file (kind AgentConfiguration) and flags, which override.
// docs/agent.md
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/endpoint_map.h"
#include "api/resource_class.h"

namespace numafit::agent {

struct AgentConfig {
  std::string node_name;   // empty: $NODE_NAME, else the host's name
  std::string kubeconfig;  // of the API server; empty: the Pod's own account

  // Where the host's files are. `root` stands for "/"; the others are below it unless they are set.
  std::string root = "/";
  std::string sys;       // "/sys"
  std::string proc;      // "/proc"
  std::string kubelet;   // "/var/lib/kubelet"
  std::string pod_logs;  // "/var/log/pods"

  // Of the kubelet, for configz; empty: files and command line only.
  std::string kubelet_url;
  std::string kubelet_ca_file;
  std::string kubelet_server_name;
  std::string token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";

  std::vector<api::ResourceClasses::Rule> resource_classes;
  std::vector<EndpointRule> endpoint_map;
  // Configuration files of k8s-rdma-shared-dev-plugin (its ConfigMap, mounted), as this process
  // sees them: not below `root`.
  std::vector<std::string> shared_pool_files;

  // Where /healthz and /readyz are served, "HOST:PORT", ":PORT" or "[V6]:PORT"; empty: nowhere.
  std::string health_address;

  // After a change on disk this long is waited for further ones.
  std::chrono::milliseconds settle{100};
  // Between two reports at least.
  std::chrono::milliseconds min_interval{300};
  // PodResources says nothing by itself when a Pod ends: it is asked this often.
  std::chrono::milliseconds pods_poll{500};
  // Everything is read this often, whatever happens.
  std::chrono::milliseconds full_poll{30'000};
};

// Applies a file to `config`. InvalidArgument: "FILE:LINE: PATH: what is wrong and what was
// expected"; unknown keys are errors.
absl::Status ApplyConfigFile(const std::string& path, AgentConfig* config);
absl::Status ApplyConfigText(std::string_view yaml, const std::string& file_name,
                             AgentConfig* config);

struct CommandLine {
  AgentConfig config;
  bool help = false;
  bool version = false;
  bool print = false;  // write the report to standard output and end
  bool watch = false;  // with print: go on, and write each report that differs
};
// Applies --config first (wherever it stands), then every other flag. InvalidArgument names the
// flag.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& words);
std::string HelpText();

// The folders with everything that is left out filled in.
struct HostPaths {
  std::string root;
  std::string sys;
  std::string proc;
  std::string kubelet;
  std::string pod_logs;
};
[[nodiscard]] HostPaths PathsOf(const AgentConfig& config);

}  // namespace numafit::agent
