// Posts Events without making anybody wait.
//
// A queue and a thread. Nothing depends on an Event, so a full queue drops the newest and a failed
// post is tried a few times and then dropped; both are counted. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "kube/client.h"

namespace numafit::extender {

class EventPoster {
 public:
  struct Options {
    std::size_t capacity = 1'000;
    int attempts = 4;
    std::int64_t pause_ms = 1'000;  // after a failure
  };
  // Everything outlives it.
  struct Parts {
    kube::Client& client;
    Metrics& metrics;
    DecisionLog& log;
  };
  EventPoster(Options options, Parts parts);
  // Drops what is still waiting.
  ~EventPoster();

  void Post(kube::EventRequest event);

 private:
  void Run();
  // False: it is to be tried again.
  bool Deliver(const kube::EventRequest& event, int attempt);

  const Options options_;
  const Parts parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<kube::EventRequest> waiting_;  // under mutex_
  bool stopping_ = false;                   // under mutex_
  std::thread thread_;
};

}  // namespace numafit::extender
