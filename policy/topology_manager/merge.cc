#include "policy/topology_manager/merge.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policy/mutation.h"
#include "policy/numa_subsets.h"

namespace numafit::policy {
namespace {

using Kind = ResourceHints::Kind;

// More sets than this are not looked at. 2^16 is what a kubelet lists per resource on 16 NUMA
// nodes.
constexpr int kMaxNodes = 16;

// counts[s] = how many masks of the list have exactly the trace s, over `subsets` of the nodes that
// all lists share; the narrowest mask's width goes to `narrowest`.
std::vector<std::uint64_t> Traces(const ResourceHints& hints, const NumaSubsets& shared,
                                  int& narrowest) {
  std::vector<std::uint64_t> counts(std::size_t{1} << shared.count(), 0);
  const NumaSubsets own(hints.nodes);
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

// The widths that a mask preferred by every resource can have; none when last < first.
struct Widths {
  int first = 1;
  int last = 0;
};
Widths PreferredWidths(std::span<const ResourceHints> hints, int most) {
  Widths widths{1, most};
  for (const ResourceHints& h : hints) {
    if (h.kind != Kind::kMasks || h.preferred_sockets > 0) continue;
    widths.first = std::max(widths.first, h.preferred_width);
    widths.last = std::min(widths.last, h.preferred_width);
  }
  return widths;
}

NumaMask SharedNodes(std::span<const ResourceHints> hints, NumaMask machine) {
  NumaMask shared = machine;
  for (const ResourceHints& h : hints) {
    if (h.kind == Kind::kMasks) shared = shared & h.nodes;
  }
  return shared;
}

}  // namespace

PreferredMask BestPreferredMask(const NumaInfo& numa, std::span<const ResourceHints> hints,
                                int widest) {
  const NumaMask shared = SharedNodes(hints, numa.DefaultAffinity());
  // Fewer NUMA nodes are always better, so the narrowest width at which there is one decides.
  const Widths widths = PreferredWidths(hints, std::min(widest, shared.count()));
  PreferredMask best;
  // Numerically ascending: without distances the first is the best.
  const bool first_wins = !numa.closest() && !Mutated(Mutation::kTieBreakReversed);
  for (int width = widths.first; width <= widths.last && !best.mask; ++width) {
    if (SubsetsAreTooMany(shared.count(), width)) {
      return {.mask = std::nullopt, .intractable = true};
    }
    ForEachSubsetOfSize(shared, width, [&](NumaMask mask) {
      for (const ResourceHints& h : hints) {
        if (h.kind == Kind::kMasks && !(h.Prefers(mask) && h.Contains(mask))) return true;
      }
      if (!best.mask || numa.IsBetter(mask, *best.mask)) best.mask = mask;
      return !first_wins;
    });
  }
  return best;
}

Intersection BestIntersection(const NumaInfo& numa, std::span<const ResourceHints> hints) {
  const NumaSubsets shared(SharedNodes(hints, numa.DefaultAffinity()));
  if (shared.count() == 0) return {};
  int aim = 0;
  std::vector<std::uint64_t> reached;
  for (const ResourceHints& h : hints) {
    if (h.kind != Kind::kMasks) continue;
    if (h.nodes.count() > kMaxNodes) return {.mask = std::nullopt, .intractable = true};
    int narrowest = NumaMask::kMaxIds;
    std::vector<std::uint64_t> traces = Traces(h, shared, narrowest);
    aim = std::max(aim, narrowest);
    int repeats = h.resources;
    if (reached.empty()) {
      reached = traces;
      --repeats;
    }
    for (; repeats > 0; --repeats) Intersect(reached, traces, shared.count());
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
                       bool want_unpreferred, int widest) {
  bool impossible = false;
  bool masks = false;
  for (const ResourceHints& h : hints) {
    impossible = impossible || h.kind == Kind::kImpossible;
    masks = masks || h.kind == Kind::kMasks;
  }
  // Nil masks only: one combination, the whole machine.
  if (!masks) return {.hint = {numa.DefaultAffinity(), !impossible}};
  if (!impossible) {
    const PreferredMask preferred = BestPreferredMask(numa, hints, widest);
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
