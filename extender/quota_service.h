// Keeps the advice on quotas (workloads/quota.h) and tells it, in metrics and the read API.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/mutex.h"
#include "api/resource_class.h"
#include "cache/fleet.h"
#include "extender/kueue_setup.h"
#include "extender/periodic_thread.h"
#include "workloads/quota.h"

namespace prometheus {
struct MetricFamily;
}

namespace numafit::extender {

// Looks at quotas and fleet on a thread of its own, every 30 seconds. Thread-safe.
class QuotaService {
 public:
  struct Options {
    std::int64_t period_ms = 500;
    std::int64_t advise_ms = 30'000;
    workloads::QuotaAdvisor::Limits limits;
    std::function<std::int64_t()> now_ms;  // monotonic
  };
  // What WorkloadService knows. Thread-safe functions.
  struct Source {
    std::function<absl::Status()> readable;  // WorkloadService::QuotasReadable
    std::function<KueueSetup::Snapshot()> setup;
    std::function<std::vector<workloads::QuotaUse>()> uses;
  };

  // `fleet` outlives it.
  QuotaService(Options options, Source source, const cache::Fleet& fleet,
               const api::ResourceClasses& classes);
  ~QuotaService();

  // Advises when it is time, or goes on with it. Call from one thread at a time.
  void Step();
  // Calls Step until it is destroyed, while `is_current` says that the fleet is.
  void Start(std::function<bool()> is_current);
  // Its thread asks `is_current` no more: for whoever made that. May be repeated.
  void Stop();

  // workloads::ToJson. The state is "current"; "reading": it will be in a moment; "unreadable":
  // "why" has what the API server says; "no-kueue": there is none in the cluster.
  [[nodiscard]] std::string ToJson() const;
  // Of a null service, and while nothing is known: the families without numbers.
  static void AddMetrics(const QuotaService* service,
                         std::vector<prometheus::MetricFamily>* families);

 private:
  void Publish(const absl::Status& status, std::vector<workloads::QuotaAdvice> advice);

  const Options options_;
  const Source source_;
  const cache::Fleet& fleet_;

  mutable api::Mutex mutex_;
  absl::Status status_ NUMAFIT_GUARDED_BY(mutex_);
  std::vector<workloads::QuotaAdvice> advice_ NUMAFIT_GUARDED_BY(mutex_);

  // Of Step alone.
  workloads::QuotaAdvisor advisor_;
  bool is_known_ = false;
  std::int64_t due_ms_ = 0;

  PeriodicThread thread_;  // last: it uses all of the above
};

}  // namespace numafit::extender
