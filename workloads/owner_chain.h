// Who owns the owners of Pods, as far as somebody has read it from the API server.
//
// Where Kueue writes nothing on Pods (a kind that it does not know, or topology-aware scheduling
// switched off) only the chain of controllers leads to the Workload: Pod, Job, JobSet. A Pod names
// the first of them; who is above has to be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/objects.h"

namespace numafit::workloads {

// What to read: the controller of this object.
struct OwnerQuestion {
  std::string namespace_;
  api::OwnerReference owner;
};

// Not thread-safe. Times are seconds since the epoch.
class OwnerChains {
 public:
  // So many objects are read on the way up from a Pod: Job, JobSet, TrainJob, AppWrapper.
  static constexpr std::size_t kMostReads = 4;
  // "Nobody" may change: rights are given, objects adopted.
  static constexpr std::int64_t kNobodyHolds = 600;
  static constexpr std::size_t kMostOwners = 20'000;  // then the oldest are forgotten

  // The answer about the object with this uid. Nobody: it has no controller, it is gone, or it must
  // not be read.
  void Learn(const std::string& uid, std::optional<api::OwnerReference> controller,
             std::int64_t now);
  // The uids of those above a Pod's controller, nearest first, as far as known.
  [[nodiscard]] std::vector<std::string> Above(const api::OwnerReference& controller) const;
  // Whose controller to read to know more of them; none: the chain is known to its end, or as far
  // as it is followed.
  struct Unread {
    api::OwnerReference owner;
    bool is_new = false;  // never answered; else its "nobody" is old
  };
  [[nodiscard]] std::optional<Unread> NextUnread(const api::OwnerReference& controller,
                                                 std::int64_t now) const;

 private:
  struct Answer {
    std::optional<api::OwnerReference> controller;
    std::int64_t learned = 0;
  };
  absl::flat_hash_map<std::string, Answer> answers_;  // by uid
  std::deque<std::string> order_;                     // of answers_, the oldest first
};

}  // namespace numafit::workloads
