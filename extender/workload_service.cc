#include "extender/workload_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"
#include "workloads/status_json.h"

namespace numafit::extender {
namespace {

using workloads::Flag;
using workloads::WorkloadStatus;

// Fleets change and patience ends without any news of Workloads.
constexpr std::int64_t kRoundWhileWaitingMs = 1'000;
// More are not read until the next round.
constexpr std::size_t kOwnersAtOnce = 32;

prometheus::MetricFamily Gauge(const char* name, const char* help) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  return family;
}

void Add(prometheus::MetricFamily* family, double value,
         std::vector<prometheus::ClientMetric::Label> labels) {
  prometheus::ClientMetric metric;
  metric.gauge.value = value;
  metric.label = std::move(labels);
  family->metric.push_back(std::move(metric));
}

bool HasSomebodyWaiting(const std::vector<WorkloadStatus>& statuses) {
  return std::any_of(statuses.begin(), statuses.end(), [](const WorkloadStatus& status) {
    return status.phase == workloads::Phase::kAdmitted &&
           (!status.blocked.empty() || status.missing > 0);
  });
}

}  // namespace

WorkloadService::WorkloadService(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      index_(parts.rules.classes, parts.rules.demand),
      last_(std::make_shared<const Round>()),
      causes_(parts.fleet),
      tracker_(options_.tracker,
               [this](const workloads::Blocked& blocked) { return causes_.Find(blocked); }),
      owners_(options_.owners, {parts.client, parts.log},
              [this](const workloads::OwnerQuestion& question,
                     std::optional<api::OwnerReference> controller) {
                const api::MutexLock lock(mutex_);
                index_.LearnOwner(question, std::move(controller), Now());
              }) {}

WorkloadService::~WorkloadService() = default;

void WorkloadService::Stop() {
  thread_.Stop();
}

std::uint64_t WorkloadService::changes() const {
  const api::MutexLock lock(mutex_);
  return index_.version() + setup_changes_.load(std::memory_order_acquire);
}

std::string WorkloadService::KueueVersion() const {
  const api::MutexLock lock(mutex_);
  return setup_ != nullptr && setup_->synced() ? listed_ : std::string();
}

KueueSetup::Snapshot WorkloadService::Setup() const {
  std::shared_ptr<const KueueSetup> setup;
  {
    const api::MutexLock lock(mutex_);
    setup = setup_;
  }
  return setup == nullptr ? KueueSetup::Snapshot() : setup->Read();
}

std::vector<workloads::QuotaHolder> WorkloadService::QuotaHolders() const {
  const api::MutexLock lock(mutex_);
  return index_.QuotaHolders();
}

absl::Status WorkloadService::QuotasReadable() const {
  const api::MutexLock lock(mutex_);
  if (setup_ == nullptr) {
    return found_.ok() ? absl::UnavailableError("Kueue has just been found") : found_;
  }
  absl::Status state = setup_->StateOf({"clusterqueues", "resourceflavors", "nodes"});
  if (state.ok() && listed_.empty()) {
    state = watched_.ok() ? absl::UnavailableError("workloads have not been read yet") : watched_;
  }
  // Kueue is there, not all of its objects are.
  return absl::IsNotFound(state) ? absl::FailedPreconditionError(state.message()) : state;
}

std::vector<workloads::QuotaUse> WorkloadService::QuotaUses() const {
  const api::MutexLock lock(mutex_);
  return index_.QuotaUses();
}

void WorkloadService::ReplacePods(const std::vector<api::Pod>& pods) {
  std::vector<workloads::PodFacts> facts;
  facts.reserve(pods.size());
  for (const api::Pod& pod : pods) {
    facts.push_back(workloads::FactsOf(pod, parts_.rules.classes, parts_.rules.demand));
  }
  const api::MutexLock lock(mutex_);
  index_.ReplacePods(std::move(facts));
}

void WorkloadService::SeePod(const api::Pod& pod) {
  workloads::PodFacts facts = workloads::FactsOf(pod, parts_.rules.classes, parts_.rules.demand);
  const api::MutexLock lock(mutex_);
  index_.UpsertPod(std::move(facts));
}

void WorkloadService::ForgetPod(std::string_view uid) {
  const api::MutexLock lock(mutex_);
  index_.DeletePod(uid);
}

void WorkloadService::LookForKueue() {
  const std::int64_t now = options_.now_ms();
  {
    const api::MutexLock lock(mutex_);
    if (std::exchange(lost_, false)) version_.clear();
  }
  if (!version_.empty() || now < look_ms_) return;
  watch_.reset();
  parts_.metrics.ForgetWatch("workloads");
  std::shared_ptr<KueueSetup> old;
  {
    const api::MutexLock lock(mutex_);
    listed_.clear();
    watched_ = absl::OkStatus();
    old.swap(setup_);
  }
  old.reset();
  look_ms_ = now + options_.look_for_kueue_ms;
  absl::StatusOr<std::string> version = kube::FindKueueVersion(parts_.client);
  {
    const api::MutexLock lock(mutex_);
    found_ = version.status();
  }
  if (version.ok()) {
    said_.clear();
    version_ = *version;
    parts_.log.Write(LogLevel::kInfo,
                     LogLine("kueue").Text("state", "found").Text("api", version_));
    Watch(version_);
    return;
  }
  // Once per reason: most clusters have no Kueue.
  if (said_ == version.status().message()) return;
  said_ = std::string(version.status().message());
  parts_.log.Write(absl::IsNotFound(version.status()) ? LogLevel::kInfo : LogLevel::kWarn,
                   LogLine("kueue").Text("state", "not found").Text("error", said_));
}

void WorkloadService::Watch(const std::string& version) {
  {
    auto setup = std::make_shared<KueueSetup>(
        KueueSetup::Parts{parts_.client, parts_.metrics, parts_.log}, version,
        [this] { setup_changes_.fetch_add(1, std::memory_order_release); });
    const api::MutexLock lock(mutex_);
    setup_ = std::move(setup);
  }
  kube::WatchHandlers<api::Workload> handlers;
  handlers.on_list = [this, version](std::vector<api::Workload> list) {
    parts_.metrics.SetWatch("workloads", /*broken=*/false);
    std::vector<api::Workload> usable;
    for (api::Workload& workload : list) {
      if (workload.problem.ok()) usable.push_back(std::move(workload));
    }
    const api::MutexLock lock(mutex_);
    index_.ReplaceWorkloads(std::move(usable));
    listed_ = version;
  };
  handlers.on_upsert = [this](api::Workload workload) { Take(std::move(workload)); };
  handlers.on_delete = [this](api::Workload workload) {
    const api::MutexLock lock(mutex_);
    index_.DeleteWorkload(workload.metadata.uid);
  };
  handlers.on_state = [this](const absl::Status& status) {
    parts_.log.Write(status.ok() ? LogLevel::kInfo : LogLevel::kWarn,
                     LogLine("api-server")
                         .Text("watch", "workloads")
                         .Text("state", status.ok() ? "connected" : "interrupted")
                         .Text("error", std::string(status.message())));
    if (!status.ok()) parts_.metrics.watch_interruptions_total->Increment();
    parts_.metrics.SetWatch("workloads", !status.ok());
    const api::MutexLock lock(mutex_);
    watched_ = status;
    // Removed, or another version is served now.
    if (absl::IsNotFound(status)) lost_ = true;
  };
  kube::WatchOptions options;
  options.backoff_max_ms = 1'000;
  watch_ = kube::WatchWorkloads(parts_.client, version, options, std::move(handlers));
}

void WorkloadService::Take(api::Workload workload) {
  if (!workload.problem.ok()) {
    parts_.log.Write(LogLevel::kWarn, LogLine("workload-unreadable")
                                          .Text("workload", workload.FullName())
                                          .Text("error", std::string(workload.problem.message())));
  }
  const api::MutexLock lock(mutex_);
  if (workload.problem.ok()) {
    index_.UpsertWorkload(std::move(workload));
  } else {
    index_.DeleteWorkload(workload.metadata.uid);
  }
}

void WorkloadService::Step() {
  LookForKueue();
  const std::int64_t now_ms = options_.now_ms();
  auto round = std::make_shared<Round>();
  {
    const api::MutexLock lock(mutex_);
    const bool due = waiting_ && now_ms - last_round_ms_ >= kRoundWhileWaitingMs;
    if (std::exchange(seen_version_, index_.version()) == index_.version() && !due) return;
    round->statuses = index_.Statuses();
    // Under the lock, so that what has just been answered is not asked again.
    owners_.Ask(index_.OwnersToRead(kOwnersAtOnce, Now(), &round->statuses));
  }
  last_round_ms_ = now_ms;
  const std::int64_t now = Now();
  causes_.Forget();
  const workloads::Tracker::News news = tracker_.Step(round->statuses, now);
  for (const Flag& flag : news.raised) Raise(flag, now);
  for (const std::string& name : news.cleared) {
    parts_.log.Write(LogLevel::kInfo, LogLine("workload-placeable").Text("workload", name));
  }
  round->flags = tracker_.flags();
  waiting_ = !round->flags.empty() || HasSomebodyWaiting(round->statuses);
  std::shared_ptr<const Round> last = std::move(round);
  const api::MutexLock lock(mutex_);
  last_.swap(last);
}

std::shared_ptr<const WorkloadService::Round> WorkloadService::Last() const {
  const api::MutexLock lock(mutex_);
  return last_;
}

void WorkloadService::Raise(const Flag& flag, std::int64_t now) {
  const WorkloadStatus& workload = flag.workload;
  if (flag.raised == now) {
    parts_.metrics.workload_flag_seconds->Observe(
        static_cast<double>(std::max<std::int64_t>(0, now - workload.admitted_since)));
  }
  parts_.log.Write(LogLevel::kWarn,
                   LogLine("workload-unplaceable")
                       .Text("workload", workload.FullName())
                       .Text("clusterQueue", workload.cluster_queue)
                       .Text("cause", std::string(workloads::CauseName(flag.cause())))
                       .Text("why", flag.why)
                       .Int("accelerators", workload.accelerators));
  kube::EventRequest event;
  event.api_version = "kueue.x-k8s.io/" + version_;
  event.kind = "Workload";
  event.object_namespace = workload.namespace_;
  event.name = workload.name;
  event.uid = workload.uid;
  event.reason = "Unplaceable";
  event.action = "Observed";
  event.note = fmt::format("{}: {}", workloads::CauseName(flag.cause()), flag.why);
  if (workload.accelerators > 0) {
    event.note += fmt::format("; {} accelerators of ClusterQueue {} are held meanwhile",
                              workload.accelerators, workload.cluster_queue);
  }
  event.warning = true;
  event.controller = "numafit.io/extender";
  event.instance = "numafit-extender";
  event.time_micros = options_.wall_ms() * 1'000;
  // Once per admission and cause, whoever posts it.
  event.key = fmt::format("{} {}", workload.admitted_since, workloads::CauseName(flag.cause()));
  parts_.events.Post(std::move(event));
}

void WorkloadService::Start(std::function<bool()> is_current) {
  thread_.Start(std::chrono::milliseconds(options_.period_ms),
                [this, is_current = std::move(is_current)] {
                  if (is_current()) Step();
                });
}

std::string WorkloadService::ToJson(bool all, std::string_view only) const {
  const std::shared_ptr<const Round> last = Last();
  return workloads::ToJson(last->statuses, last->flags, all, only);
}

void WorkloadService::AddMetrics(const WorkloadService* service,
                                 std::vector<prometheus::MetricFamily>* families) {
  std::map<std::pair<std::string, std::string>, int> unplaceable;
  std::map<std::string, std::int64_t> accelerators;
  std::array<std::int64_t, workloads::kPodStates> pods{};
  std::int64_t missing = 0;
  std::int64_t oldest = 0;
  if (service != nullptr) {
    const std::int64_t now = service->Now();
    const std::shared_ptr<const Round> last = service->Last();
    for (const Flag& flag : last->flags) {
      const std::string& queue = flag.workload.cluster_queue;
      ++unplaceable[{std::string(workloads::CauseName(flag.cause())), queue}];
      accelerators[queue] += flag.workload.accelerators;
      oldest = std::max(oldest, now - flag.since);
    }
    for (const WorkloadStatus& status : last->statuses) {
      if (status.phase != workloads::Phase::kAdmitted) continue;
      for (std::size_t i = 0; i < pods.size(); ++i) pods[i] += status.pods[i];
      missing += status.missing;
    }
  }
  auto by_cause = Gauge("numafit_workloads_unplaceable",
                        "Workloads that Kueue has admitted and whose Pods cannot be placed.");
  for (const auto& [key, count] : unplaceable) {
    Add(&by_cause, count, {{"cause", key.first}, {"cluster_queue", key.second}});
  }
  auto age = Gauge("numafit_workloads_unplaceable_oldest_seconds",
                   "How long the Pods of the one that waits longest could have run; 0: none.");
  Add(&age, static_cast<double>(oldest), {});
  auto held = Gauge("numafit_workloads_unplaceable_accelerators",
                    "Accelerators whose quota Workloads hold that cannot be placed.");
  for (const auto& [queue, count] : accelerators) {
    Add(&held, static_cast<double>(count), {{"cluster_queue", queue}});
  }
  auto states = Gauge("numafit_workload_pods", "Pods of admitted Workloads, by how far they are.");
  for (std::size_t i = 0; i < pods.size(); ++i) {
    const auto state = static_cast<workloads::PodState>(i);
    if (state == workloads::PodState::kEnded) continue;
    Add(&states, static_cast<double>(pods[i]),
        {{"state", std::string(workloads::PodStateName(state))}});
  }
  Add(&states, static_cast<double>(missing), {{"state", "missing"}});
  for (auto* family : {&by_cause, &age, &held, &states}) families->push_back(std::move(*family));
}

}  // namespace numafit::extender
