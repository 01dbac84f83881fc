#include "policy/cpu_manager/assignment.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "test/policy/cpu_manager/cpu_machines.h"

namespace numafit::policy {
namespace {

using testing::Cpus;
using testing::HybridCores;
using testing::SocketOnTwoNumaNodes;
using testing::TopologyOf;
using testing::TwoSocketsEach;
using testing::UnevenSockets;
using testing::Uniform;

struct Row {
  const char* name;
  std::vector<CpuInfo> machine;
  AssignmentRules rules;
  const char* available;
  std::int64_t count;
  const char* want;
  TakeFailure failure = TakeFailure::kNone;
};

// The answers are those of the kubelet's own code (1.36.3 and 1.37.2).
const std::vector<Row>& Rows() {
  static const auto* const rows = new std::vector<Row>{
      {"WholeNumaNodeFirst", Uniform(2, 4, 2, 1), {}, "0-15", 10, "0-4,8-12"},
      {"FewestFreeFirst", Uniform(2, 4, 2, 1), {}, "0-2,4-10,12-15", 2, "0,8"},
      {"TheSmallerIdAmongEquals", Uniform(2, 4, 2, 1), {}, "1-3,5-7,9-11,13-15", 2, "1,9"},
      {"WholeCoresBeforeThreads", Uniform(1, 4, 2, 1), {}, "0,1,2,3,5,6", 3, "0-1,5"},
      {"AnOddRestTakesTheBrokenCore", Uniform(1, 4, 2, 1), {}, "0,1,2,3,5,6,7", 3, "0-1,5"},
      {"SocketsBeforeNumaNodes", Uniform(4, 2, 2, 2), {}, "0-15", 9, "0-4,8-11"},
      {"NumaNodesBeforeTheirSockets", TwoSocketsEach(2, 4), {}, "0-7", 5, "0-4"},
      {"FourThreadsPerCore", Uniform(1, 3, 4, 1), {}, "0-11", 6, "0-1,3-4,6,9"},
      {"HybridCoresCountAsFullByTheAverage", HybridCores(), {}, "0,2-6", 2, "0-1"},
      {"WholeCachesThenPartOfOne",
       Uniform(1, 8, 2, 1, 4),
       {.prefer_uncore = true},
       "0-15",
       10,
       "0-4,8-12"},
      {"ACacheThatFitsBeforeAnEmptyOne",
       Uniform(1, 8, 2, 1, 4),
       {.prefer_uncore = true},
       "2-15",
       4,
       "4-5,12-13"},
      {"NoCacheFits",
       Uniform(1, 8, 2, 1, 4),
       {.prefer_uncore = true},
       "1-3,5-7,9-11,13-15",
       7,
       "1-3,5,9-11"},
      {"AnOddRequestInACache", Uniform(1, 8, 2, 1, 4), {.prefer_uncore = true}, "0-15", 3, "0-1,8"},
      {"CachesAcrossNumaNodes", Uniform(2, 3, 1, 2, 2), {.prefer_uncore = true}, "0-5", 3, "0-2"},
      {"SpreadOverCores", Uniform(2, 4, 2, 1), {.spread = true}, "0-15", 4, "0-3"},
      {"SpreadStillTakesWholeNumaNodes",
       Uniform(2, 4, 2, 1),
       {.spread = true},
       "0-15",
       9,
       "0-4,8-11"},
      {"DistributedOnOneNodeIfItFits",
       Uniform(2, 4, 2, 1),
       {.distribute = true},
       "0-15",
       8,
       "0-3,8-11"},
      {"DistributedInHalves",
       Uniform(2, 4, 2, 1),
       {.distribute = true},
       "0-15",
       10,
       "0-2,4-6,8-9,12-13"},
      {"DistributedOddTakesTheRemainderSomewhere",
       Uniform(2, 4, 2, 1),
       {.distribute = true},
       "0-15",
       11,
       "0-2,4-6,8-10,12-13"},
      {"DistributedInWholeCores",
       Uniform(2, 4, 2, 1),
       {.distribute = true, .group_size = 2},
       "0-15",
       10,
       "0-2,4-5,8-10,12-13"},
      {"DistributedNotInGroupsIsPacked",
       Uniform(2, 4, 2, 1),
       {.distribute = true, .group_size = 2},
       "0-15",
       9,
       "0-4,8-11"},
      {"DistributedChoosesTheBalancedPair",
       Uniform(4, 4, 1, 1),
       {.distribute = true},
       "0-1,4-15",
       6,
       "4-6,8-10"},
      {"DistributedFallsBackToPacked",
       Uniform(2, 4, 2, 1),
       {.distribute = true},
       "0,4-7,12-15",
       9,
       "0,4-7,12-15"},
      {"FourOfEightIdenticalNodes",
       Uniform(8, 4, 1, 4),
       {.distribute = true},
       "0-31",
       16,
       "0-11,28-31"},
      {"FourOfFiveIdenticalNodes",
       Uniform(5, 2, 2, 1),
       {.distribute = true, .group_size = 2},
       "0-19",
       16,
       "0-5,8-15,18-19"},
      {"SevenOfEightNodesTakenByTwoSockets",
       Uniform(8, 4, 1, 4),
       {.distribute = true},
       "0-31",
       27,
       "0-20,24-26,28-30"},
      {"FiveNodesAreKept", Uniform(8, 4, 1, 4), {.distribute = true}, "0-31", 20, "0-19"},
      {"KeptNodesThatCannotGive", Uniform(5, 4, 1, 5), {.distribute = true}, "0-16", 16, "0-15"},
      {"WithinASocket",
       Uniform(4, 4, 1, 2),
       {.distribute = true, .within_socket = true, .capped_shares = true},
       "0-2,4-15",
       6,
       "8-10,12-14"},
      {"WithinASocketBefore137",
       Uniform(4, 4, 1, 2),
       {.distribute = true},
       "0-2,4-15",
       6,
       "4-6,8-10"},
      {"WithinASocketWithACappedShare",
       Uniform(4, 4, 1, 2),
       {.distribute = true, .within_socket = true, .capped_shares = true},
       "0,4-15",
       5,
       "8-10,12-13"},
      {"WithinASocketWithACappedShareBefore137",
       Uniform(4, 4, 1, 2),
       {.distribute = true},
       "0,4-15",
       5,
       "4-6,8-9"},
      {"HalfCoresLeftOver",
       Uniform(4, 2, 2, 4),
       {.distribute = true, .group_size = 2},
       "0-3,5-15",
       14,
       "0-3,5-11,13-15"},
      {"Everything", Uniform(2, 4, 2, 1), {.distribute = true}, "0-15", 16, "0-15"},
      {"MoreThanThereIs",
       Uniform(2, 4, 2, 1),
       {.distribute = true},
       "0-7",
       9,
       "",
       TakeFailure::kNotEnough},
      {"Nothing", Uniform(2, 4, 2, 1), {}, "0-7", 0, ""},
      {"UnevenSocketsCountAsFullByTheAverage", UnevenSockets(), {}, "0-5,8-11", 8, "0-7"},
      {"ASocketOnTwoNumaNodesCountsTwice", SocketOnTwoNumaNodes(), {}, "0,2-6", 5, "0,2-3"},
      {"WithinASocketThoughLessEven",
       Uniform(4, 4, 1, 2),
       {.distribute = true, .within_socket = true, .capped_shares = true},
       "0,2-5,8,13-14",
       5,
       "0,2-5"},
      {"WithinASocketThoughLessEvenBefore137",
       Uniform(4, 4, 1, 2),
       {.distribute = true},
       "0,2-5,8,13-14",
       5,
       "0,2-3,13-14"},
      {"BrokenCoresOnManyNodes",
       Uniform(4, 3, 2, 2),
       {.distribute = true, .group_size = 2},
       "0-7,9-13,16-18,21",
       14,
       "",
       TakeFailure::kEndless},
      {"CappedSharesWithoutARemainder",
       Uniform(5, 3, 2, 5),
       {.distribute = true, .group_size = 2, .within_socket = true, .capped_shares = true},
       "0-3,6-13,15-20,22-25,28",
       20,
       "",
       TakeFailure::kEndless},
      {"CappedSharesWithoutARemainderBefore137",
       Uniform(5, 3, 2, 5),
       {.distribute = true, .group_size = 2},
       "0-3,6-13,15-20,22-25,28",
       20,
       "0-3,6-11,13,15-18,22-25,28"},
  };
  return *rows;
}

TEST(TakeByTopology, AnswersAsTheKubelet) {
  for (const Row& row : Rows()) {
    const Taken taken =
        TakeByTopology(TopologyOf(row.machine), Cpus(row.available), row.count, row.rules);
    EXPECT_EQ(FormatCpuSet(taken.cpus), row.want) << row.name;
    EXPECT_EQ(taken.failure, row.failure) << row.name;
  }
}

TEST(TakeByTopology, OutlandishCountsEndAtOnce) {
  const CpuTopology topology = TopologyOf(Uniform(2, 4, 2, 1, 2));
  for (const AssignmentRules& rules : {AssignmentRules{}, AssignmentRules{.prefer_uncore = true},
                                       AssignmentRules{.distribute = true, .group_size = 2}}) {
    for (const std::int64_t count : {INT64_MIN, std::int64_t{-1}}) {
      const Taken taken = TakeByTopology(topology, topology.all(), count, rules);
      EXPECT_TRUE(taken.cpus.empty());
      EXPECT_EQ(taken.failure, TakeFailure::kNone);
    }
    EXPECT_EQ(TakeByTopology(topology, topology.all(), INT64_MAX, rules).failure,
              TakeFailure::kNotEnough);
  }
}

// Half of the cores broken on each of 24 NUMA nodes: more ways to give the rest than can be tried.
TEST(TakeByTopology, TooManyCombinationsAreNotTried) {
  const CpuTopology topology = TopologyOf(Uniform(24, 4, 2, 24));
  CpuSet available = topology.all();
  for (int core = 0; core < 96; core += 4) available.Remove(core);
  const Taken taken =
      TakeByTopology(topology, available, 100, {.distribute = true, .group_size = 2});
  EXPECT_EQ(taken.failure, TakeFailure::kIntractable);
  EXPECT_TRUE(taken.cpus.empty());
}

// On even machines nothing comes from outside, and nothing is missing.
TEST(TakeByTopology, EvenMachinesGiveWhatIsAskedFor) {
  std::mt19937 random(11);
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  const std::vector<CpuTopology> machines = {TopologyOf(Uniform(2, 8, 2, 1, 4)),
                                             TopologyOf(Uniform(4, 4, 2, 2, 2)),
                                             TopologyOf(TwoSocketsEach(2, 8))};
  for (int i = 0; i < 3000; ++i) {
    const CpuTopology& topology = machines[static_cast<std::size_t>(any(2))];
    CpuSet available;
    topology.all().ForEach([&](int cpu) {
      if (any(4) > 0) available.Add(cpu);
    });
    const int count = any(available.count());
    AssignmentRules rules;
    rules.spread = any(3) == 0;
    rules.prefer_uncore = any(1) == 0;
    const Taken taken = TakeByTopology(topology, available, count, rules);
    ASSERT_EQ(taken.failure, TakeFailure::kNone);
    ASSERT_EQ(taken.cpus.count(), count);
    ASSERT_TRUE(taken.cpus.IsSubsetOf(available));
  }
}

}  // namespace
}  // namespace numafit::policy
