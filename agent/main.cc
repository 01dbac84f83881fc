// numafit-agent: reads flags, prints the node's report, or keeps publishing it until SIGTERM.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "agent/api_server_sink.h"
#include "agent/collector.h"
#include "agent/config.h"
#include "agent/health.h"
#include "agent/health_server.h"
#include "agent/publisher.h"
#include "agent/report_loop.h"
#include "agent/report_sink.h"
#include "agent/report_yaml.h"
#include "kube/client.h"

namespace {

using numafit::agent::AgentConfig;
using numafit::agent::Collector;

constexpr int kIncomplete = 1;
constexpr int kBadInput = 2;

int Fail(const std::string& message) {
  fmt::print(stderr, "numafit-agent: {}\n", message);
  return kBadInput;
}

std::string NodeName(const AgentConfig& config) {
  if (!config.node_name.empty()) return config.node_name;
  if (const char* name = std::getenv("NODE_NAME"); name != nullptr && *name != '\0') return name;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

int PrintOnce(const AgentConfig& config) {
  Collector collector(config, [] { return absl::Now(); });
  numafit::v1alpha1::NodeReportStatus report = collector.Collect();
  report.set_agent_version(NUMAFIT_VERSION);
  report.set_node_name(NodeName(config));
  report.set_observed_time(
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
  const absl::StatusOr<std::string> text = numafit::agent::ReportYaml(NodeName(config), report);
  if (!text.ok()) return Fail(std::string(text.status().message()));
  std::fwrite(text->data(), 1, text->size(), stdout);
  int code = 0;
  for (const numafit::v1alpha1::Source& source : report.sources()) {
    if (source.error().empty()) continue;
    fmt::print(stderr, "numafit-agent: {}: {}\n", source.name(), source.error());
    code = kIncomplete;
  }
  return code;
}

void SayResult(const absl::Status& status) {
  if (!status.ok()) fmt::print(stderr, "numafit-agent: report: {}\n", status.ToString());
}

// Until SIGTERM or SIGINT.
int Follow(const AgentConfig& config, numafit::agent::ReportSink& sink,
           const Collector::AskNode& ask_node) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // Before any thread exists (gRPC makes some), so that only the descriptor sees them.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int stop_fd = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (stop_fd < 0) return Fail("no signalfd");
  Collector collector(
      config, [] { return absl::Now(); }, ask_node);
  numafit::agent::Publisher publisher(
      sink, NodeName(config), [] { return absl::Now(); }, SayResult,
      static_cast<std::uint32_t>(::getpid()));
  // A call to the kubelet or to the API server may take seconds, several of them one after another.
  constexpr std::chrono::seconds kSlowCalls{60};
  numafit::agent::Health health(2 * config.full_poll + kSlowCalls,
                                std::chrono::steady_clock::now());
  std::unique_ptr<numafit::agent::HealthServer> server;
  if (!config.health_address.empty()) {
    auto started = numafit::agent::HealthServer::Start(config.health_address, health);
    if (!started.ok()) return Fail(std::string(started.status().message()));
    server = *std::move(started);
  }
  numafit::agent::RunReports(config, collector, publisher, stop_fd, &health);
  ::close(stop_fd);
  return 0;
}

int PublishToApiServer(const AgentConfig& config) {
  using numafit::kube::Client;
  absl::StatusOr<numafit::kube::Credentials> credentials =
      config.kubeconfig.empty() ? numafit::kube::InClusterCredentials()
                                : numafit::kube::LoadKubeconfig(config.kubeconfig);
  if (!credentials.ok()) return Fail(std::string(credentials.status().message()));
  Client::Options options;
  options.max_connections = 1;
  const absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Create(*std::move(credentials), options);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  numafit::agent::ApiServerSink sink(**client);
  const std::string name = NodeName(config);
  return Follow(config, sink, [&sink, &name]() -> absl::StatusOr<Collector::NodeFacts> {
    const absl::StatusOr<numafit::api::Node> node = sink.LookAtNode(name);
    if (!node.ok()) return node.status();
    Collector::NodeFacts facts{.kubelet_version = node->kubelet_version};
    for (const auto& [resource, quantity] : node->capacity) {
      facts.capacity[resource] = quantity.value();
    }
    return facts;
  });
}

int Run(const std::vector<std::string>& words) {
  const absl::StatusOr<numafit::agent::CommandLine> line = numafit::agent::ParseCommandLine(words);
  if (!line.ok()) return Fail(std::string(line.status().message()));
  if (line->help) {
    fmt::print("{}", numafit::agent::HelpText());
    return 0;
  }
  if (line->version) {
    fmt::print("numafit-agent {}\n", NUMAFIT_VERSION);
    return 0;
  }
  if (!line->print) return PublishToApiServer(line->config);
  if (!line->watch) return PrintOnce(line->config);
  numafit::agent::PrintSink sink;
  AgentConfig config = line->config;
  config.health_address.clear();
  return Follow(config, sink, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  // Nobody reads what a closed pipe gets; the error is enough.
  std::signal(SIGPIPE, SIG_IGN);
  return Run(std::vector<std::string>(argv + 1, argv + argc));
}
