// The order of the nodes that fit: which are answered, and what kube-scheduler is told of them.
//
// By score, later is better; a node that is on offer to other Pods comes after every node that is
// not, and the more offers the later; ties keep the order in which kube-scheduler named the nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/score/score_strategy.h"

namespace numafit::extender {

struct Ranked {
  std::uint32_t position = 0;  // in the request's list
  std::int32_t index = 0;      // of the node in the fleet; -1: not in it
};

// Collects candidates and keeps the best K. Reused between calls; not thread-safe.
class Ranking {
 public:
  // `best` 0 keeps all.
  void Reset(std::size_t best);
  // `score` 0..policy::kMaxScore.
  void Add(std::uint32_t position, std::int32_t index, std::int32_t score, int offers) {
    ++added_;
    const std::uint64_t key = Key(position, score, offers);
    if (key <= threshold_) return;
    entries_.push_back({key, index});
    if (entries_.size() >= trim_at_) Trim();
  }
  // Best first. The result is valid until Reset.
  const std::vector<Ranked>& Finish();
  // How many were added.
  [[nodiscard]] std::size_t added() const { return added_; }

 private:
  struct Entry {
    std::uint64_t key;
    std::int32_t index;
  };
  // A smaller position is better; never 0, which is the threshold of an empty ranking.
  static std::uint64_t Key(std::uint32_t position, std::int32_t score, int offers) {
    const std::int32_t bounded = std::clamp(score, 0, policy::kMaxScore);
    const std::int32_t rank = offers <= 0 ? bounded + policy::kMaxScore + 2 : bounded / offers + 1;
    return (static_cast<std::uint64_t>(rank) << 32) | (0xFFFFFFFFU - position);
  }
  void Trim();

  std::size_t best_ = 0;
  std::size_t trim_at_ = 0;
  std::size_t added_ = 0;
  std::uint64_t threshold_ = 0;
  std::vector<Entry> entries_;
  std::vector<Ranked> result_;
};

// What prioritize answers for the node at `rank` (0 = best) of `count`: 10 for the best alone, the
// others spread evenly over 9..1, so that the best leads by a whole step and ties are rare.
[[nodiscard]] std::int64_t PriorityOfRank(std::size_t rank, std::size_t count);

}  // namespace numafit::extender
