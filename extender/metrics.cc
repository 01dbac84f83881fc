#include "extender/metrics.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include "cache/fleet.h"
#include "cache/verdicts.h"
#include "extender/http/parked_server.h"
#include "extender/offers.h"
#include "extender/quota_service.h"
#include "extender/workload_service.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace numafit::extender {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

const prometheus::Histogram::BucketBoundaries kCallSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1};
const prometheus::Histogram::BucketBoundaries kFlagSeconds = {1,  2,  5,   10,  20,
                                                              30, 60, 120, 300, 600};
const prometheus::Histogram::BucketBoundaries kWakeUpSeconds = {0.05, 0.1, 0.2, 0.5, 1,
                                                                2,    5,   10,  30,  60};
const prometheus::Histogram::BucketBoundaries kBindSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};

// Others count as Other, OutOfcpu and the like as OutOfResource: labels do not grow with the
// cluster.
constexpr const char* kRefusalReasons[] = {"TopologyAffinityError", "UnexpectedAdmissionError",
                                           "SMTAlignmentError", "OutOfResource", "Other"};

prometheus::Counter* AddCounter(prometheus::Registry& registry, const char* name,
                                const char* help) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

std::int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Sample {
  double value;
  std::vector<std::pair<std::string, std::string>> labels;
};

MetricFamily Family(const char* name, const char* help, MetricType type,
                    const std::vector<Sample>& samples) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  for (const Sample& sample : samples) {
    ClientMetric& metric = family.metric.emplace_back();
    for (const auto& [key, value] : sample.labels) metric.label.push_back({key, value});
    if (type == MetricType::Counter) {
      metric.counter.value = sample.value;
    } else {
      metric.gauge.value = sample.value;
    }
  }
  return family;
}

template <typename T>
double Number(const T& value) {
  return static_cast<double>(value);
}

}  // namespace

// Reads the sources when asked.
class Metrics::ScrapeTime {
 public:
  Sources sources;

  [[nodiscard]] std::vector<MetricFamily> Collect() const {
    std::vector<MetricFamily> families;
    families.push_back(Family("numafit_build_info", "1, with the version as a label.",
                              MetricType::Gauge, {{1, {{"version", NUMAFIT_VERSION}}}}));
    if (sources.fleet != nullptr) AddFleet(&families);
    if (sources.verdicts != nullptr) AddVerdicts(&families);
    if (sources.offers != nullptr) {
      families.push_back(Family("numafit_offers", "Best nodes on offer to Pods not yet located.",
                                MetricType::Gauge, {{Number(sources.offers->size()), {}}}));
    }
    AddHttp(&families);
    WorkloadService::AddMetrics(sources.workloads, &families);
    QuotaService::AddMetrics(sources.quotas, &families);
    return families;
  }

 private:
  void AddFleet(std::vector<MetricFamily>* families) const {
    const cache::Fleet::Stats stats = sources.fleet->stats();
    const auto gauge = [families](const char* name, const char* help, double value) {
      families->push_back(Family(name, help, MetricType::Gauge, {{value, {}}}));
    };
    gauge("numafit_fleet_nodes", "Nodes with an inventory.", Number(stats.nodes));
    families->push_back(
        Family("numafit_fleet_nodes_by_source",
               "Nodes by where their inventory comes from: file, reports (NodeReport), counts "
               "(NodeResourceTopology, no report), none.",
               MetricType::Gauge,
               {{Number(stats.file_nodes), {{"source", "file"}}},
                {Number(stats.reported_nodes), {{"source", "reports"}}},
                {Number(stats.counted_nodes), {{"source", "counts"}}},
                {Number(stats.unreported_nodes), {{"source", "none"}}}}));
    gauge("numafit_fleet_distinct_states", "Different node states among them.",
          Number(stats.distinct_states));
    gauge("numafit_fleet_unreported_nodes", "Nodes with Pods and without a report.",
          Number(stats.unreported_nodes));
    gauge("numafit_fleet_stale_nodes", "Nodes whose agent does not keep the report current.",
          Number(stats.stale_nodes));
    gauge("numafit_fleet_away_nodes", "Nodes whose kubelet does not answer its agent.",
          Number(stats.away_nodes));
    gauge("numafit_fleet_cooling_nodes",
          "Nodes closed for a shape of Pods that their kubelet has just refused.",
          Number(stats.cooling_nodes));
    gauge("numafit_misaligned_containers",
          "Running containers whose accelerators and endpoints lie on different NUMA nodes.",
          Number(stats.misaligned_containers));
    gauge("numafit_fleet_settling_nodes",
          "Nodes closed until their kubelet has shown what it admitted.",
          Number(stats.settling_nodes));
    gauge("numafit_fleet_pods", "Pods that hold devices or may.", Number(stats.pods));
    gauge("numafit_fleet_reservations", "Binds in flight.", Number(stats.reservations));
    gauge("numafit_fleet_contradictions",
          "Pods that, by our model, their kubelet cannot have admitted.",
          Number(stats.contradictions));
  }

  void AddVerdicts(std::vector<MetricFamily>* families) const {
    const cache::VerdictStore::Stats& stats = sources.verdicts->stats();
    families->push_back(
        Family("numafit_verdict_cache_total",
               "Verdicts by where they came from: hit (node unchanged since the last question), "
               "shared (its state was judged before), judged (an admission was computed).",
               MetricType::Counter,
               {{Number(stats.hits.load()), {{"result", "hit"}}},
                {Number(stats.shared.load()), {{"result", "shared"}}},
                {Number(stats.judged.load()), {{"result", "judged"}}}}));
    families->push_back(Family("numafit_verdict_cache_evictions_total",
                               "Demand shapes dropped to make room.", MetricType::Counter,
                               {{Number(stats.evictions.load()), {}}}));
    families->push_back(Family("numafit_verdict_cache_shapes", "Demand shapes kept.",
                               MetricType::Gauge, {{Number(sources.verdicts->shapes()), {}}}));
  }

  void AddHttp(std::vector<MetricFamily>* families) const {
    struct Side {
      const http::ServerStats* stats;
      const char* name;
    };
    std::vector<Side> sides;
    if (sources.scheduler_http != nullptr) sides.push_back({sources.scheduler_http, "scheduler"});
    if (sources.read_http != nullptr) sides.push_back({sources.read_http, "read"});
    if (sides.empty()) return;
    const auto add = [&](const char* name, const char* help, MetricType type, auto read) {
      std::vector<Sample> samples;
      for (const Side& side : sides) {
        samples.push_back({Number((side.stats->*read).load()), {{"listener", side.name}}});
      }
      families->push_back(Family(name, help, type, samples));
    };
    using Stats = http::ServerStats;
    add("numafit_http_connections", "Open connections.", MetricType::Gauge, &Stats::open);
    add("numafit_http_buffered_bytes", "Held by requests that are not complete yet.",
        MetricType::Gauge, &Stats::buffered_bytes);
    add("numafit_http_waiting_requests", "Requests that wait for a bind thread.", MetricType::Gauge,
        &Stats::waiting_slow);
    add("numafit_http_accepted_total", "Connections accepted.", MetricType::Counter,
        &Stats::accepted);
    add("numafit_http_requests_total", "Requests served.", MetricType::Counter, &Stats::requests);
    add("numafit_http_received_bytes_total", "Bytes received.", MetricType::Counter,
        &Stats::bytes_received);
    add("numafit_http_sent_bytes_total", "Bytes sent.", MetricType::Counter, &Stats::bytes_sent);
    AddHttpRefusals(families, sides);
  }

  template <typename Sides>
  static void AddHttpRefusals(std::vector<MetricFamily>* families, const Sides& sides) {
    using Stats = http::ServerStats;
    struct Reason {
      const char* name;
      std::atomic<std::uint64_t> Stats::*count;
    };
    constexpr Reason kReasons[] = {
        {"too_many_connections", &Stats::refused_connections},
        {"malformed", &Stats::malformed},
        {"head_too_large", &Stats::head_too_large},
        {"body_too_large", &Stats::body_too_large},
        {"encoding", &Stats::encoding_refused},
        {"overloaded", &Stats::overloaded},
        {"slow_request", &Stats::slow_requests},
        {"slow_reader", &Stats::slow_readers},
        {"idle", &Stats::idle_closed},
        {"exception", &Stats::handler_exceptions},
    };
    std::vector<Sample> samples;
    for (const auto& side : sides) {
      for (const Reason& reason : kReasons) {
        samples.push_back({Number((side.stats->*reason.count).load()),
                           {{"listener", side.name}, {"reason", reason.name}}});
      }
    }
    families->push_back(Family("numafit_http_closed_total",
                               "Connections that the server ended, by reason.", MetricType::Counter,
                               samples));
  }
};

Metrics::Metrics(std::function<std::int64_t()> now_ms)
    : now_ms_(now_ms != nullptr ? std::move(now_ms) : SteadyMs),
      registry_(std::make_unique<prometheus::Registry>()),
      scrape_time_(std::make_unique<ScrapeTime>()) {
  prometheus::Registry& registry = *registry_;
  auto& filters = prometheus::BuildCounter()
                      .Name("numafit_filter_total")
                      .Help(
                          "Filter calls by result: fits, none_fits, passed (no device asked for), "
                          "error (the Pod cannot be read), malformed.")
                      .Register(registry);
  filter_total = {&filters.Add({{"result", "fits"}}), &filters.Add({{"result", "none_fits"}}),
                  &filters.Add({{"result", "passed"}}), &filters.Add({{"result", "error"}}),
                  &filters.Add({{"result", "malformed"}})};
  filter_seconds = &prometheus::BuildHistogram()
                        .Name("numafit_filter_duration_seconds")
                        .Help("Filter calls, from the whole request to the whole answer.")
                        .Register(registry)
                        .Add({}, kCallSeconds);
  prioritize_seconds = &prometheus::BuildHistogram()
                            .Name("numafit_prioritize_duration_seconds")
                            .Help("Prioritize calls, from the whole request to the whole answer.")
                            .Register(registry)
                            .Add({}, kCallSeconds);
  prioritize_total = AddCounter(registry, "numafit_prioritize_total", "Prioritize calls.");
  prioritize_malformed_total = AddCounter(registry, "numafit_prioritize_malformed_total",
                                          "Prioritize calls answered with 400.");
  auto& binds = prometheus::BuildCounter()
                    .Name("numafit_bind_total")
                    .Help(
                        "Bind calls by result: bound, refused (the gate: it no longer fits), "
                        "already (bound there before), error.")
                    .Register(registry);
  bind_total = {&binds.Add({{"result", "bound"}}), &binds.Add({{"result", "refused"}}),
                &binds.Add({{"result", "already"}}), &binds.Add({{"result", "error"}})};
  bind_seconds = &prometheus::BuildHistogram()
                      .Name("numafit_bind_duration_seconds")
                      .Help("Bind calls, the API server's time included.")
                      .Register(registry)
                      .Add({}, kBindSeconds);
  bind_retries_total = AddCounter(registry, "numafit_bind_retries_total",
                                  "Further attempts to bind after a transient error.");
  bind_unknown_total =
      AddCounter(registry, "numafit_bind_unknown_total",
                 "Binds of which the API server did not say what became of them in time.");
  bind_unresolved = &prometheus::BuildGauge()
                         .Name("numafit_bind_unresolved")
                         .Help("Of those, the ones not settled yet; their room stays reserved.")
                         .Register(registry)
                         .Add({});
  log_dropped_total = AddCounter(registry, "numafit_log_dropped_total",
                                 "Decision log lines left out by the rate limit.");
  watch_interruptions_total = AddCounter(registry, "numafit_watch_interruptions_total",
                                         "Times that a watch of the API server broke off.");
  auto& wake_ups = prometheus::BuildCounter()
                       .Name("numafit_wake_ups_total")
                       .Help(
                           "Refused Pods that the scheduler was made to try again because they "
                           "would fit now, by result: woken, gone (the Pod), error.")
                       .Register(registry);
  wake_ups_total = {&wake_ups.Add({{"result", "woken"}}), &wake_ups.Add({{"result", "gone"}}),
                    &wake_ups.Add({{"result", "error"}})};
  workload_flag_seconds =
      &prometheus::BuildHistogram()
           .Name("numafit_workload_flag_seconds")
           .Help("From a Workload's admission until it was flagged as unplaceable.")
           .Register(registry)
           .Add({}, kFlagSeconds);
  auto& verdicts = prometheus::BuildCounter()
                       .Name("numafit_admission_check_verdicts_total")
                       .Help(
                           "What the AdmissionCheck wrote: ready, retry; or could not: conflict "
                           "(the Workload had changed, it is decided again), error.")
                       .Register(registry);
  check_total = {&verdicts.Add({{"result", "ready"}}), &verdicts.Add({{"result", "retry"}}),
                 &verdicts.Add({{"result", "conflict"}}), &verdicts.Add({{"result", "error"}})};
  check_waiting_workloads =
      &prometheus::BuildGauge()
           .Name("numafit_admission_check_waiting_workloads")
           .Help("Workloads with quota that the AdmissionCheck lets wait for room.")
           .Register(registry)
           .Add({});
  wake_up_seconds = &prometheus::BuildHistogram()
                         .Name("numafit_wake_up_seconds")
                         .Help(
                             "From the news of room for a Pod that waits to the filter call that "
                             "its wake-up brought about.")
                         .Register(registry)
                         .Add({}, kWakeUpSeconds);
  auto& preemptions = prometheus::BuildCounter()
                          .Name("numafit_preemption_nodes_total")
                          .Help(
                              "Nodes that kube-scheduler proposed to make room on, by result: "
                              "kept, widened (more victims), vetoed; malformed counts calls.")
                          .Register(registry);
  preemption_nodes_total = {
      &preemptions.Add({{"result", "kept"}}), &preemptions.Add({{"result", "widened"}}),
      &preemptions.Add({{"result", "vetoed"}}), &preemptions.Add({{"result", "malformed"}})};
  auto& reports = prometheus::BuildCounter()
                      .Name("numafit_reports_total")
                      .Help("NodeReports by result: applied, outdated, invalid.")
                      .Register(registry);
  reports_total = {&reports.Add({{"result", "applied"}}), &reports.Add({{"result", "outdated"}}),
                   &reports.Add({{"result", "invalid"}})};
  auto& topologies = prometheus::BuildCounter()
                         .Name("numafit_node_resource_topologies_total")
                         .Help("NodeResourceTopology objects by result: applied, invalid.")
                         .Register(registry);
  node_resource_topologies_total = {&topologies.Add({{"result", "applied"}}),
                                    &topologies.Add({{"result", "invalid"}})};
  auto& predictions = prometheus::BuildCounter()
                          .Name("numafit_predictions_total")
                          .Help(
                              "Pods that a report listed for the first time, by whether they have "
                              "the devices that were foretold: confirmed, mismatch.")
                          .Register(registry);
  predictions_total = {&predictions.Add({{"result", "confirmed"}}),
                       &predictions.Add({{"result", "mismatch"}})};
  auto& events = prometheus::BuildCounter()
                     .Name("numafit_events_total")
                     .Help("Kubernetes Events by result: posted, dropped.")
                     .Register(registry);
  events_total = {&events.Add({{"result", "posted"}}), &events.Add({{"result", "dropped"}})};
  refusals_ = &prometheus::BuildCounter()
                   .Name("numafit_kubelet_refusals_total")
                   .Help("Pods that the gate had let in and their kubelet refused, by its reason.")
                   .Register(registry);
  for (const char* reason : kRefusalReasons) refusals_->Add({{"reason", reason}});
  waiting_pods = &prometheus::BuildGauge()
                      .Name("numafit_waiting_pods")
                      .Help("Pods that filter refused on every node it was offered.")
                      .Register(registry)
                      .Add({});
}

Metrics::~Metrics() = default;

void Metrics::CountRefusal(const std::string& reason) {
  const bool known = std::find(std::begin(kRefusalReasons), std::end(kRefusalReasons), reason) !=
                     std::end(kRefusalReasons);
  const bool out_of = reason.starts_with("OutOf");
  refusals_->Add({{"reason", known ? reason : (out_of ? "OutOfResource" : "Other")}}).Increment();
}

void Metrics::SetWatch(std::string_view watch, bool broken) {
  // 0 says that it is up.
  const std::int64_t now = std::max<std::int64_t>(1, now_ms_());
  const api::MutexLock lock(watches_mutex_);
  std::int64_t& since = watches_[std::string(watch)];
  if (!broken) {
    since = 0;
  } else if (since == 0) {
    since = now;
  }
}

void Metrics::ForgetWatch(std::string_view watch) {
  const api::MutexLock lock(watches_mutex_);
  const auto found = watches_.find(watch);
  if (found != watches_.end()) watches_.erase(found);
}

void Metrics::AddWatches(std::vector<prometheus::MetricFamily>* families) const {
  const std::int64_t now = now_ms_();
  std::vector<Sample> samples;
  {
    const api::MutexLock lock(watches_mutex_);
    for (const auto& [watch, since] : watches_) {
      const std::int64_t broken = since == 0 ? 0 : std::max<std::int64_t>(0, now - since);
      samples.push_back({Number(broken) / 1'000, {{"watch", watch}}});
    }
  }
  families->push_back(Family("numafit_watch_broken_seconds",
                             "For how long a watch of the API server has been down; 0: it is up.",
                             MetricType::Gauge, samples));
}

void Metrics::Watch(Sources sources) {
  scrape_time_->sources = sources;
}

std::string Metrics::Text() {
  std::vector<MetricFamily> families = registry_->Collect();
  for (MetricFamily& family : scrape_time_->Collect()) families.push_back(std::move(family));
  AddWatches(&families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace numafit::extender
