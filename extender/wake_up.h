// Nobody is forgotten: speaks up for Pods that were refused and would fit now.
//
// kube-scheduler asks again about a refused Pod when *it* sees an event, once. If our news is some
// milliseconds behind, the answer is still no, no further event comes, and the Pod waits for up to
// five minutes beside free devices. The same where room grows without an event that the scheduler
// knows: a reservation given back, a node that is no longer settling, the news of a whole outage.
// And with a sampled fleet the scheduler may not have offered the node that fits. A new value of
// the annotation numafit.io/woken on the Pod makes the scheduler ask again, about it alone
// (docs/extender-protocol.md).
//
// Steps, every `period_ms` (which is also the time in which many changes become one):
//   1. see which nodes have changed;
//   2. ask, once per demand shape, whether some node fits now: the verdicts are those of filter;
//   3. wake the Pods of which that is true and
//      - a node that fits has changed since they were asked about, or
//      - they were offered a part of the fleet only, and were not woken more often than there are
//        such parts;
//      highest priority first, then in the order in which they were asked about.
// Why a Pod is refused again although some node fits cannot be seen from here (a node selector, a
// taint …), so each wake doubles the time to its next, from 1 s to 60 s; when nothing fits the
// doubling begins anew. At most `per_second` wakes a second for all Pods together, without a burst:
// when the first Pod has taken the room, the others are left in peace.
//
// Thread-safe. Filter only ever waits for a look-up in a map; judging and patching is done on a
// thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/mutex.h"
#include "api/objects.h"
#include "cache/fleet.h"
#include "cache/verdicts.h"
#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "extender/periodic_thread.h"
#include "extender/pod_question.h"
#include "kube/client.h"

namespace numafit::extender {

inline constexpr char kWokenAnnotation[] = "numafit.io/woken";

class WakeUp {
 public:
  struct Options {
    std::size_t capacity = 4'096;  // Pods; the one asked about longest ago is forgotten; 0: off
    int per_second = 50;
    std::int64_t period_ms = 200;
    std::int64_t first_pause_ms = 1'000;
    std::int64_t max_pause_ms = 60'000;
    // kube-scheduler asks about a waiting Pod every 5.5 minutes at the least; one that nobody has
    // asked about for this long is gone.
    std::int64_t forget_after_ms = 600'000;
    std::function<std::int64_t()> now_ms;   // monotonic
    std::function<std::int64_t()> wall_ms;  // the annotation's value
  };
  // Everything outlives it.
  struct Parts {
    const cache::Fleet& fleet;
    cache::VerdictStore& verdicts;
    kube::Client& client;
    Metrics& metrics;
    DecisionLog& log;
  };

  WakeUp(Options options, Parts parts);
  ~WakeUp();

  // Take it before looking at the fleet and pass it to Refused: changes from then on count as news.
  [[nodiscard]] std::uint64_t moment() const { return moment_.load(std::memory_order_acquire); }
  // No node of the `offered` ones fits. A no-op for an empty uid.
  void Refused(const api::Pod& pod, const PodQuestion& question, std::size_t offered,
               std::uint64_t moment);
  // Some node fits. A no-op for a Pod that does not wait.
  void Fits(std::string_view uid);
  // The Pod has a node, or it is gone.
  void Forget(std::string_view uid);
  [[nodiscard]] std::size_t waiting() const;

  // One round. Call from one thread at a time.
  void Step();
  // Calls Step until Stop, while `may_wake` says yes: on old news nobody must be woken.
  void Start(std::function<bool()> may_wake);
  void Stop();

 private:
  struct Asked {
    std::string pod_namespace;
    std::string name;
    std::string uid;
    std::int32_t priority = 0;
    std::string key;
    PodQuestion question;
  };
  struct Waiting {
    std::shared_ptr<const Asked> asked;
    std::int64_t asked_ms = 0;
    std::uint64_t moment = 0;  // of the last refusal
    std::size_t parts = 1;     // offers it takes to see the whole fleet
    std::size_t wakes = 0;     // since the last time that nothing fitted
    std::int64_t not_before_ms = 0;
    // When the room came for which somebody tried to wake it, until it is asked about again; 0:
    // nobody did.
    std::int64_t room_since_ms = 0;
  };
  // Whether Pods of one group fit.
  struct Room {
    bool fits = false;
    std::uint64_t changed = 0;    // the last change of a node that fits
    std::int64_t changed_ms = 0;  // when it was seen
  };
  struct Change {
    std::uint64_t moment = 0;
    std::int64_t at_ms = 0;
  };
  struct Chosen {
    std::shared_ptr<const Asked> asked;
    std::int64_t room_since_ms = 0;
  };
  using Rooms = absl::flat_hash_map<std::string_view, Room>;

  bool TakeNews(std::int64_t now) NUMAFIT_EXCLUDES(mutex_);
  void Observe(std::int64_t now);
  std::vector<Waiting> Snapshot() const NUMAFIT_EXCLUDES(mutex_);
  Rooms Judge(const std::vector<Waiting>& pods);
  // Pods with equal ones have the same answer.
  [[nodiscard]] std::string_view GroupOf(const Asked& asked) const {
    return has_nominees_ ? asked.uid : asked.key;
  }
  [[nodiscard]] Room JudgeGroup(const Asked& asked) const;
  std::vector<Chosen> Choose(const std::vector<Waiting>& pods, const Rooms& rooms, std::int64_t now)
      NUMAFIT_EXCLUDES(mutex_);
  void WakeSome(const std::vector<Chosen>& pods, std::int64_t now);
  // False: the API server is better left alone for a while.
  bool Wake(const Chosen& pod, std::int64_t now) NUMAFIT_EXCLUDES(mutex_);
  // The scheduler asks about it again.
  void Measure(Waiting& waiting, std::int64_t now) NUMAFIT_REQUIRES(mutex_);
  [[nodiscard]] std::int64_t Pause(int times) const;
  void Erase(std::string_view uid) NUMAFIT_REQUIRES(mutex_);
  void LookAgain(std::int64_t at_ms) { look_ms_ = at_ms < look_ms_ ? at_ms : look_ms_; }

  const Options options_;
  Parts parts_;

  mutable api::Mutex mutex_;
  // Asked about longest ago first.
  std::list<Waiting> order_ NUMAFIT_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::list<Waiting>::iterator> by_uid_ NUMAFIT_GUARDED_BY(mutex_);
  bool news_ NUMAFIT_GUARDED_BY(mutex_) = false;  // somebody was refused since the last round
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> moment_{1};

  // Of Step alone.
  std::vector<std::uint64_t> seen_;  // changes by node
  std::vector<Change> changed_;      // by node: its last change
  bool any_changed_ = false;
  bool has_nominees_ = false;         // room is kept from some and not from others
  std::int64_t look_ms_ = 0;          // look again then, changes or not
  std::int64_t paid_ms_ = 0;          // wakes up to this time are paid for
  std::int64_t patches_from_ms_ = 0;  // none before: the last ones failed
  int failures_ = 0;
  std::size_t turn_ = 0;

  PeriodicThread thread_;  // last: it uses all of the above
};

}  // namespace numafit::extender
