#include "extender/app.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "cache/fleet.h"
#include "cache/verdicts.h"
#include "extender/bind_gate.h"
#include "extender/check_service.h"
#include "extender/cluster_sync.h"
#include "extender/event_poster.h"
#include "extender/http/parked_server.h"
#include "extender/metrics.h"
#include "extender/offers.h"
#include "extender/pod_memory.h"
#include "extender/preemption.h"
#include "extender/quota_service.h"
#include "extender/read_api.h"
#include "extender/scheduler_service.h"
#include "extender/simulated_client.h"
#include "extender/wake_up.h"
#include "extender/workload_service.h"
#include "fmt/format.h"

namespace numafit::extender {
namespace {

constexpr std::size_t kRememberedPods = 16 * 1024;
// Of a fleet that grows; a node with a higher number is never on offer.
constexpr std::size_t kMostNodesOnOffer = 64 * 1024;
constexpr int kTrimAfterSeconds = 5;
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::int64_t WallMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

http::ParkedServer::Options SchedulerSide(const Config& config) {
  http::ParkedServer::Options options;
  options.name = "sched";
  options.workers = config.workers > 0
                        ? config.workers
                        : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8);
  options.slow_workers = config.bind_workers;
  options.max_connections = config.max_connections;
  options.limits.max_body_bytes = config.body_limit;
  options.max_buffered_bytes = config.buffer_limit;
  return options;
}

http::ParkedServer::Options ReadSide(const Config& config) {
  http::ParkedServer::Options options;
  options.name = "read";
  options.workers = 2;
  options.max_connections = std::min(config.max_connections, 1024);
  options.limits.max_body_bytes = std::size_t{1024} * 1024;
  options.max_buffered_bytes = std::size_t{32} * 1024 * 1024;
  return options;
}

absl::StatusOr<std::unique_ptr<kube::Client>> Connect(const Config& config, int connections,
                                                      std::int64_t timeout_ms) {
  absl::StatusOr<kube::Credentials> credentials = config.kubeconfig.empty()
                                                      ? kube::InClusterCredentials()
                                                      : kube::LoadKubeconfig(config.kubeconfig);
  if (!credentials.ok()) return credentials.status();
  kube::Client::Options options;
  options.max_connections = connections;
  options.timeout_ms = static_cast<int>(timeout_ms);
  return kube::Client::Create(*std::move(credentials), options);
}

}  // namespace

class App::Impl {
 public:
  explicit Impl(const Config& config)
      : config_(config),
        log_({config.log_level, config.log_decisions_per_second}),
        verdicts_({config.verdict_shapes}),
        pods_(kRememberedPods),
        scheduler_server_(SchedulerSide(config)),
        read_server_(ReadSide(config)) {}

  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(stop_mutex_);
      stopping_ = true;
    }
    stop_changed_.notify_all();
    if (janitor_.joinable()) janitor_.join();
    if (wake_up_ != nullptr) wake_up_->Stop();
    // They ask sync_, which ends before them.
    if (check_ != nullptr) check_->Stop();
    if (quotas_ != nullptr) quotas_->Stop();
    if (workloads_ != nullptr) workloads_->Stop();
  }

  absl::Status Start(Overrides overrides);
  bool Drain(std::int64_t timeout_ms) {
    log_.Write(LogLevel::kInfo, LogLine("stopping"));
    const std::int64_t deadline = SteadyMs() + timeout_ms;
    const bool scheduler = scheduler_server_.Drain(timeout_ms);
    const bool read = read_server_.Drain(std::max<std::int64_t>(deadline - SteadyMs(), 50));
    return scheduler && read;
  }
  [[nodiscard]] int port() const { return scheduler_server_.port(); }
  [[nodiscard]] int read_port() const { return read_server_.port(); }
  [[nodiscard]] bool ready() const { return sync_ == nullptr || sync_->synced(); }

 private:
  absl::Status MakeFleet(const cache::FleetFile* file);
  absl::Status MakeClients(Overrides& overrides);
  void MakeServices();
  void WatchCluster(kube::Client& client);
  void AddRoutes();
  void AddCommonRoutes(http::ParkedServer& server);
  void Housekeep();

  const Config config_;
  Metrics metrics_;
  DecisionLog log_;
  cache::VerdictStore verdicts_;
  PodMemory pods_;
  PodRules rules_;
  std::unique_ptr<cache::Fleet> fleet_;
  std::unique_ptr<Offers> offers_;
  std::unique_ptr<kube::Client> client_;        // binds, wakes
  std::unique_ptr<kube::Client> watch_client_;  // lists and watches; null: nothing to watch
  std::unique_ptr<WakeUp> wake_up_;
  std::unique_ptr<SchedulerService> scheduler_;
  std::unique_ptr<BindGate> gate_;
  std::unique_ptr<Preemption> preemption_;
  std::unique_ptr<ReadApi> read_api_;
  std::unique_ptr<EventPoster> events_;
  std::unique_ptr<WorkloadService> workloads_;  // null: nobody asks
  std::unique_ptr<ClusterSync> sync_;
  std::unique_ptr<CheckService> check_;   // null: off
  std::unique_ptr<QuotaService> quotas_;  // null: as workloads_

  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopping_ = false;
  std::thread janitor_;

  // Last: their threads use everything above.
  http::ParkedServer scheduler_server_;
  http::ParkedServer read_server_;
};

absl::Status App::Impl::MakeFleet(const cache::FleetFile* file) {
  rules_.classes = api::ResourceClasses(config_.resource_classes);
  rules_.demand.default_alignment = config_.default_alignment;
  rules_.demand.namespace_alignment = config_.namespace_alignment;
  rules_.strategy = policy::FindScoreStrategy(config_.score_strategy);
  cache::Fleet::Options options;
  options.demand = rules_.demand;
  options.refuse_stale = config_.refuse_stale_nodes;
  options.cool_down_ms = config_.cool_down_ms;
  options.now_ms = SteadyMs;
  options.wall_ms = WallMs;
  if (config_.inventory_from_reports) {
    fleet_ = cache::Fleet::FromReports(rules_.classes, std::move(options));
    offers_ = std::make_unique<Offers>(kMostNodesOnOffer, config_.offer_ttl_ms);
    return absl::OkStatus();
  }
  absl::StatusOr<cache::FleetFile> loaded;
  if (file == nullptr && !config_.fleet.empty()) {
    loaded = cache::LoadFleetFile(config_.fleet);
    if (!loaded.ok()) return loaded.status();
    file = &*loaded;
  }
  if (file == nullptr) file = &cache::EmbeddedFleet();
  absl::StatusOr<std::unique_ptr<cache::Fleet>> fleet =
      cache::Fleet::FromFile(*file, rules_.classes, std::move(options));
  if (!fleet.ok()) return fleet.status();
  fleet_ = *std::move(fleet);
  offers_ = std::make_unique<Offers>(fleet_->size(), config_.offer_ttl_ms);
  return absl::OkStatus();
}

absl::Status App::Impl::MakeClients(Overrides& overrides) {
  if (overrides.client != nullptr) {
    client_ = std::move(overrides.client);
    return absl::OkStatus();
  }
  if (config_.no_cluster) {
    client_ = std::make_unique<SimulatedClient>(*fleet_, pods_, config_.simulate_binds);
    return absl::OkStatus();
  }
  // A bind has to be tried, looked after and tried again within the scheduler's patience; a list
  // may take its time.
  absl::StatusOr<std::unique_ptr<kube::Client>> binds =
      Connect(config_, config_.bind_workers + 1, config_.bind_timeout_ms / 2);
  if (!binds.ok()) return binds.status();
  client_ = *std::move(binds);
  absl::StatusOr<std::unique_ptr<kube::Client>> watches = Connect(config_, 4, 30'000);
  if (!watches.ok()) return watches.status();
  watch_client_ = *std::move(watches);
  return absl::OkStatus();
}

void App::Impl::MakeServices() {
  WakeUp::Options waking;
  waking.capacity = config_.waiting_pods;
  waking.per_second = config_.wake_ups_per_second;
  waking.now_ms = SteadyMs;
  waking.wall_ms = WallMs;
  wake_up_ =
      std::make_unique<WakeUp>(waking, WakeUp::Parts{*fleet_, verdicts_, *client_, metrics_, log_});

  SchedulerService::Options scheduling;
  scheduling.rules = rules_;
  scheduling.best_nodes = config_.best_nodes;
  scheduling.unknown_nodes = config_.unknown_nodes;
  scheduling.threads = scheduler_server_.threads();
  scheduling.now_ms = SteadyMs;
  scheduler_ = std::make_unique<SchedulerService>(
      scheduling,
      SchedulerService::Parts{*fleet_, verdicts_, *offers_, pods_, *wake_up_, metrics_, log_});

  BindGate::Options binding;
  binding.rules = rules_;
  binding.unknown_nodes = config_.unknown_nodes;
  binding.budget_ms = config_.bind_timeout_ms;
  binding.now_ms = SteadyMs;
  binding.sleep_ms = [](std::int64_t ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  };
  gate_ = std::make_unique<BindGate>(
      binding, BindGate::Parts{*fleet_, *client_, *offers_, pods_, metrics_, log_});
  preemption_ =
      std::make_unique<Preemption>(Preemption::Options{rules_, config_.unknown_nodes, SteadyMs},
                                   Preemption::Parts{*fleet_, metrics_, log_});
}

void App::Impl::WatchCluster(kube::Client& client) {
  events_ = std::make_unique<EventPoster>(EventPoster::Options(),
                                          EventPoster::Parts{client, metrics_, log_});
  if (config_.watch_workloads) {
    WorkloadService::Options options;
    options.now_ms = SteadyMs;
    options.wall_ms = WallMs;
    workloads_ = std::make_unique<WorkloadService>(
        options, WorkloadService::Parts{client, *fleet_, rules_, *events_, metrics_, log_});
  }
  sync_ = std::make_unique<ClusterSync>(
      client,
      ClusterSync::Parts{*fleet_, *offers_, *wake_up_, *events_, metrics_, log_, workloads_.get()},
      ClusterSync::Sources{config_.inventory_from_reports, config_.node_resource_topology});
  if (config_.admission_check && workloads_ != nullptr) {
    CheckService::Options options;
    options.check = config_.check;
    options.strategy = rules_.strategy;
    options.now_ms = SteadyMs;
    options.wall_ms = WallMs;
    WorkloadService& source = *workloads_;
    check_ = std::make_unique<CheckService>(
        std::move(options),
        CheckService::Source{
            [&source] { return source.changes(); }, [&source] { return source.KueueVersion(); },
            [&source] { return source.Setup(); }, [&source] { return source.QuotaHolders(); }},
        CheckService::Parts{client, *fleet_, metrics_, log_});
    check_->Start([this] { return sync_->synced(); });
  }
  if (workloads_ != nullptr) {
    QuotaService::Options options;
    options.now_ms = SteadyMs;
    WorkloadService& source = *workloads_;
    quotas_ = std::make_unique<QuotaService>(
        std::move(options),
        QuotaService::Source{[&source] { return source.QuotasReadable(); },
                             [&source] { return source.Setup(); },
                             [&source] { return source.QuotaUses(); }},
        *fleet_, rules_.classes);
    quotas_->Start([this] { return sync_->synced(); });
  }
  wake_up_->Start([this] { return sync_->synced(); });
  if (workloads_ != nullptr) workloads_->Start([this] { return sync_->synced(); });
}

void App::Impl::AddCommonRoutes(http::ParkedServer& server) {
  using http::Request;
  using http::Response;
  const auto fast = http::ParkedServer::Pool::kFast;
  server.Route("GET", "/healthz", fast, [](const Request&, Response& response) {
    response.content_type = "text/plain; charset=utf-8";
    response.body = "ok\n";
  });
  server.Route("GET", "/readyz", fast, [this](const Request&, Response& response) {
    response.content_type = "text/plain; charset=utf-8";
    response.status = ready() ? 200 : 503;
    response.body = ready() ? "ok\n" : "the lists of the API server have not been read yet\n";
  });
  server.Route("GET", "/metrics", fast, [this](const Request&, Response& response) {
    response.content_type = kMetricsType;
    response.body = metrics_.Text();
  });
}

void App::Impl::AddRoutes() {
  using http::ParkedServer;
  using http::Request;
  using http::Response;
  AddCommonRoutes(scheduler_server_);
  AddCommonRoutes(read_server_);
  scheduler_server_.Route("POST", "/filter", ParkedServer::Pool::kFast,
                          [this](const Request& request, Response& response) {
                            scheduler_->Filter(request, response);
                          });
  scheduler_server_.Route("POST", "/prioritize", ParkedServer::Pool::kFast,
                          [this](const Request& request, Response& response) {
                            scheduler_->Prioritize(request, response);
                          });
  scheduler_server_.Route("POST", "/preempt", ParkedServer::Pool::kFast,
                          [this](const Request& request, Response& response) {
                            preemption_->Serve(request, response);
                          });
  scheduler_server_.Route(
      "POST", "/bind", ParkedServer::Pool::kSlow,
      [this](const Request& request, Response& response) { gate_->Serve(request, response); });
  read_server_.Route(
      "GET", "/v1/nodes", ParkedServer::Pool::kFast,
      [this](const Request& request, Response& response) { read_api_->Nodes(request, response); });
  read_server_.Route("GET", "/v1/workloads", ParkedServer::Pool::kFast,
                     [this](const Request& request, Response& response) {
                       read_api_->Workloads(request, response);
                     });
  read_server_.Route("GET", "/v1/cluster-queues", ParkedServer::Pool::kFast,
                     [this](const Request& request, Response& response) {
                       read_api_->ClusterQueues(request, response);
                     });
  read_server_.Route(
      "GET", "/v1/pods", ParkedServer::Pool::kFast,
      [this](const Request& request, Response& response) { read_api_->Pods(request, response); });
  read_server_.Route("POST", "/v1/explain", ParkedServer::Pool::kFast,
                     [this](const Request& request, Response& response) {
                       read_api_->Explain(request, response);
                     });
}

void App::Impl::Housekeep() {
  int seconds_ready = 0;
  std::unique_lock<std::mutex> lock(stop_mutex_);
  while (!stop_changed_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; })) {
    lock.unlock();
    gate_->Settle();
    fleet_->EndCoolDowns();
    // What the lists needed while they were read is free, in pieces that malloc keeps by thread: of
    // a large cluster that is half of the process. Whoever allocates waits meanwhile: some 60 ms.
    if (seconds_ready < kTrimAfterSeconds && ready() && ++seconds_ready == kTrimAfterSeconds) {
      ::malloc_trim(0);
    }
    lock.lock();
  }
}

absl::Status App::Impl::Start(Overrides overrides) {
  const bool watch_override = overrides.client != nullptr && overrides.watch_client;
  absl::Status status = MakeFleet(overrides.fleet);
  if (status.ok()) status = MakeClients(overrides);
  if (!status.ok()) return status;
  MakeServices();
  kube::Client* const watched = watch_override ? client_.get() : watch_client_.get();
  if (watched != nullptr) WatchCluster(*watched);
  read_api_ = std::make_unique<ReadApi>(*fleet_, rules_, workloads_.get(), quotas_.get());
  metrics_.Watch({fleet_.get(), &verdicts_, offers_.get(), &scheduler_server_.stats(),
                  config_.read_listen.empty() ? nullptr : &read_server_.stats(), workloads_.get(),
                  quotas_.get()});
  AddRoutes();
  janitor_ = std::thread([this] { Housekeep(); });
  status = scheduler_server_.Start(config_.listen);
  if (status.ok() && !config_.read_listen.empty()) status = read_server_.Start(config_.read_listen);
  if (!status.ok()) return status;
  log_.Write(LogLevel::kInfo, LogLine("started")
                                  .Text("version", NUMAFIT_VERSION)
                                  .Int("port", port())
                                  .Int("readPort", read_port())
                                  .Int("nodes", static_cast<std::int64_t>(fleet_->size()))
                                  .Text("cluster", watched != nullptr ? "watched" : "none"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<App>> App::Start(const Config& config, Overrides overrides) {
  auto impl = std::make_unique<Impl>(config);
  const absl::Status status = impl->Start(std::move(overrides));
  if (!status.ok()) return status;
  return std::unique_ptr<App>(new App(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<App>> App::Start(const Config& config) {
  return Start(config, Overrides());
}

App::App(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
App::~App() = default;
int App::port() const {
  return impl_->port();
}
int App::read_port() const {
  return impl_->read_port();
}
bool App::ready() const {
  return impl_->ready();
}
bool App::Drain(std::int64_t timeout_ms) {
  return impl_->Drain(timeout_ms);
}

}  // namespace numafit::extender
