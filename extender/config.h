// The extender's configuration: a YAML file (kind ExtenderConfiguration) and flags, which override.
// docs/configuration.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/resource_class.h"
#include "extender/decision_log.h"
#include "extender/scheduler_service.h"
#include "policy/demand.h"
#include "workloads/admission_check.h"

namespace numafit::extender {

struct Config {
  std::string listen = "127.0.0.1:8888";
  std::string read_listen = "127.0.0.1:8889";  // empty: no read API
  int workers = 0;                             // 0: as many as CPUs, 2 to 8
  int bind_workers = 16;
  int max_connections = 4096;
  std::size_t body_limit = std::size_t{16} * 1024 * 1024;
  std::size_t buffer_limit = std::size_t{256} * 1024 * 1024;

  std::size_t best_nodes = 64;
  std::string score_strategy = "most-allocated";
  policy::AlignmentNeed default_alignment = policy::AlignmentNeed::kFit;
  std::map<std::string, policy::AlignmentNeed, std::less<>> namespace_alignment;
  std::vector<api::ResourceClasses::Rule> resource_classes;
  UnknownNodes unknown_nodes = UnknownNodes::kRefuse;
  std::int64_t offer_ttl_ms = 3'000;
  std::size_t verdict_shapes = 256;
  std::size_t waiting_pods = 4'096;  // refused Pods that are woken when they fit; 0: none
  int wake_ups_per_second = 50;
  std::int64_t bind_timeout_ms = 4'000;

  // Where the nodes' inventory comes from: the fleet file, or the NodeReports of the agents.
  bool inventory_from_reports = false;
  // With reports: nodes without one are judged by their NodeResourceTopology, where there is one.
  bool node_resource_topology = false;
  // Nodes whose agent is not there to keep the report current: judged by what is known, or refused.
  bool refuse_stale_nodes = false;
  std::int64_t cool_down_ms = 10'000;  // 0: none
  bool watch_workloads = true;         // Kueue's, where it is installed
  bool admission_check = false;        // be the controller of numafit.io/topology-capacity
  workloads::CheckOptions check;
  std::string fleet;       // empty: the embedded one
  std::string kubeconfig;  // empty: in-cluster
  bool no_cluster = false;
  bool simulate_binds = false;

  LogLevel log_level = LogLevel::kInfo;
  int log_decisions_per_second = 100;
};

// Applies a file to `config`. InvalidArgument: "FILE:LINE: PATH: what is wrong and what was
// expected"; unknown keys are errors.
absl::Status ApplyConfigFile(const std::string& path, Config* config);
absl::Status ApplyConfigText(std::string_view yaml, const std::string& file_name, Config* config);

// Applies --config first (wherever it stands), then every other flag. Sets `help` or `version`
// instead when asked for. InvalidArgument names the flag.
struct CommandLine {
  Config config;
  bool help = false;
  bool version = false;
};
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& words);
std::string HelpText();

// What no single key shows: strategies that exist, limits that make sense together.
absl::Status Validate(const Config& config);

}  // namespace numafit::extender
