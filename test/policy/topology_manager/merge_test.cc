#include "policy/topology_manager/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "policy/topology_manager/policy.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::Machine;
using testing::MaskOf;

using HintList = std::vector<Hint>;

// The hints as the kubelet lists them: every subset of the nodes.
HintList Listed(const ResourceHints& hints) {
  if (hints.kind == ResourceHints::Kind::kDontCare) return {{std::nullopt, true}};
  if (hints.kind == ResourceHints::Kind::kImpossible) return {{std::nullopt, false}};
  HintList list;
  const std::uint64_t all = hints.nodes.bits();
  for (std::uint64_t sub = all; sub != 0; sub = (sub - 1) & all) {
    const NumaMask mask = NumaMask::FromBits(sub);
    if (hints.Contains(mask)) list.push_back({mask, mask.count() == hints.preferred_width});
  }
  return list;
}

// The merge by its definition: every combination, compared one after the other in a random order.
class ByDefinition {
 public:
  ByDefinition(const Topology& topology, std::vector<HintList> lists, std::mt19937& random)
      : topology_(topology), lists_(std::move(lists)) {
    closest_ = topology.kubelet().prefer_closest_numa_nodes;
    if (topology.kubelet().policy == TopologyPolicy::kSingleNumaNode) {
      closest_ = false;
      for (HintList& list : lists_) {
        std::erase_if(list, [](const Hint& hint) {
          return !hint.preferred || (hint.affinity && hint.affinity->count() != 1);
        });
      }
    }
    for (const HintList& list : lists_) {
      int narrowest = 0;
      for (const Hint& hint : list) {
        if (hint.affinity && (narrowest == 0 || hint.affinity->count() < narrowest)) {
          narrowest = hint.affinity->count();
        }
      }
      aim_ = std::max(aim_, narrowest);
    }
    Combine(0, topology.numa(), std::nullopt, true);
    std::shuffle(merged_.begin(), merged_.end(), random);
  }

  Hint Result() const {
    std::optional<Hint> best;
    for (const Hint& candidate : merged_) {
      if (candidate.affinity->empty()) continue;
      if (!best || Replaces(*best, candidate)) best = candidate;
    }
    Hint result = best.value_or(Hint{topology_.numa(), false});
    const bool single = topology_.kubelet().policy == TopologyPolicy::kSingleNumaNode;
    if (single && result.affinity == topology_.numa()) result.affinity.reset();
    return result;
  }

 private:
  void Combine(std::size_t at, NumaMask mask, std::optional<NumaMask> first, bool preferred) {
    if (at == lists_.size()) {
      merged_.push_back({mask, preferred});
      return;
    }
    for (const Hint& hint : lists_[at]) {
      if (!hint.affinity) {
        Combine(at + 1, mask, first, preferred && hint.preferred);
        continue;
      }
      const bool equal = !first || *first == *hint.affinity;
      Combine(at + 1, mask & *hint.affinity, first ? first : hint.affinity,
              preferred && hint.preferred && equal);
    }
  }

  double AverageDistance(NumaMask mask) const {
    double sum = 0;
    double count = 0;
    mask.ForEach([&](int a) {
      mask.ForEach([&](int b) {
        sum += topology_.Distance(a, b);
        ++count;
      });
    });
    return sum / count;
  }

  bool IsFitter(NumaMask current, NumaMask candidate) const {
    if (!closest_ || current.count() != candidate.count()) return candidate.IsNarrowerThan(current);
    const double a = AverageDistance(current);
    const double b = AverageDistance(candidate);
    return a == b ? candidate.bits() < current.bits() : b < a;
  }

  bool Replaces(const Hint& current, const Hint& candidate) const {
    if (current.preferred != candidate.preferred) return candidate.preferred;
    if (current.preferred) return IsFitter(*current.affinity, *candidate.affinity);
    const int now = current.affinity->count();
    const int then = candidate.affinity->count();
    if (now > aim_) return IsFitter(*current.affinity, *candidate.affinity);
    if (now == aim_) return then == aim_ && IsFitter(*current.affinity, *candidate.affinity);
    if (then > aim_) return false;
    if (then == aim_) return true;
    if (then != now) return then > now;
    return IsFitter(*current.affinity, *candidate.affinity);
  }

  const Topology& topology_;
  std::vector<HintList> lists_;
  std::vector<Hint> merged_;
  int aim_ = 0;
  bool closest_ = false;
};

ResourceHints RandomHints(int nodes, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  ResourceHints hints;
  if (below(10) == 0) {
    hints.kind = below(2) == 0 ? ResourceHints::Kind::kDontCare : ResourceHints::Kind::kImpossible;
    return hints;
  }
  hints.kind = ResourceHints::Kind::kMasks;
  const std::uint64_t all = (std::uint64_t{1} << nodes) - 1;
  do {
    hints.nodes = NumaMask::FromBits(random() & all);
  } while (hints.nodes.empty());
  for (int i = 0; i < 4; ++i) {
    const NumaMask numa = NumaMask::FromBits(random() & hints.nodes.bits());
    if (!numa.empty()) hints.supplies.push_back({numa, 1 + below(4)});
  }
  if (below(6) == 0) hints.must_touch.push_back(NumaMask::Of(hints.nodes.first()));
  std::int64_t most = 0;
  for (const auto& supply : hints.supplies) most += supply.units;
  hints.request = below(static_cast<int>(most) + 1);
  hints.preferred_width = 1 + below(hints.nodes.count());
  return hints;
}

class MergeProperty : public ::testing::TestWithParam<TopologyPolicy> {};

TEST_P(MergeProperty, TheFoldIsEveryCombinationInAnyOrder) {
  std::mt19937 random(20240607);
  int admitted = 0;
  for (int round = 0; round < 3000; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 4);
    Machine machine(nodes, GetParam());
    if (random() % 2 == 0) {
      std::vector<std::vector<int>> distances(static_cast<std::size_t>(nodes));
      for (auto& row : distances) {
        for (int i = 0; i < nodes; ++i) row.push_back(10 + static_cast<int>(random() % 3));
      }
      machine.Closest(distances);
    }
    const auto topology = machine.Build();
    ASSERT_NE(topology, nullptr);
    std::vector<ResourceHints> hints;
    for (unsigned i = 0; i < random() % 4; ++i) hints.push_back(RandomHints(nodes, random));
    std::vector<HintList> lists;
    for (const ResourceHints& h : hints) lists.push_back(Listed(h));

    const MergeResult merged = Merge(*topology, hints);
    const Hint expected = ByDefinition(*topology, lists, random).Result();
    const bool admits = GetParam() == TopologyPolicy::kBestEffort || expected.preferred;
    ASSERT_EQ(merged.admit, admits) << "round " << round;
    if (admits) {
      ++admitted;
      ASSERT_EQ(merged.hint.affinity, expected.affinity) << "round " << round;
      ASSERT_EQ(merged.hint.preferred, expected.preferred) << "round " << round;
    }
  }
  EXPECT_GT(admitted, 300);
}

INSTANTIATE_TEST_SUITE_P(Policies, MergeProperty,
                         ::testing::Values(TopologyPolicy::kBestEffort, TopologyPolicy::kRestricted,
                                           TopologyPolicy::kSingleNumaNode));

ResourceHints OneOf(std::initializer_list<int> nodes, int width) {
  ResourceHints hints;
  hints.kind = ResourceHints::Kind::kMasks;
  hints.nodes = MaskOf(nodes);
  hints.request = width;
  hints.preferred_width = width;
  for (const int id : nodes) hints.supplies.push_back({NumaMask::Of(id), 1});
  return hints;
}

TEST(Merge, NothingAskedForIsTheWholeMachinePreferred) {
  const auto restricted = Machine(2).Build();
  EXPECT_EQ(Merge(*restricted, {}).hint, (Hint{MaskOf({0, 1}), true}));
  const auto single = Machine(2, TopologyPolicy::kSingleNumaNode).Build();
  EXPECT_EQ(Merge(*single, {}).hint, (Hint{std::nullopt, true}));
}

TEST(Merge, OneNumaNodeIsANilMaskWithSingleNumaNode) {
  const auto topology = Machine(1, TopologyPolicy::kSingleNumaNode).Build();
  const ResourceHints hints[] = {OneOf({0}, 1)};
  const MergeResult merged = Merge(*topology, hints);
  EXPECT_TRUE(merged.admit);
  EXPECT_EQ(merged.hint, (Hint{std::nullopt, true}));
}

TEST(Merge, ClosestComparesAveragesWithTheOwnDistance) {
  // {0,1} and {2,3} are as far apart, but 3 is far from itself.
  const auto topology =
      Machine(4)
          .Closest({{10, 12, 30, 30}, {12, 10, 30, 30}, {30, 30, 10, 12}, {30, 30, 12, 11}})
          .Build();
  const ResourceHints hints[] = {OneOf({2, 3}, 2)};
  EXPECT_EQ(Merge(*topology, hints).hint.affinity, MaskOf({2, 3}));
  const NumaInfo numa(*topology, true);
  EXPECT_TRUE(numa.IsBetter(MaskOf({0, 1}), MaskOf({2, 3})));
  EXPECT_TRUE(numa.IsBetter(MaskOf({2, 3}), MaskOf({0, 3})));
}

TEST(Merge, MoreSetsThanAnybodyCanListIsIntractable) {
  // 34 NUMA nodes, 17 at once: C(34, 17) sets.
  Machine machine(34);
  machine.spec().kubelet.max_allowable_numa_nodes = 64;
  ResourceHints hints = OneOf({}, 17);
  for (int id = 0; id < 34; ++id) {
    hints.nodes.add(id);
    hints.supplies.push_back({NumaMask::Of(id), 1});
  }
  EXPECT_TRUE(Merge(*machine.Build(), {&hints, 1}).intractable);
}

TEST(Merge, ManyNumaNodesAreNoTroubleWhereOneIsEnough) {
  Machine machine(64);
  machine.spec().kubelet.max_allowable_numa_nodes = 64;
  ResourceHints hints = OneOf({}, 1);
  for (int id = 0; id < 64; ++id) {
    hints.nodes.add(id);
    if (id > 40) hints.supplies.push_back({NumaMask::Of(id), 1});
  }
  const MergeResult merged = Merge(*machine.Build(), {&hints, 1});
  EXPECT_EQ(merged.hint, (Hint{NumaMask::Of(41), true}));
}

}  // namespace
}  // namespace numafit::policy
