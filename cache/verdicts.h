// Equal questions are answered once.
//
// A verdict is a pure function of (node state, demand, strategy), so it is kept per demand shape
// and node state. A shape that comes again costs a look-up per node; it is judged anew only for
// states that it has not met. Nodes in the same state share one answer.
//
// Bounded: the least recently used shape is dropped, and a shape forgets the states that no node is
// in any more. Thread-safe; a shape is used by one thread at a time (a call over 15,000 nodes
// holds it for tens of microseconds when nothing has to be judged).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "api/mutex.h"
#include "policy/alignment.h"

namespace numafit::cache {

// What filter and prioritize need of a policy::Judgement.
struct Verdict {
  std::int32_t score = 0;  // 0..policy::kMaxScore, only meaningful when the Pod fits
  policy::Reason reason = policy::Reason::kFits;

  [[nodiscard]] bool fits() const { return reason == policy::Reason::kFits; }
};

class VerdictStore {
 public:
  struct Options {
    std::size_t max_shapes = 256;
  };
  struct Stats {
    std::atomic<std::uint64_t> hits{0};       // the node has not changed since the last question
    std::atomic<std::uint64_t> shared{0};     // it has, and its new state was judged before
    std::atomic<std::uint64_t> judged{0};     // an admission had to be computed
    std::atomic<std::uint64_t> evictions{0};  // of whole shapes
  };

 private:
  struct Slot {
    std::uint64_t state_id = 0;
    Verdict verdict;
  };

 public:
  class Session;

  // What is known about one shape.
  class Shape {
   public:
    Shape() : recent_(kRecent) {}

   private:
    friend class VerdictStore;
    friend class Session;
    // In front of by_state_: ids are handed out one after the other, so that those in use seldom
    // share a place, and a look-up is one comparison.
    static constexpr std::size_t kRecent = 1024;
    api::Mutex mutex_;
    std::vector<Slot> recent_;  // by state id modulo kRecent
    std::vector<Slot> slots_;   // by node index
    absl::flat_hash_map<std::uint64_t, Verdict> by_state_;
  };

  // The one user of a shape, for the length of one call.
  class Session {
   public:
    // `shape_key`: equal text = every question has the same answer (the demand's fingerprint and
    // the strategy). `nodes`: number of node indices.
    Session(VerdictStore& store, std::string_view shape_key, std::size_t nodes);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // The verdict for the node at `index`, which is in state `state_id` (never 0). `judge` is
    // called when the state is new to the shape.
    Verdict At(int index, std::uint64_t state_id, absl::FunctionRef<Verdict()> judge) {
      const Slot& slot = slots_[index];
      if (slot.state_id == state_id) {
        ++hits_;
        return slot.verdict;
      }
      return Miss(index, state_id, judge);
    }

   private:
    Verdict Miss(int index, std::uint64_t state_id, absl::FunctionRef<Verdict()> judge);
    void ForgetOldStates();

    VerdictStore& store_;
    std::shared_ptr<Shape> shape_;
    api::MutexLock lock_;
    Slot* slots_ = nullptr;
    std::uint64_t hits_ = 0;
    std::uint64_t shared_ = 0;
    std::uint64_t judged_ = 0;
  };

  explicit VerdictStore(Options options) : options_(options) {}

  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] std::size_t shapes() const;

 private:
  std::shared_ptr<Shape> Find(std::string_view shape_key);

  const Options options_;
  Stats stats_;
  mutable api::Mutex mutex_;
  struct Entry {
    std::string key;
    std::shared_ptr<Shape> shape;
  };
  // Most recently used first.
  std::list<Entry> order_ NUMAFIT_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_ NUMAFIT_GUARDED_BY(mutex_);
};

}  // namespace numafit::cache
