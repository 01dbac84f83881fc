// takeByTopologyNUMADistributed: equal shares over as few NUMA nodes as can give them.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "policy/cpu_manager/accumulator.h"

namespace numafit::policy {
namespace {

using Nodes = GroupOrder;  // numbers of NUMA nodes

// Calls f(combination, same_memory) for every combination of `k` of `items`, in the kubelet's
// order, until it returns false.
//
// The kubelet hands out slices. A combination of k is written into the memory of the one before
// (same_memory) when they differ only from the element on at which the slice last had room left;
// whoever kept the earlier one then holds the later one.
template <typename F>
void ForEachCombination(const Nodes& items, int k, F&& f) {
  const int n = static_cast<int>(items.size());
  if (k < 1 || k > n) return;
  const int shared_from =
      k <= 2 ? k : static_cast<int>(std::bit_floor(static_cast<unsigned>(k - 1))) + 1;
  absl::InlinedVector<int, 16> picks(static_cast<std::size_t>(k));
  Nodes combination(static_cast<std::size_t>(k));
  const auto set = [&](int at, int pick) {
    picks[static_cast<std::size_t>(at)] = pick;
    combination[static_cast<std::size_t>(at)] = items[static_cast<std::size_t>(pick)];
  };
  for (int i = 0; i < k; ++i) set(i, i);
  bool same_memory = false;
  while (f(combination, same_memory)) {
    int at = k - 1;
    while (at >= 0 && picks[static_cast<std::size_t>(at)] == n - k + at) --at;
    if (at < 0) return;
    same_memory = at >= shared_from;
    for (int pick = picks[static_cast<std::size_t>(at)] + 1; at < k; ++at, ++pick) set(at, pick);
  }
}

// A combination kept by whoever found it best: it changes with the memory that it lies in.
class Kept {
 public:
  // To be told of every combination before anything is decided about it.
  void See(const Nodes& combination, bool same_memory) {
    live_ = live_ && same_memory;
    if (live_) nodes_ = combination;
  }
  void Keep(const Nodes& combination) {
    nodes_ = combination;
    live_ = true;
    any_ = true;
  }
  [[nodiscard]] bool any() const { return any_; }
  // The next combination may change it.
  [[nodiscard]] bool live() const { return live_; }
  [[nodiscard]] const Nodes& nodes() const { return nodes_; }

 private:
  Nodes nodes_;
  bool live_ = false;
  bool any_ = false;
};

class Distribution {
 public:
  Distribution(const CpuTopology& topology, CpuAccumulator& picked, std::int64_t count,
               const AssignmentRules& rules)
      : topology_(topology),
        picked_(picked),
        rules_(rules),
        count_(static_cast<int>(count)),
        group_(rules.group_size),
        nodes_(picked.NumaNodes()) {
    for (const std::uint16_t node : nodes_) {
      if (Mark(present_, node)) ++present_count_;
      free_[node] = picked.available().CountAnd(topology.numa_nodes()[node].cpus);
      if (free_[node] % group_ != 0) whole_groups_ = false;
    }
    repeats_ = static_cast<std::size_t>(present_count_) != nodes_.size();
    whole_groups_ = whole_groups_ && !repeats_;
    const double rest = static_cast<double>(picked.available().count() - count_);
    mean_ = Thousandths(rest / present_count_);
  }

  [[nodiscard]] Taken Run() {
    const auto [fewest, most] = Range();
    for (int k = fewest; k <= most; ++k) {
      Search(k);
      if (failure_ != TakeFailure::kNone) return {{}, failure_};
      if (best_.any()) return Give();
    }
    return TakePacked(topology_, picked_.available(), count_, rules_.spread, false);
  }

 private:
  // What is left on each NUMA node, and the sum of squares over all.
  struct Rest {
    std::array<int, NumaMask::kMaxIds> free;
    std::int64_t squares = 0;

    void Subtract(std::uint16_t node, int cpus) {
      const std::int64_t before = free[node];
      free[node] -= cpus;
      const std::int64_t after = free[node];
      squares += after * after - before * before;
    }
  };
  struct Score {
    double balance = std::numeric_limits<double>::max();
    std::int64_t squares = std::numeric_limits<std::int64_t>::max();
  };

  static double Thousandths(double value) { return std::round(value * 1000) / 1000; }
  static bool Mark(std::uint64_t& marks, std::uint16_t node) {
    const std::uint64_t bit = std::uint64_t{1} << node;
    const bool is_new = (marks & bit) == 0;
    marks |= bit;
    return is_new;
  }

  // rangeNUMANodesNeededToSatisfy.
  [[nodiscard]] std::pair<int, int> Range() const {
    const int nodes = static_cast<int>(topology_.numa_nodes().size());
    const int groups = (topology_.cpu_count() - 1) / group_ + 1;
    const int per_node = (groups - 1) / nodes + 1;
    const int wanted = (count_ - 1) / group_ + 1;
    return {(wanted - 1) / per_node + 1, std::min(wanted, present_count_)};
  }

  // Standard deviation of what is left. The mean is the same for all candidates (the same number of
  // CPUs is gone), so the deviation grows with the sum of squares alone.
  [[nodiscard]] double Balance(const Rest& rest) const {
    double sum = 0;
    for (std::uint64_t left = present_; left != 0; left &= left - 1) {
      const double off =
          static_cast<double>(rest.free[static_cast<std::size_t>(std::countr_zero(left))]) - mean_;
      sum += off * off;
    }
    return Thousandths(std::sqrt(sum / present_count_));
  }
  // Whether `rest` scores better than `best`, which then becomes its score.
  [[nodiscard]] bool Improves(const Rest& rest, Score& best) const {
    if (rest.squares >= best.squares) return false;
    const double balance = Balance(rest);
    best.squares = rest.squares;
    if (balance >= best.balance) return false;
    best.balance = balance;
    return true;
  }
  [[nodiscard]] bool CountStep() {
    if (++steps_ <= kMostSteps) return true;
    failure_ = TakeFailure::kIntractable;
    return false;
  }

  // The best of the combinations of k NUMA nodes becomes best_ and best_remainder_.
  void Search(int k) {
    Score best;
    bool best_in_one_socket = false;
    ForEachCombination(nodes_, k, [&](const Nodes& combination, bool same_memory) {
      best_.See(combination, same_memory);
      if (best.balance == 0 && (!rules_.within_socket || best_in_one_socket)) return false;
      if (!CountStep()) return false;
      const std::optional<int> share = Share(combination);
      if (!share.has_value()) return true;

      const bool in_one_socket = rules_.within_socket && InOneSocket(combination);
      const bool must_score_better = in_one_socket == best_in_one_socket;
      Nodes remainder;
      const Score score = Try(combination, *share, must_score_better ? best : Score(), remainder);
      if (failure_ != TakeFailure::kNone) return false;
      const bool is_better = must_score_better ? score.balance < best.balance : in_one_socket;
      if (is_better) {
        best = score;
        best_in_one_socket = in_one_socket;
        best_.Keep(combination);
        best_remainder_ = remainder;
      }
      return true;
    });
  }

  // CPUs for each NUMA node of the combination; nullopt when it cannot give that, or not enough.
  [[nodiscard]] std::optional<int> Share(const Nodes& combination) const {
    std::uint64_t seen = 0;
    int cpus = 0;
    int groups = 0;
    int least = std::numeric_limits<int>::max();
    for (const std::uint16_t node : combination) {
      if (Mark(seen, node)) cpus += free_[node];
      groups += free_[node] / group_;
      least = std::min(least, free_[node]);
    }
    if (cpus < count_ || groups * group_ < count_) return std::nullopt;
    int share = EvenShare(combination.size());
    if (rules_.within_socket) share = std::min(share, least / group_ * group_);
    if (least < share) return std::nullopt;
    return share;
  }
  [[nodiscard]] int EvenShare(std::size_t nodes) const {
    return count_ / static_cast<int>(nodes) / group_ * group_;
  }

  [[nodiscard]] bool InOneSocket(const Nodes& combination) const {
    NumaMask mask;
    for (const std::uint16_t node : combination) mask.add(topology_.numa_nodes()[node].id);
    int sockets = 0;
    for (const NumaMask socket : topology_.socket_masks()) sockets += mask.intersects(socket);
    return sockets <= 1;
  }

  // The score of a combination with the best way to give the remainder, which goes to `remainder`:
  // in groups, to as many of its NUMA nodes as possible. Worse scores than `bar` come as no score.
  [[nodiscard]] Score Try(const Nodes& combination, int share, const Score& bar, Nodes& remainder) {
    Rest rest;
    for (std::uint64_t left = present_; left != 0; left &= left - 1) {
      const auto node = static_cast<std::size_t>(std::countr_zero(left));
      rest.free[node] = free_[node];
      rest.squares += std::int64_t{free_[node]} * free_[node];
    }
    for (const std::uint16_t node : combination) rest.Subtract(node, share);

    const int left = count_ - share * static_cast<int>(combination.size());
    if (left == 0) return rest.squares < bar.squares ? Score{Balance(rest), rest.squares} : Score();
    // No way can score better than this. Not asked where a way may never end.
    std::int64_t floor = std::numeric_limits<std::int64_t>::min();
    if (whole_groups_) {
      floor = LeastSquares(rest, combination, left);
      if (floor >= bar.squares) return {};
    }
    Score best;
    Nodes givers;
    for (const std::uint16_t node : combination) {
      if (rest.free[node] >= group_) givers.push_back(node);
    }
    for (int k = static_cast<int>(givers.size()); k >= 1 && best.squares > floor; --k) {
      TryGivers(rest, givers, k, left, floor, best, remainder);
      if (failure_ != TakeFailure::kNone) return best;
    }
    return best;
  }

  // All ways to give the remainder to k of the givers.
  void TryGivers(const Rest& rest, const Nodes& givers, int k, int left, std::int64_t floor,
                 Score& best, Nodes& remainder) {
    Kept kept;
    // Enough for one round, in which the first nodes give a group each.
    const bool one_round = k >= left / group_ && !repeats_;
    ForEachCombination(givers, k, [&](const Nodes& subset, bool same_memory) {
      kept.See(subset, same_memory);
      if (best.squares <= floor) return kept.live();
      if (!CountStep()) return false;
      if (one_round && SquaresAfterRound(rest, subset, left) >= best.squares) return true;
      int room = 0;
      for (const std::uint16_t node : subset) room += rest.free[node];
      if (room < left) return true;
      Rest after = rest;
      if (!GiveRemainder(subset, left, after)) return false;
      if (Improves(after, best)) kept.Keep(subset);
      return true;
    });
    if (kept.any()) remainder = kept.nodes();
  }

  // The sum of squares when the fullest NUMA node of the combination gives the next group.
  [[nodiscard]] std::int64_t LeastSquares(Rest rest, const Nodes& combination, int left) const {
    for (; left > 0; left -= group_) {
      std::uint16_t fullest = combination[0];
      for (const std::uint16_t node : combination) {
        if (rest.free[node] > rest.free[fullest]) fullest = node;
      }
      rest.Subtract(fullest, group_);
    }
    return rest.squares;
  }

  [[nodiscard]] std::int64_t SquaresAfterRound(const Rest& rest, const Nodes& subset,
                                               int left) const {
    std::int64_t squares = rest.squares;
    const auto givers = static_cast<std::size_t>(left / group_);
    for (std::size_t i = 0; i < givers; ++i) {
      const std::int64_t before = rest.free[subset[i]];
      squares += group_ * (group_ - 2 * before);
    }
    return squares;
  }

  // Takes `left` CPUs round by round; false when that never ends.
  [[nodiscard]] bool GiveRemainder(const Nodes& subset, int left, Rest& rest) {
    while (left > 0) {
      const int before = left;
      for (const std::uint16_t node : subset) {
        if (left == 0) break;
        if (rest.free[node] < group_) continue;
        rest.Subtract(node, group_);
        left -= group_;
      }
      if (left == before) {
        failure_ = TakeFailure::kEndless;
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] CpuSet FreeOn(std::uint16_t node) const {
    return picked_.available() & topology_.numa_nodes()[node].cpus;
  }
  void TakeOn(std::uint16_t node, int cpus) {
    const Taken taken = TakePacked(topology_, FreeOn(node), cpus, rules_.spread, false);
    picked_.Take(taken.cpus, taken.cpus.count());
  }

  // Gives the shares and the remainder.
  [[nodiscard]] Taken Give() {
    const Nodes& nodes = best_.nodes();
    int share = EvenShare(nodes.size());
    if (rules_.capped_shares) {
      for (const std::uint16_t node : nodes) share = std::min(share, free_[node] / group_ * group_);
    }
    for (const std::uint16_t node : nodes) TakeOn(node, share);
    int left = count_ - share * static_cast<int>(nodes.size());
    while (left > 0) {
      const int before = left;
      for (const std::uint16_t node : best_remainder_) {
        if (left == 0) break;
        if (picked_.available().CountAnd(topology_.numa_nodes()[node].cpus) < group_) continue;
        TakeOn(node, group_);
        left -= group_;
      }
      if (left == before) return {{}, TakeFailure::kEndless};
    }
    if (picked_.needed() != 0) return {{}, TakeFailure::kAccounting};
    return {picked_.result(), TakeFailure::kNone};
  }

  const CpuTopology& topology_;
  CpuAccumulator& picked_;
  const AssignmentRules& rules_;
  const int count_;
  const int group_;
  const Nodes nodes_;
  std::uint64_t present_ = 0;  // the same without repetitions, a bit each
  int present_count_ = 0;
  bool repeats_ = false;
  // Every NUMA node is there once and has whole groups: no search can be endless.
  bool whole_groups_ = true;
  std::array<int, NumaMask::kMaxIds> free_{};
  double mean_ = 0;
  Kept best_;
  Nodes best_remainder_;
  std::int64_t steps_ = 0;
  TakeFailure failure_ = TakeFailure::kNone;
};

}  // namespace

Taken TakeDistributed(const CpuTopology& topology, const CpuSet& available, std::int64_t count,
                      const AssignmentRules& rules) {
  CpuAccumulator picked(topology, available, count);
  if (picked.IsSatisfied()) return {};
  if (picked.IsFailed()) return {{}, TakeFailure::kNotEnough};
  return Distribution(topology, picked, count, rules).Run();
}

}  // namespace numafit::policy
