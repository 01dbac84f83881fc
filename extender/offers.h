// What was just offered as the best node to a Pod whose place is not known yet.
//
// kube-scheduler filters the next Pod while the bind of the previous one is on its way, so both
// would be sent to the same best node, and the gate would have to refuse one. An offer is no
// reservation: it only ranks the node lower for the next Pod. It is forgotten at the Pod's bind, at
// its next filter call, when the watch shows where it is, or after a moment.
//
// Thread-safe; `count` is a plain read for the hot path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/mutex.h"

namespace numafit::extender {

class Offers {
 public:
  // `nodes`: only nodes with an index below it can be on offer. `ttl_ms` 0 turns offers off.
  Offers(std::size_t nodes, std::int64_t ttl_ms);

  // Replaces an earlier offer to the same Pod. A no-op for an empty uid and a node out of bounds.
  void Set(std::string_view uid, int node, std::int64_t now_ms);
  void Forget(std::string_view uid);
  void ForgetOld(std::int64_t now_ms);

  // Pods that the node is on offer to.
  [[nodiscard]] int count(int node) const {
    const auto at = static_cast<std::size_t>(node);
    return at < counts_.size() ? counts_[at].load(std::memory_order_relaxed) : 0;
  }
  // The node on offer to this Pod, or -1.
  [[nodiscard]] int NodeOf(std::string_view uid) const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Offer {
    int node = 0;
    std::int64_t made_ms = 0;
  };
  void Remove(const std::string& uid) NUMAFIT_REQUIRES(mutex_);

  const std::int64_t ttl_ms_;
  std::vector<std::atomic<std::uint16_t>> counts_;
  mutable api::Mutex mutex_;
  absl::flat_hash_map<std::string, Offer> by_uid_ NUMAFIT_GUARDED_BY(mutex_);
  struct Made {
    std::int64_t made_ms;
    std::string uid;
  };
  std::deque<Made> in_order_ NUMAFIT_GUARDED_BY(mutex_);
};

}  // namespace numafit::extender
