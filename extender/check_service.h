// The controller of Kueue's AdmissionCheck numafit.io/topology-capacity: keeps Workloads from being
// admitted past what can be placed. Optional, off by default. docs/admission-check.md
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/kueue_setup.h"
#include "extender/metrics.h"
#include "extender/periodic_thread.h"
#include "kube/client.h"
#include "policy/score/score_strategy.h"
#include "workloads/admission_check.h"
#include "workloads/workload_index.h"

namespace numafit::extender {

// Decides on a thread of its own, when Workloads, Pods, Kueue's objects or the fleet have changed.
// Level-triggered: what it writes follows from what is there, so nothing is lost by a restart; a
// Workload that it let in and whose Pods have no node yet is found by its Ready.
class CheckService {
 public:
  struct Options {
    std::int64_t period_ms = 500;
    // Between two messages to a Workload that goes on waiting.
    std::int64_t message_ms = 5'000;
    // Writes in one round; the others have their turn in the next one.
    int writes = 100;
    workloads::CheckOptions check;
    const policy::ScoreStrategy* strategy = nullptr;  // by which the scheduler is answered
    std::function<std::int64_t()> now_ms;             // monotonic
    std::function<std::int64_t()> wall_ms;            // since the epoch
  };
  // What WorkloadService knows. Thread-safe functions.
  struct Source {
    // Changes with every change of what the others return.
    std::function<std::uint64_t()> version;
    // Of Kueue's API; empty: not found, or its objects have not been read yet.
    std::function<std::string()> kueue;
    std::function<KueueSetup::Snapshot()> setup;
    std::function<std::vector<workloads::QuotaHolder>()> holders;
  };
  // Everything outlives it.
  struct Parts {
    kube::Client& client;
    const cache::Fleet& fleet;
    Metrics& metrics;
    DecisionLog& log;
  };

  CheckService(Options options, Source source, Parts parts);
  ~CheckService();

  // One round. Call from one thread at a time.
  void Step();
  // Calls Step until it is destroyed, while `is_current` says that the fleet is.
  void Start(std::function<bool()> is_current);
  // Its thread asks `is_current` no more: for whoever made that. May be repeated.
  void Stop();

 private:
  // A verdict that was written and that the watch has not shown yet: it counts as said. So does one
  // of which the API server has not told what became of it, because it may have been taken; it is
  // sent again until that is known.
  struct Written {
    kube::CheckStateRequest request;
    bool certain = false;
  };
  using Key = std::pair<std::string, std::string>;  // the Workload's uid, the check's name

  [[nodiscard]] bool IsDue();
  // The names of our checks.
  std::set<std::string> KeepActive(const std::string& version,
                                   const std::map<std::string, api::AdmissionCheck>& all);
  void DecideAll(const std::string& version, const KueueSetup::Snapshot& setup,
                 const std::set<std::string>& checks);
  void AddOwnWrites(std::vector<workloads::QuotaHolder>& holders);
  // Sends it, and keeps it while it counts as said.
  absl::Status Send(const Key& key, kube::CheckStateRequest request);
  void NoteWrite(const absl::Status& status);
  [[nodiscard]] bool IsWorthWriting(const workloads::QuotaHolder& holder,
                                    const workloads::CheckVerdict& verdict);
  void Write(const std::string& version, const workloads::QuotaHolder& holder,
             const workloads::CheckVerdict& verdict);

  const Options options_;
  const Source source_;
  const Parts parts_;

  // Of Step alone.
  std::map<Key, Written> written_;
  std::map<Key, std::int64_t> told_ms_;
  std::uint64_t seen_version_ = 0;
  std::uint64_t seen_fleet_ = 0;
  std::int64_t last_round_ms_ = 0;  // when it ended
  std::int64_t round_took_ms_ = 0;
  bool unfinished_ = true;  // the last round left something to do
  std::string error_;       // of the last write that failed, as logged

  PeriodicThread thread_;  // last: it uses all of the above
};

}  // namespace numafit::extender
