// Kueue's side of the extender: which admitted Workloads cannot be placed, told in metrics, Events,
// the log and the read API.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "api/mutex.h"
#include "api/objects.h"
#include "api/workload.h"
#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/event_poster.h"
#include "extender/kueue_setup.h"
#include "extender/metrics.h"
#include "extender/owner_reader.h"
#include "extender/periodic_thread.h"
#include "extender/pod_question.h"
#include "kube/client.h"
#include "workloads/cause.h"
#include "workloads/quota.h"
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
    OwnerReader::Options owners;
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

  // --- for the AdmissionCheck (check_service.h) ---
  // Changes with every change of Workloads, their Pods, and what administrators have set up.
  [[nodiscard]] std::uint64_t changes() const;
  // The version of Kueue's API; empty while not everything has been read.
  [[nodiscard]] std::string KueueVersion() const;
  [[nodiscard]] KueueSetup::Snapshot Setup() const;
  [[nodiscard]] std::vector<workloads::QuotaHolder> QuotaHolders() const;

  // --- for the advice on quotas (quota_service.h) ---
  // OK: Kueue's queues and flavors, the Nodes and the Workloads have been read. NotFound: there is
  // no Kueue. Unavailable: that is not known yet, or they are still being read. Else what the API
  // server says.
  [[nodiscard]] absl::Status QuotasReadable() const;
  [[nodiscard]] std::vector<workloads::QuotaUse> QuotaUses() const;

  // Looks for Kueue if need be and looks at all Workloads. Call from one thread at a time.
  void Step();
  // Calls Step until it is destroyed; nothing is flagged while `is_current` says no.
  void Start(std::function<bool()> is_current);
  // Its thread asks `is_current` no more: for whoever made that. May be repeated.
  void Stop();

  // workloads/status_json.h
  [[nodiscard]] std::string ToJson(bool all, std::string_view only) const;
  // Of a null service: the same families, without Workloads.
  static void AddMetrics(const WorkloadService* service,
                         std::vector<prometheus::MetricFamily>* families);

 private:
  // What a round has found.
  struct Round {
    std::vector<workloads::WorkloadStatus> statuses;
    std::vector<workloads::Flag> flags;
  };

  void LookForKueue();
  void Watch(const std::string& version);
  void Take(api::Workload workload) NUMAFIT_EXCLUDES(mutex_);
  void Raise(const workloads::Flag& flag, std::int64_t now);
  // Seconds since the epoch.
  [[nodiscard]] std::int64_t Now() const { return options_.wall_ms() / 1'000; }
  [[nodiscard]] std::shared_ptr<const Round> Last() const NUMAFIT_EXCLUDES(mutex_);

  const Options options_;
  const Parts parts_;

  mutable api::Mutex mutex_;
  workloads::WorkloadIndex index_ NUMAFIT_GUARDED_BY(mutex_);
  bool lost_ NUMAFIT_GUARDED_BY(mutex_) = false;   // Kueue's API is not there (any more)
  std::string listed_ NUMAFIT_GUARDED_BY(mutex_);  // the version whose Workloads have been read
  std::atomic<std::uint64_t> setup_changes_{0};
  std::shared_ptr<KueueSetup> setup_ NUMAFIT_GUARDED_BY(mutex_);
  // Of the last look for Kueue, and of the watch of Workloads.
  absl::Status found_ NUMAFIT_GUARDED_BY(mutex_) =
      absl::UnavailableError("nobody has looked for Kueue yet");
  absl::Status watched_ NUMAFIT_GUARDED_BY(mutex_);
  // Never null. Readers keep the one that they have begun with: the watch of Pods waits for the
  // lock, and is not to wait for what they make of it.
  std::shared_ptr<const Round> last_ NUMAFIT_GUARDED_BY(mutex_);

  // Of Step alone.
  workloads::CauseFinder causes_;
  workloads::Tracker tracker_;
  std::string version_;  // of Kueue's API; empty: not found
  std::string said_;     // why it was not found, as logged
  std::int64_t look_ms_ = 0;
  std::uint64_t seen_version_ = 0;  // of the index
  std::int64_t last_round_ms_ = 0;
  bool waiting_ = false;  // Pods without a place, or flags
  std::unique_ptr<kube::Watch> watch_;
  OwnerReader owners_;  // its thread uses the index

  PeriodicThread thread_;  // last: it uses all of the above
};

}  // namespace numafit::extender
