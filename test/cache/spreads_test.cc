#include "cache/spreads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "policy/admit.h"
#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

policy::Usage RandomUsage(const policy::Topology& topology, std::mt19937& random) {
  policy::Usage usage(topology);
  for (int i = 0; i < static_cast<int>(topology.classes().size()); ++i) {
    const auto count = static_cast<unsigned>(topology.classes()[static_cast<std::size_t>(i)].count);
    const int taken = static_cast<int>(random() % (count + 1));
    if (taken > 0) usage.Add({{i, taken}});
  }
  return usage;
}

int CountOf(const policy::DeviceHolding& holding) {
  int count = 0;
  for (const policy::ClassCount& item : holding) count += item.count;
  return count;
}

class EveryMachine : public ::testing::TestWithParam<test::Machine> {};

TEST_P(EveryMachine, WhatTheKubeletPicksIsAmongThePossiblePicks) {
  std::mt19937 random(3);
  const auto topology = test::Make(GetParam());
  int checked = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto demand = test::RandomDemand(random);
    const policy::Usage usage = RandomUsage(*topology, random);
    const std::vector<policy::DeviceHolding> picks = PossiblePicks(*topology, *demand, 4096);
    for (const policy::Outcome& outcome : policy::Admit(*topology, usage, *demand).outcomes) {
      if (!outcome.admitted) continue;
      ++checked;
      ASSERT_NE(std::find(picks.begin(), picks.end(), outcome.held.devices), picks.end())
          << GetParam().name << ", case " << i;
    }
  }
  EXPECT_GT(checked, 200);
}

TEST_P(EveryMachine, TotalsAreWhatThePodTakes) {
  std::mt19937 random(4);
  const auto topology = test::Make(GetParam());
  for (int i = 0; i < 500; ++i) {
    const auto demand = test::RandomDemand(random);
    int total = 0;
    for (const auto& [pool, count] : TotalsOf(*topology, *demand)) total += count;
    const policy::AdmitResult result = policy::Admit(*topology, policy::Usage(*topology), *demand);
    for (const policy::Outcome& outcome : result.outcomes) {
      if (!outcome.admitted) continue;
      ASSERT_EQ(CountOf(outcome.held.devices), total);
    }
  }
}

TEST_P(EveryMachine, ExtremesAreAmongAllSpreads) {
  std::mt19937 random(5);
  const auto topology = test::Make(GetParam());
  for (int i = 0; i < 200; ++i) {
    const policy::Usage usage = RandomUsage(*topology, random);
    const PoolTotals totals = TotalsOf(*topology, *test::RandomDemand(random));
    const std::vector<policy::DeviceHolding> all = AllSpreads(*topology, usage, totals, 100'000);
    ASSERT_FALSE(all.empty());
    const std::set<policy::DeviceHolding> set(all.begin(), all.end());
    EXPECT_EQ(set.size(), all.size());
    const std::vector<policy::DeviceHolding> some = ExtremeSpreads(*topology, usage, totals, 8);
    EXPECT_FALSE(some.empty());
    EXPECT_LE(some.size(), 8U);
    for (const policy::DeviceHolding& spread : some) {
      EXPECT_TRUE(set.contains(spread)) << GetParam().name << ", case " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spreads, EveryMachine, ::testing::ValuesIn(test::kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

TEST(Spreads, AreCountedAndBounded) {
  const auto topology = test::Make(test::kEven);
  const policy::Usage empty(*topology);
  const int gpu = topology->FindPool(test::kGpu);
  EXPECT_EQ(AllSpreads(*topology, empty, {}, 10).size(), 1U);
  EXPECT_EQ(AllSpreads(*topology, empty, {{gpu, 4}}, 10).size(), 5U);  // 4+0 … 0+4
  EXPECT_TRUE(AllSpreads(*topology, empty, {{gpu, 4}}, 4).empty());
  EXPECT_EQ(AllSpreads(*topology, empty, {{gpu, 99}}, 10).size(), 1U) << "cut to what there is";
}

}  // namespace
}  // namespace numafit::cache
