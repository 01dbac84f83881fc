#include "policy/topology_manager/merge.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "policy/mutation.h"

namespace numafit::policy {
namespace {

using Kind = ResourceHints::Kind;

// More sets than this are not looked at. 2^16 is what a kubelet lists per resource on 16 NUMA
// nodes.
constexpr int kMaxNodes = 16;
constexpr std::int64_t kMaxSets = std::int64_t{1} << 20;

// The ids of a mask, so that subsets can be numbered 0 .. 2^n - 1. Numerical order is kept.
class Subsets {
 public:
  explicit Subsets(NumaMask mask) {
    mask.ForEach([&](int id) { ids_[count_++] = id; });
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] NumaMask Expand(std::uint64_t number) const {
    NumaMask mask;
    for (std::uint64_t rest = number; rest != 0; rest &= rest - 1) {
      mask.add(ids_[std::countr_zero(rest)]);
    }
    return mask;
  }
  [[nodiscard]] std::uint64_t Compress(NumaMask mask) const {
    std::uint64_t number = 0;
    for (int i = 0; i < count_; ++i) {
      if (mask.contains(ids_[i])) number |= std::uint64_t{1} << i;
    }
    return number;
  }

 private:
  int ids_[NumaMask::kMaxIds] = {};
  int count_ = 0;
};

std::int64_t Choose(int n, int k) {
  std::int64_t result = 1;
  for (int i = 1; i <= k; ++i) {
    result = result * (n - k + i) / i;
    if (result > kMaxSets) return kMaxSets + 1;
  }
  return result;
}

// Calls f with every subset of `nodes` of this width, numerically ascending, while it returns true.
template <typename F>
void ForEachOfWidth(NumaMask nodes, int width, F&& f) {
  if (width <= 0 || width > nodes.count()) return;
  if (width == nodes.count()) {
    f(nodes);
    return;
  }
  if (width == 1) {
    for (std::uint64_t rest = nodes.bits(); rest != 0; rest &= rest - 1) {
      if (!f(NumaMask::FromBits(rest & (~rest + 1)))) return;
    }
    return;
  }
  const Subsets subsets(nodes);
  const std::uint64_t end = std::uint64_t{1} << subsets.count();
  for (std::uint64_t pick = (std::uint64_t{1} << width) - 1; pick < end;) {
    if (!f(subsets.Expand(pick))) return;
    // The next number with as many bits.
    const std::uint64_t low = pick & (~pick + 1);
    const std::uint64_t up = pick + low;
    pick = (((pick ^ up) >> 2) / low) | up;
  }
}

// counts[s] = how many masks of the list have exactly the trace s, over `subsets` of the nodes that
// all lists share; the narrowest mask's width goes to `narrowest`.
std::vector<std::uint64_t> Traces(const ResourceHints& hints, const Subsets& shared,
                                  int& narrowest) {
  std::vector<std::uint64_t> counts(std::size_t{1} << shared.count(), 0);
  const Subsets own(hints.nodes);
  for (std::uint64_t pick = 1; pick < (std::uint64_t{1} << own.count()); ++pick) {
    const NumaMask mask = own.Expand(pick);
    if (!hints.Contains(mask)) continue;
    narrowest = std::min(narrowest, mask.count());
    counts[shared.Compress(mask)] = 1;
  }
  return counts;
}

// After: counts[s] = sum over the supersets of s. With `back`, the inverse.
void SumOverSupersets(std::vector<std::uint64_t>& counts, int bits, bool back) {
  for (int bit = 0; bit < bits; ++bit) {
    const std::size_t step = std::size_t{1} << bit;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      if ((s & step) != 0) continue;
      if (back) {
        counts[s] -= counts[s | step];
      } else {
        counts[s] += counts[s | step];
      }
    }
  }
}

// reached[s] becomes whether s is an intersection of one reached before and a trace of `next`.
void Intersect(std::vector<std::uint64_t>& reached, std::vector<std::uint64_t> next, int bits) {
  SumOverSupersets(reached, bits, false);
  SumOverSupersets(next, bits, false);
  for (std::size_t s = 0; s < reached.size(); ++s) reached[s] *= next[s];
  SumOverSupersets(reached, bits, true);
  for (std::uint64_t& count : reached) count = count != 0 ? 1 : 0;
}

// The order of topologymanager's compare for two results that are not preferred.
bool IsBetterUnpreferred(const NumaInfo& numa, int aim, NumaMask a, NumaMask b) {
  const bool a_over = a.count() > aim;
  const bool b_over = b.count() > aim;
  if (a_over != b_over) return b_over;
  if (!a_over && a.count() != b.count()) return a.count() > b.count();
  return numa.IsBetter(a, b);
}

NumaMask SharedNodes(std::span<const ResourceHints> hints, NumaMask machine) {
  NumaMask shared = machine;
  for (const ResourceHints& h : hints) {
    if (h.kind == Kind::kMasks) shared = shared & h.nodes;
  }
  return shared;
}

}  // namespace

PreferredMask BestPreferredMask(const NumaInfo& numa, std::span<const ResourceHints> hints) {
  int width = 0;
  for (const ResourceHints& h : hints) {
    if (h.kind != Kind::kMasks) continue;
    if (width != 0 && h.preferred_width != width) return {};
    width = h.preferred_width;
  }
  const NumaMask shared = SharedNodes(hints, numa.DefaultAffinity());
  const int count = shared.count();
  if (Choose(count, std::min(width, count)) > kMaxSets ||
      (count >= NumaMask::kMaxIds && width > 1 && width < count)) {
    return {.mask = std::nullopt, .intractable = true};
  }
  PreferredMask best;
  // Numerically ascending: without distances the first is the best.
  const bool first_wins = !numa.closest() && !Mutated(Mutation::kTieBreakReversed);
  ForEachOfWidth(shared, width, [&](NumaMask mask) {
    for (const ResourceHints& h : hints) {
      if (h.kind == Kind::kMasks && !h.Contains(mask)) return true;
    }
    if (!best.mask || numa.IsBetter(mask, *best.mask)) best.mask = mask;
    return !first_wins;
  });
  return best;
}

Intersection BestIntersection(const NumaInfo& numa, std::span<const ResourceHints> hints) {
  const Subsets shared(SharedNodes(hints, numa.DefaultAffinity()));
  if (shared.count() == 0) return {};
  int aim = 0;
  std::vector<std::uint64_t> reached;
  for (const ResourceHints& h : hints) {
    if (h.kind != Kind::kMasks) continue;
    if (h.nodes.count() > kMaxNodes) return {.mask = std::nullopt, .intractable = true};
    int narrowest = NumaMask::kMaxIds;
    std::vector<std::uint64_t> traces = Traces(h, shared, narrowest);
    aim = std::max(aim, narrowest);
    if (reached.empty()) {
      reached = std::move(traces);
    } else {
      Intersect(reached, std::move(traces), shared.count());
    }
  }
  Intersection best;
  for (std::size_t s = 1; s < reached.size(); ++s) {
    if (reached[s] == 0) continue;
    const NumaMask mask = shared.Expand(s);
    if (!best.mask || IsBetterUnpreferred(numa, aim, mask, *best.mask)) best.mask = mask;
  }
  return best;
}

MergeResult MergeHints(const NumaInfo& numa, std::span<const ResourceHints> hints,
                       bool want_unpreferred) {
  bool impossible = false;
  bool masks = false;
  for (const ResourceHints& h : hints) {
    impossible = impossible || h.kind == Kind::kImpossible;
    masks = masks || h.kind == Kind::kMasks;
  }
  // Nil masks only: one combination, the whole machine.
  if (!masks) return {.hint = {numa.DefaultAffinity(), !impossible}};
  if (!impossible) {
    const PreferredMask preferred = BestPreferredMask(numa, hints);
    if (preferred.intractable) return {.hint = {}, .admit = false, .intractable = true};
    if (preferred.mask) return {.hint = {*preferred.mask, true}};
  }
  if (!want_unpreferred) return {};
  const Intersection best = BestIntersection(numa, hints);
  if (best.intractable) return {.hint = {}, .admit = false, .intractable = true};
  Hint hint{best.mask.value_or(numa.DefaultAffinity()), false};
  if (Mutated(Mutation::kMasksMayDiffer) && !impossible && best.mask) hint.preferred = true;
  return {.hint = hint};
}

}  // namespace numafit::policy
