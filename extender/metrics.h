// Every metric of the extender, one member each, resolved at construction.
//
// No label carries a node, Pod or free text: their number is bounded by this file, and by the
// number of ClusterQueues and of what they have a quota of. docs/metrics.md tells people what each
// is for; a test keeps the two lists equal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/mutex.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
template <typename T>
class Family;
struct MetricFamily;
}  // namespace prometheus

namespace numafit::cache {
class Fleet;
class VerdictStore;
}  // namespace numafit::cache

namespace numafit::extender {

namespace http {
struct ServerStats;
}  // namespace http
class Offers;
class QuotaService;
class WorkloadService;

class Metrics {
 public:
  // `now_ms`: a monotonic clock; null: the steady clock.
  explicit Metrics(std::function<std::int64_t()> now_ms = nullptr);
  ~Metrics();

  // --- filter, by result ---
  struct {
    prometheus::Counter* fits;       // some node was answered
    prometheus::Counter* none_fits;  // every node was refused
    prometheus::Counter* passed;     // the Pod asks for no device, every node was passed on
    prometheus::Counter* error;      // answered with Error: the Pod cannot be read
    prometheus::Counter* malformed;  // answered with 400
  } filter_total;
  prometheus::Histogram* filter_seconds;      // from the whole request to the whole answer
  prometheus::Histogram* prioritize_seconds;  // the same for prioritize
  prometheus::Counter* prioritize_total;
  prometheus::Counter* prioritize_malformed_total;

  // --- bind, by result ---
  struct {
    prometheus::Counter* bound;
    prometheus::Counter* refused;  // the gate: it no longer fits
    prometheus::Counter* already;  // it was bound there before (a repeated call)
    prometheus::Counter* error;    // the API server refused, or could not be asked
  } bind_total;
  prometheus::Histogram* bind_seconds;
  prometheus::Counter* bind_retries_total;  // further attempts after a transient error
  prometheus::Counter* bind_unknown_total;  // the API server did not say what became of it
  prometheus::Gauge* bind_unresolved;       // of those, not settled yet
  prometheus::Counter* log_dropped_total;   // decision lines over the rate limit
  prometheus::Counter* watch_interruptions_total;
  // A watch of the API server is down, or up again. `watch` is one of a fixed set of words; a watch
  // that nobody has told about has no sample. Thread-safe.
  void SetWatch(std::string_view watch, bool broken) NUMAFIT_EXCLUDES(watches_mutex_);
  // The watch has ended.
  void ForgetWatch(std::string_view watch) NUMAFIT_EXCLUDES(watches_mutex_);

  // --- preempt, by what became of each proposed node ---
  struct {
    prometheus::Counter* kept;
    prometheus::Counter* widened;    // with more victims
    prometheus::Counter* vetoed;     // its victims would have left in vain
    prometheus::Counter* malformed;  // whole calls, answered with 400
  } preemption_nodes_total;

  // --- NodeReports ---
  struct {
    prometheus::Counter* applied;
    prometheus::Counter* outdated;  // older than the last one
    prometheus::Counter* invalid;   // the log says what is wrong
  } reports_total;
  // NodeResourceTopology objects, nodes that have a report included.
  struct {
    prometheus::Counter* applied;
    prometheus::Counter* invalid;
  } node_resource_topologies_total;
  struct {
    prometheus::Counter* confirmed;  // a Pod has what was foretold
    prometheus::Counter* mismatch;   // ... something else
  } predictions_total;
  struct {
    prometheus::Counter* posted;
    prometheus::Counter* dropped;
  } events_total;
  // A kubelet refused a Pod that the gate had let in, by the kubelet's reason.
  void CountRefusal(const std::string& reason);

  // --- Pods that were refused ---
  struct {
    prometheus::Counter* woken;
    prometheus::Counter* gone;   // the Pod does not exist any more
    prometheus::Counter* error;  // the API server refused, or could not be asked
  } wake_ups_total;
  prometheus::Histogram* wake_up_seconds;  // from the news of room to the next filter call
  prometheus::Gauge* waiting_pods;

  // --- Kueue's Workloads ---
  prometheus::Histogram* workload_flag_seconds;  // from admission to the first flag
  // Verdicts of our AdmissionCheck that were written, by what was said or came of it.
  struct {
    prometheus::Counter* ready;
    prometheus::Counter* retry;
    prometheus::Counter* conflict;  // the Workload had changed: decided again
    prometheus::Counter* error;
  } check_total;
  prometheus::Gauge* check_waiting_workloads;  // for room

  // What is read at scrape time instead of counted. All must outlive this object's Text calls;
  // null parts are left out.
  struct Sources {
    const cache::Fleet* fleet = nullptr;
    const cache::VerdictStore* verdicts = nullptr;
    const Offers* offers = nullptr;
    const http::ServerStats* scheduler_http = nullptr;
    const http::ServerStats* read_http = nullptr;
    const WorkloadService* workloads = nullptr;
    const QuotaService* quotas = nullptr;
  };
  void Watch(Sources sources);

  // The exposition format, text/plain; version=0.0.4.
  [[nodiscard]] std::string Text();

 private:
  class ScrapeTime;
  void AddWatches(std::vector<prometheus::MetricFamily>* families) const
      NUMAFIT_EXCLUDES(watches_mutex_);

  const std::function<std::int64_t()> now_ms_;
  mutable api::Mutex watches_mutex_;
  // Since when it is down; 0: it is up.
  std::map<std::string, std::int64_t, std::less<>> watches_ NUMAFIT_GUARDED_BY(watches_mutex_);
  std::unique_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>* refusals_;
  std::unique_ptr<ScrapeTime> scrape_time_;
};

}  // namespace numafit::extender
