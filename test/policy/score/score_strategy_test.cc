#include "policy/score/score_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/score/packing.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using ::testing::ElementsAre;
using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::PodOf;
using testing::Take;

struct Placed {
  std::shared_ptr<const Topology> topology;
  Usage usage;
  Outcome outcome;
};

// The first outcome of the Pod on 4+4 GPUs and 4+4 NICs, so many GPUs in use.
Placed Place(const Demand& demand, const std::vector<int>& gpus_in_use,
             TopologyPolicy policy = TopologyPolicy::kSingleNumaNode) {
  const auto topology = Machine(2, policy).Pool(kGpu, {4, 4}).Pool(kNic, {4, 4}).Build();
  Usage usage(*topology);
  Take(*topology, usage, kGpu, gpus_in_use);
  return {topology, usage, Admit(*topology, usage, demand).outcomes.front()};
}

int ScoreOf(const char* strategy, const Placed& placed, const Demand& demand) {
  return FindScoreStrategy(strategy)->Score(*placed.topology, placed.usage, demand, placed.outcome);
}

TEST(ScoreStrategy, AreFoundByName) {
  EXPECT_THAT(ScoreStrategyNames(),
              ElementsAre("most-allocated", "least-allocated", "fewest-numa"));
  for (const std::string_view name : ScoreStrategyNames()) {
    EXPECT_EQ(FindScoreStrategy(name)->Name(), name);
  }
  EXPECT_EQ(FindScoreStrategy("preserve-nothing"), nullptr);
}

TEST(ScoreStrategy, MostAllocatedFillsWhatIsBroken) {
  const Demand pod = PodOf().App({{kGpu, 1}});
  const int fresh = ScoreOf("most-allocated", Place(pod, {0, 0}), pod);
  const int broken = ScoreOf("most-allocated", Place(pod, {2, 0}), pod);
  const int last = ScoreOf("most-allocated", Place(pod, {3, 0}), pod);
  EXPECT_LT(fresh, broken);
  EXPECT_LT(broken, last);
  // The NUMA node that is used counts more than the rest of the node.
  EXPECT_GT(last, ScoreOf("most-allocated", Place(pod, {0, 4}), pod));
}

TEST(ScoreStrategy, LeastAllocatedIsTheOpposite) {
  const Demand pod = PodOf().App({{kGpu, 1}});
  for (const std::vector<int>& used : {std::vector<int>{0, 0}, {2, 0}, {3, 1}}) {
    const Placed placed = Place(pod, used);
    EXPECT_EQ(ScoreOf("most-allocated", placed, pod) + ScoreOf("least-allocated", placed, pod),
              kMaxScore);
  }
}

TEST(ScoreStrategy, FewestNumaCountsNumaNodesThenFullness) {
  const Demand pod = PodOf().App({{kGpu, 2}});
  const Placed together = Place(pod, {0, 0}, TopologyPolicy::kNone);
  const Placed apart = Place(pod, {3, 3}, TopologyPolicy::kNone);
  EXPECT_EQ(NumaNodesUsed(*together.topology, together.outcome), 1);
  EXPECT_EQ(NumaNodesUsed(*apart.topology, apart.outcome), 2);
  EXPECT_GT(ScoreOf("fewest-numa", together, pod), ScoreOf("fewest-numa", apart, pod));
  EXPECT_GT(ScoreOf("fewest-numa", Place(pod, {2, 0}), pod),
            ScoreOf("fewest-numa", Place(pod, {0, 0}), pod));
}

TEST(ScoreStrategy, AllStayInRange) {
  const Demand pod = PodOf().App({{kGpu, 4}, {kNic, 4}});
  const Placed placed = Place(pod, {0, 4});
  for (const std::string_view name : ScoreStrategyNames()) {
    const int score =
        FindScoreStrategy(name)->Score(*placed.topology, placed.usage, pod, placed.outcome);
    EXPECT_GE(score, 0) << name;
    EXPECT_LE(score, kMaxScore) << name;
  }
}

TEST(Packing, ADeviceOnSeveralNumaNodesCountsWhereOthersAre) {
  Machine machine = Machine(2, TopologyPolicy::kNone).Pool(kGpu, {0, 1});
  machine.Device(kNic, std::vector<int>{0, 1});
  const auto topology = machine.Build();
  const Usage usage(*topology);
  const Demand pod = PodOf().App({{kGpu, 1}, {kNic, 1}});
  EXPECT_EQ(NumaNodesUsed(*topology, Admit(*topology, usage, pod).outcomes.front()), 1);
}

TEST(Packing, APodThatTakesNothingIsNotFull) {
  const Demand pod = PodOf().App({});
  const Placed placed = Place(pod, {4, 4});
  EXPECT_EQ(FullnessAfter(*placed.topology, placed.usage, placed.outcome), 0);
}

}  // namespace
}  // namespace numafit::policy
