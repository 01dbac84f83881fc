// Kueue's side of the extender: which admitted Workloads cannot be placed, told in metrics, Events,
// the log and the read API.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/mutex.h"
#include "api/objects.h"
#include "api/workload.h"
#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/event_poster.h"
#include "extender/metrics.h"
#include "extender/pod_question.h"
#include "kube/client.h"
#include "workloads/tracker.h"
#include "workloads/workload_index.h"

namespace prometheus {
struct MetricFamily;
}

namespace numafit::extender {

// Watches Workloads from when Kueue is found in the cluster (looked for once a minute); Pods are
// brought by ClusterSync. Looks at all of them on a thread of its own, when something has changed
// and, while there are Pods without a place, once a second. Thread-safe.
class WorkloadService {
 public:
  struct Options {
    std::int64_t period_ms = 500;
    std::int64_t look_for_kueue_ms = 60'000;
    workloads::Tracker::Options tracker;
    std::function<std::int64_t()> now_ms;   // monotonic
    std::function<std::int64_t()> wall_ms;  // since the epoch
  };
  // Everything outlives it.
  struct Parts {
    kube::Client& client;
    const cache::Fleet& fleet;
    const PodRules& rules;
    EventPoster& events;
    Metrics& metrics;
    DecisionLog& log;
  };

  WorkloadService(Options options, Parts parts);
  ~WorkloadService();

  // --- news of all Pods, with and without a node ---
  void ReplacePods(const std::vector<api::Pod>& pods);
  void SeePod(const api::Pod& pod);
  void ForgetPod(std::string_view uid);

  // Looks for Kueue if need be and looks at all Workloads. Call from one thread at a time.
  void Step();
  // Calls Step until it is destroyed; nothing is flagged while `is_current` says no.
  void Start(std::function<bool()> is_current);

  // workloads/status_json.h
  [[nodiscard]] std::string ToJson(bool all, std::string_view only) const;
  // Of a null service: the same families, without Workloads.
  static void AddMetrics(const WorkloadService* service,
                         std::vector<prometheus::MetricFamily>* families);

 private:
  void LookForKueue();
  void Watch(const std::string& version);
  void Take(api::Workload workload) NUMAFIT_EXCLUDES(mutex_);
  void Raise(const workloads::Flag& flag, std::int64_t now);

  const Options options_;
  const Parts parts_;

  mutable api::Mutex mutex_;
  workloads::WorkloadIndex index_ NUMAFIT_GUARDED_BY(mutex_);
  bool changed_ NUMAFIT_GUARDED_BY(mutex_) = false;
  bool lost_ NUMAFIT_GUARDED_BY(mutex_) = false;  // Kueue's API is not there (any more)
  // As of the last round.
  std::vector<workloads::WorkloadStatus> statuses_ NUMAFIT_GUARDED_BY(mutex_);
  std::vector<workloads::Flag> flags_ NUMAFIT_GUARDED_BY(mutex_);

  // Of Step alone.
  workloads::Tracker tracker_;
  std::string version_;  // of Kueue's API; empty: not found
  std::string said_;     // why it was not found, as logged
  std::int64_t look_ms_ = 0;
  std::int64_t last_round_ms_ = 0;
  bool waiting_ = false;  // Pods without a place, or flags
  std::unique_ptr<kube::Watch> watch_;

  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace numafit::extender
