// bind: the gate. Two Pods that were offered the same room are never both bound to it.
//
// Steps: find what the Pod asks for (filter remembered it, else the API server is asked); reserve
// it on the node under the Fleet's lock, which judges it against everything known; POST the binding
// with the placement annotation; answer only after the API server has; then make the reservation
// predicted usage, or give it back.
//
// When the API server does not answer, the bind may have happened: the Pod is read before anything
// else is done, and as long as nobody can say, its room stays reserved and Settle goes on asking. A
// conflict (409) whose Pod is on this node already is success: kube-scheduler repeats calls.
//
// Thread-safe; calls block for as long as the API server takes, within `budget_ms`. One bind of a
// Pod at a time: a second call for the same Pod waits for the first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "api/extender.h"
#include "api/mutex.h"
#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "extender/offers.h"
#include "extender/pod_memory.h"
#include "extender/pod_question.h"
#include "extender/scheduler_service.h"
#include "kube/client.h"

namespace numafit::extender {

class BindGate {
 public:
  struct Options {
    PodRules rules;
    UnknownNodes unknown_nodes = UnknownNodes::kRefuse;
    // For one call in all; below the httpTimeout of kube-scheduler's extender (5 s by default).
    std::int64_t budget_ms = 4'000;
    std::int64_t first_pause_ms = 50;  // doubles from attempt to attempt
    std::function<std::int64_t()> now_ms;
    std::function<void(std::int64_t)> sleep_ms;
  };
  struct Parts {
    cache::Fleet& fleet;
    kube::Client& client;
    Offers& offers;
    PodMemory& pods;
    Metrics& metrics;
    DecisionLog& log;
  };
  enum class Result { kBound, kRefused, kAlready, kError };
  struct Answer {
    Result result = Result::kError;
    std::string error;  // empty when the Pod is on the node
  };

  BindGate(Options options, Parts parts);

  Answer Bind(const api::ExtenderBindingArgs& args);
  void Serve(const http::Request& request, http::Response& response);

  // Asks the API server about the binds of which it did not say what became of them. Call about
  // once a second. Returns how many are still open.
  std::size_t Settle();

 private:
  // Where the API server says the Pod is.
  enum class Place { kHere, kElsewhere, kNowhere, kGone, kUnknown };
  class Turn;

  struct Found {
    bool ok = false;
    policy::Demand demand;
    std::int32_t priority = 0;
    std::string error;
  };
  Found FindDemand(const api::ExtenderBindingArgs& args);
  Answer Post(const kube::BindRequest& request);
  Place Locate(const kube::BindRequest& request);
  void Record(const api::ExtenderBindingArgs& args, const Answer& answer, std::int64_t began_ms);

  const Options options_;
  Parts parts_;

  std::mutex turn_mutex_;
  std::condition_variable turn_changed_;
  absl::flat_hash_set<std::string> in_turn_;

  api::Mutex open_mutex_;
  std::vector<kube::BindRequest> open_ NUMAFIT_GUARDED_BY(open_mutex_);
};

}  // namespace numafit::extender
