#include "extender/quota_service.h"

#include <chrono>
#include <optional>
#include <utility>

#include "prometheus/metric_family.h"

namespace numafit::extender {
namespace {

using workloads::QuotaAdvice;

prometheus::MetricFamily Gauge(const char* name, const char* help) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  return family;
}

void Add(prometheus::MetricFamily* family, const QuotaAdvice& advice, std::int64_t value) {
  prometheus::ClientMetric& metric = family->metric.emplace_back();
  metric.gauge.value = static_cast<double>(value);
  metric.label = {{"cluster_queue", advice.cluster_queue},
                  {"flavor", advice.flavor},
                  {"resource", advice.resource}};
}

std::string_view StateOf(const absl::Status& status) {
  if (status.ok()) return "current";
  if (absl::IsNotFound(status)) return "no-kueue";
  return absl::IsUnavailable(status) ? "reading" : "unreadable";
}

}  // namespace

QuotaService::QuotaService(Options options, Source source, const cache::Fleet& fleet,
                           const api::ResourceClasses& classes)
    : options_(std::move(options)),
      source_(std::move(source)),
      fleet_(fleet),
      status_(absl::UnavailableError("nobody has looked at quotas yet")),
      advisor_(classes, options_.limits) {}

QuotaService::~QuotaService() = default;

void QuotaService::Stop() {
  thread_.Stop();
}

void QuotaService::Step() {
  const absl::Status readable = source_.readable();
  if (!readable.ok()) {
    is_known_ = false;
    Publish(readable, {});
    return;
  }
  const std::int64_t now = options_.now_ms();
  if (is_known_ && now < due_ms_) return;
  const KueueSetup::Snapshot setup = source_.setup();
  const std::vector<workloads::QuotaUse> uses = source_.uses();
  std::optional<std::vector<QuotaAdvice>> advice = advisor_.Advise({.queues = setup.queues,
                                                                    .flavors = setup.flavors,
                                                                    .nodes = setup.nodes,
                                                                    .uses = uses,
                                                                    .fleet = fleet_});
  // What was known before stays until the new advice is complete.
  if (!advice.has_value()) return;
  is_known_ = true;
  due_ms_ = now + options_.advise_ms;
  Publish(absl::OkStatus(), *std::move(advice));
}

void QuotaService::Publish(const absl::Status& status, std::vector<QuotaAdvice> advice) {
  const api::MutexLock lock(mutex_);
  status_ = status;
  advice_ = std::move(advice);
}

void QuotaService::Start(std::function<bool()> is_current) {
  thread_.Start(std::chrono::milliseconds(options_.period_ms),
                [this, is_current = std::move(is_current)] {
                  if (is_current()) Step();
                });
}

std::string QuotaService::ToJson() const {
  const api::MutexLock lock(mutex_);
  return workloads::ToJson(StateOf(status_), std::string(status_.message()), advice_);
}

void QuotaService::AddMetrics(const QuotaService* service,
                              std::vector<prometheus::MetricFamily>* families) {
  auto quota = Gauge("numafit_cluster_queue_quota",
                     "Nominal quota of a ClusterQueue for accelerators of a flavor.");
  auto placeable =
      Gauge("numafit_cluster_queue_placeable",
            "How many of them Pods like those of the queue could hold at once, aligned, "
            "if nothing else ran on the flavor's nodes.");
  if (service != nullptr) {
    const api::MutexLock lock(service->mutex_);
    for (const QuotaAdvice& advice : service->advice_) {
      Add(&quota, advice, advice.quota);
      Add(&placeable, advice, advice.placeable);
    }
  }
  families->push_back(std::move(quota));
  families->push_back(std::move(placeable));
}

}  // namespace numafit::extender
