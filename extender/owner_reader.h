// Reads who owns the owners of Pods that nothing else leads to their Workload.
//
// A thread that asks the API server, a few times a second at most, however many there are to ask
// about. Whoever asks keeps the answers; here is only what is to be asked next. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "api/objects.h"
#include "extender/decision_log.h"
#include "kube/client.h"
#include "kube/http/cancel.h"
#include "kube/metadata_reader.h"
#include "workloads/owner_chain.h"

namespace numafit::extender {

class OwnerReader {
 public:
  struct Options {
    std::int64_t pause_ms = 200;            // between two objects
    std::int64_t after_failure_ms = 2'000;  // when the API server is away, or has no time for us
  };
  // Everything outlives it.
  struct Parts {
    kube::Client& client;
    DecisionLog& log;
  };
  // Called on the thread. No controller: the object has none, is gone, or must not be read; the
  // last is logged once per kind. A question whose answer did not come is not told: it is asked
  // again.
  using Tell = std::function<void(const workloads::OwnerQuestion&,
                                  std::optional<api::OwnerReference> controller)>;

  OwnerReader(Options options, Parts parts, Tell tell);
  ~OwnerReader();
  OwnerReader(const OwnerReader&) = delete;
  OwnerReader& operator=(const OwnerReader&) = delete;

  // What is to be asked from now on, in this order, in place of what has not been asked yet.
  void Ask(std::vector<workloads::OwnerQuestion> questions);

 private:
  void Run();
  // False: there was no answer.
  bool Read(const workloads::OwnerQuestion& question);
  void LogRefusal(const workloads::OwnerQuestion& question, const absl::Status& status);

  const Options options_;
  const Parts parts_;
  const Tell tell_;
  kube::Cancel cancel_;

  // Of the thread alone.
  kube::MetadataReader reader_;
  std::set<std::string> refused_;  // kinds, as logged

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<workloads::OwnerQuestion> waiting_;  // under mutex_
  std::string reading_;                           // a uid; under mutex_
  bool stopping_ = false;                         // under mutex_
  std::thread thread_;
};

}  // namespace numafit::extender
