#include "extender/wake_up.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "cache/judge.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"

namespace numafit::extender {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// Filter calls are let in between so many nodes.
constexpr std::size_t kChunk = 512;
// Of one round: fewer than the verdict store keeps, whose other shapes are those of new Pods.
constexpr std::size_t kShapesPerRound = 64;
// A node selector looks like a small sample from here, so that there is a bound to trying.
constexpr std::size_t kMaxParts = 16;

std::size_t PartsOf(std::size_t fleet, std::size_t offered) {
  if (offered == 0) return 1;
  return std::clamp<std::size_t>((fleet + offered - 1) / offered, 1, kMaxParts);
}

}  // namespace

WakeUp::WakeUp(Options options, Parts parts) : options_(std::move(options)), parts_(parts) {}

WakeUp::~WakeUp() = default;

void WakeUp::Refused(const api::Pod& pod, const PodQuestion& question, std::size_t offered,
                     std::uint64_t moment) {
  const std::string& uid = pod.metadata.uid;
  if (uid.empty() || options_.capacity == 0) return;
  std::string key = question.Key();
  const std::int64_t now = options_.now_ms();
  const std::size_t parts = PartsOf(parts_.fleet.size(), offered);

  const api::MutexLock lock(mutex_);
  news_ = true;
  auto found = by_uid_.find(uid);
  if (found != by_uid_.end() && found->second->asked->key != key) {
    // It asks for something else now.
    Erase(uid);
    found = by_uid_.end();
  }
  if (found != by_uid_.end()) {
    order_.splice(order_.end(), order_, found->second);
  } else {
    if (order_.size() >= options_.capacity) Erase(order_.front().asked->uid);
    order_.push_back({.asked = std::make_shared<const Asked>(
                          Asked{pod.metadata.namespace_, pod.metadata.name, uid, pod.priority,
                                std::move(key), question})});
    by_uid_[uid] = std::prev(order_.end());
  }
  Waiting& waiting = order_.back();
  Measure(waiting, now);
  waiting.asked_ms = now;
  waiting.moment = moment;
  waiting.parts = parts;
  count_ = order_.size();
  parts_.metrics.waiting_pods->Set(static_cast<double>(order_.size()));
}

void WakeUp::Fits(std::string_view uid) {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const std::int64_t now = options_.now_ms();
  const api::MutexLock lock(mutex_);
  const auto found = by_uid_.find(std::string(uid));
  if (found == by_uid_.end()) return;
  Measure(*found->second, now);
  Erase(uid);
}

void WakeUp::Measure(Waiting& waiting, std::int64_t now) {
  const std::int64_t since = std::exchange(waiting.room_since_ms, 0);
  if (since == 0) return;
  parts_.metrics.wake_up_seconds->Observe(static_cast<double>(now - since) / 1'000);
}

void WakeUp::Forget(std::string_view uid) {
  // Most Pods never wait.
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const api::MutexLock lock(mutex_);
  Erase(uid);
}

void WakeUp::Erase(std::string_view uid) {
  const auto found = by_uid_.find(std::string(uid));
  if (found == by_uid_.end()) return;
  const auto entry = found->second;
  by_uid_.erase(found);
  order_.erase(entry);
  count_ = order_.size();
  parts_.metrics.waiting_pods->Set(static_cast<double>(order_.size()));
}

std::size_t WakeUp::waiting() const {
  return count_;
}

void WakeUp::Step() {
  const std::int64_t now = options_.now_ms();
  const bool news = TakeNews(now);
  if (waiting() == 0) return;
  Observe(now);
  if (!any_changed_ && !news && now < look_ms_) return;
  look_ms_ = kNever;
  const std::vector<Waiting> pods = Snapshot();
  WakeSome(Choose(pods, Judge(pods), now), now);
}

// Also forgets those that nobody asks about any more.
bool WakeUp::TakeNews(std::int64_t now) {
  const api::MutexLock lock(mutex_);
  while (!order_.empty() && order_.front().asked_ms + options_.forget_after_ms <= now) {
    Erase(std::string(order_.front().asked->uid));
  }
  return std::exchange(news_, false);
}

std::vector<WakeUp::Waiting> WakeUp::Snapshot() const {
  const api::MutexLock lock(mutex_);
  return {order_.begin(), order_.end()};
}

void WakeUp::Observe(std::int64_t now) {
  const std::uint64_t next = moment() + 1;
  any_changed_ = false;
  {
    const cache::Fleet::ReadGuard guard(parts_.fleet);
    const std::size_t nodes = parts_.fleet.size();
    // They are counted from 1: in the first round every node has changed. State ids would not do: a
    // node that is full and empty again between two looks has the id that it had.
    seen_.resize(nodes);
    changed_.resize(nodes);
    has_nominees_ = parts_.fleet.HasNominees(guard);
    const std::uint64_t* const changes = parts_.fleet.Changes(guard);
    for (std::size_t i = 0; i < nodes; ++i) {
      if (std::exchange(seen_[i], changes[i]) == changes[i]) continue;
      changed_[i] = {next, now};
      any_changed_ = true;
    }
  }
  // After the look: whoever takes this moment sees at least what was seen here.
  if (any_changed_) moment_.store(next, std::memory_order_release);
}

WakeUp::Rooms WakeUp::Judge(const std::vector<Waiting>& pods) {
  std::vector<const Asked*> shapes;
  absl::flat_hash_set<std::string_view> keys;
  for (const Waiting& waiting : pods) {
    if (keys.insert(GroupOf(*waiting.asked)).second) shapes.push_back(waiting.asked.get());
  }
  const std::size_t count = std::min(shapes.size(), kShapesPerRound);
  Rooms rooms;
  for (std::size_t i = 0; i < count; ++i) {
    const Asked& asked = *shapes[(turn_ + i) % shapes.size()];
    rooms[GroupOf(asked)] = JudgeGroup(asked);
  }
  if (count < shapes.size()) {
    turn_ = (turn_ + count) % shapes.size();
    LookAgain(0);
  }
  return rooms;
}

WakeUp::Room WakeUp::JudgeGroup(const Asked& asked) const {
  Room room;
  const cache::Fleet& fleet = parts_.fleet;
  const std::size_t nodes = fleet.size();
  for (std::size_t begin = 0; begin < nodes; begin += kChunk) {
    const cache::Fleet::ReadGuard guard(fleet);
    const std::uint64_t* const ids = fleet.StateIds(guard);
    cache::VerdictStore::Session session(parts_.verdicts, asked.key, nodes);
    for (std::size_t i = begin; i < std::min(nodes, begin + kChunk); ++i) {
      const int index = static_cast<int>(i);
      const cache::Verdict verdict = session.At(index, ids[i], [&] {
        const policy::Judgement judgement = cache::JudgeOnNode(
            *fleet.State(guard, index), asked.question.demand, asked.question.strategy);
        return cache::Verdict{judgement.score, judgement.reason};
      });
      if (!verdict.fits()) continue;
      const cache::Nominees* const nominees =
          has_nominees_ ? fleet.NomineesOf(guard, index) : nullptr;
      if (nominees != nullptr && !nominees->LeavesRoom(*fleet.State(guard, index), asked.uid,
                                                       asked.priority, asked.question.demand)) {
        continue;
      }
      room.fits = true;
      if (room.changed > changed_[i].moment) continue;
      room.changed = changed_[i].moment;
      room.changed_ms = changed_[i].at_ms;
    }
    if (room.changed == moment()) break;  // nothing is newer
  }
  return room;
}

std::vector<WakeUp::Chosen> WakeUp::Choose(const std::vector<Waiting>& pods, const Rooms& rooms,
                                           std::int64_t now) {
  std::vector<Chosen> chosen;
  for (const Waiting& waiting : pods) {
    const auto found = rooms.find(GroupOf(*waiting.asked));
    if (found == rooms.end()) continue;
    const Room& room = found->second;
    if (!room.fits) {
      if (waiting.wakes > 0) {
        const api::MutexLock lock(mutex_);
        const auto entry = by_uid_.find(waiting.asked->uid);
        if (entry != by_uid_.end()) entry->second->wakes = 0;
      }
      continue;
    }
    const bool grown = room.changed > waiting.moment;
    const bool unseen = waiting.parts > 1 && waiting.wakes < waiting.parts;
    if (!grown && !unseen) continue;
    if (waiting.not_before_ms > now) {
      LookAgain(waiting.not_before_ms);
    } else {
      chosen.push_back({waiting.asked, grown ? room.changed_ms : waiting.asked_ms});
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const Chosen& a, const Chosen& b) {
    return a.asked->priority > b.asked->priority;
  });
  return chosen;
}

void WakeUp::WakeSome(const std::vector<Chosen>& pods, std::int64_t now) {
  if (now < patches_from_ms_) {
    if (!pods.empty()) LookAgain(patches_from_ms_);
    return;
  }
  const std::int64_t price = std::max<std::int64_t>(1, 1'000 / std::max(1, options_.per_second));
  paid_ms_ = std::max(paid_ms_, now - std::max(options_.period_ms, price));
  for (const Chosen& pod : pods) {
    if (paid_ms_ + price > now) {
      LookAgain(paid_ms_ + price);
      return;
    }
    paid_ms_ += price;
    if (Wake(pod, now)) continue;
    // The API server is away or says no: it is not asked once per Pod.
    failures_ = std::min(failures_ + 1, 16);
    patches_from_ms_ = now + Pause(failures_);
    LookAgain(patches_from_ms_);
    return;
  }
}

bool WakeUp::Wake(const Chosen& pod, std::int64_t now) {
  const Asked& asked = *pod.asked;
  {
    // Before: the scheduler may ask before the API server's answer is here.
    const api::MutexLock lock(mutex_);
    const auto entry = by_uid_.find(asked.uid);
    if (entry != by_uid_.end() && entry->second->room_since_ms == 0) {
      entry->second->room_since_ms = pod.room_since_ms;
    }
  }
  const absl::Status status =
      parts_.client.AnnotatePod(asked.pod_namespace, asked.name, asked.uid, kWokenAnnotation,
                                std::to_string(options_.wall_ms()));
  if (absl::IsNotFound(status) || absl::IsInvalidArgument(status)) {
    // Gone, or another one of that name.
    parts_.metrics.wake_ups_total.gone->Increment();
    Forget(asked.uid);
    return true;
  }
  if (!status.ok() && !absl::IsAborted(status)) {
    parts_.metrics.wake_ups_total.error->Increment();
    parts_.log.Write(LogLevel::kWarn, LogLine("wake-up")
                                          .Text("pod", asked.pod_namespace + "/" + asked.name)
                                          .Text("result", "error")
                                          .Text("error", std::string(status.message())));
    return false;
  }
  // A conflict is somebody else's change to the Pod, or another one of its name: that has its own
  // next try, or none.
  (status.ok() ? parts_.metrics.wake_ups_total.woken : parts_.metrics.wake_ups_total.error)
      ->Increment();
  failures_ = 0;
  {
    const api::MutexLock lock(mutex_);
    const auto entry = by_uid_.find(asked.uid);
    if (entry != by_uid_.end()) {
      Waiting& waiting = *entry->second;
      waiting.not_before_ms = now + Pause(static_cast<int>(++waiting.wakes));
    }
  }
  if (!parts_.log.Enabled(LogLevel::kInfo)) return true;
  LogLine line("wake-up");
  line.Text("pod", asked.pod_namespace + "/" + asked.name)
      .Text("result", status.ok() ? "woken" : "conflict");
  if (!parts_.log.Decision(line, now)) parts_.metrics.log_dropped_total->Increment();
  return true;
}

std::int64_t WakeUp::Pause(int times) const {
  return std::min(options_.max_pause_ms, options_.first_pause_ms << std::clamp(times - 1, 0, 20));
}

void WakeUp::Start(std::function<bool()> may_wake) {
  thread_.Start(std::chrono::milliseconds(options_.period_ms),
                [this, may_wake = std::move(may_wake)] {
                  if (may_wake()) Step();
                });
}

void WakeUp::Stop() {
  thread_.Stop();
}

}  // namespace numafit::extender
