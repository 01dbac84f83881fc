// Whether the agent does its work: what the kubelet's probes ask.
//
// Liveness is about the loop (it looks at the node again and again), readiness about the report:
// the extender takes a node's report for current while its agent's Pod is ready.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "api/mutex.h"

namespace numafit::agent {

// Thread-safe: the loop tells, probes ask. Times are of the steady clock.
class Health {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `patience`: how old the last look may be.
  explicit Health(std::chrono::milliseconds patience, Time now);

  // The node has been looked at.
  void Looked(Time now);
  // After each attempt to publish. `pending`: the newest report has not arrived yet.
  void Published(bool pending, Time now);

  // Empty when all is well, else what is wrong, for people.
  [[nodiscard]] std::string WhyNotAlive(Time now) const;
  // Also when nothing was ever published, and when what is new could not be published for a while:
  // then the report that others see is not what the agent sees.
  [[nodiscard]] std::string WhyNotReady(Time now) const;

 private:
  const std::chrono::milliseconds patience_;
  mutable api::Mutex mutex_;
  Time looked_ NUMAFIT_GUARDED_BY(mutex_);
  bool ever_published_ NUMAFIT_GUARDED_BY(mutex_) = false;
  std::optional<Time> pending_since_ NUMAFIT_GUARDED_BY(mutex_);
};

}  // namespace numafit::agent
