#include "policy/device_manager/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kGpu;
using testing::Machine;
using testing::MaskOf;

AllocationPlan Plan(const Topology& topology, std::int64_t count, std::optional<NumaMask> affinity,
                    std::vector<std::int32_t> taken = {}, std::vector<std::int32_t> reusable = {}) {
  DeviceState state{Usage(topology)};
  for (std::size_t i = 0; i < taken.size(); ++i) state.taken[i] = taken[i];
  for (std::size_t i = 0; i < reusable.size(); ++i) state.reusable[i] = reusable[i];
  return PlanAllocation(topology, state, {.pool = 0, .count = count}, affinity);
}

TEST(PlanAllocation, AlignedDevicesAreTakenFirst) {
  const auto topology = Machine(2).Pool(kGpu, {4, 4}).Build();
  const AllocationPlan plan = Plan(*topology, 3, MaskOf({1}));
  EXPECT_TRUE(plan.possible);
  EXPECT_THAT(plan.taken, ElementsAre(ClassCount{1, 3}));
  EXPECT_THAT(plan.choice, IsEmpty());
}

TEST(PlanAllocation, WithoutAffinityAllDevicesAreAlike) {
  const auto topology = Machine(2).Pool(kGpu, {4, 4}).Build();
  const AllocationPlan plan = Plan(*topology, 3, std::nullopt);
  EXPECT_THAT(plan.taken, IsEmpty());
  EXPECT_THAT(plan.choice, ElementsAre(ClassCount{0, 4}, ClassCount{1, 4}));
  EXPECT_EQ(plan.chosen, 3);
}

TEST(PlanAllocation, OtherNumaNodesComeBeforeDevicesWithoutOne) {
  const auto topology = Machine(2)
                            .Pool(kGpu, {1, 1})
                            .Device(kGpu, std::nullopt)
                            .Device(kGpu, std::vector<int>{})
                            .Build();
  // Classes: no topology, empty topology, NUMA 0, NUMA 1.
  const AllocationPlan two = Plan(*topology, 2, MaskOf({0}));
  EXPECT_THAT(two.taken, ElementsAre(ClassCount{2, 1}, ClassCount{3, 1}));
  const AllocationPlan three = Plan(*topology, 3, MaskOf({0}));
  EXPECT_THAT(three.taken, ElementsAre(ClassCount{2, 1}, ClassCount{3, 1}));
  EXPECT_THAT(three.choice, ElementsAre(ClassCount{0, 1}, ClassCount{1, 1}));
  EXPECT_EQ(three.chosen, 1);
}

TEST(PlanAllocation, ReusableDevicesComeFirstWhateverTheAffinity) {
  const auto topology = Machine(2).Pool(kGpu, {4, 4}).Build();
  const AllocationPlan plan = Plan(*topology, 3, MaskOf({1}), {2, 0}, {2, 0});
  EXPECT_THAT(plan.reused, ElementsAre(ClassCount{0, 2}));
  EXPECT_THAT(plan.taken, ElementsAre(ClassCount{1, 1}));
}

TEST(PlanAllocation, WhichOfTooManyReusableDevicesIsOpen) {
  const auto topology = Machine(2).Pool(kGpu, {4, 4}).Build();
  const AllocationPlan plan = Plan(*topology, 1, MaskOf({1}), {1, 1}, {1, 1});
  EXPECT_TRUE(plan.choose_reusable);
  EXPECT_THAT(plan.choice, ElementsAre(ClassCount{0, 1}, ClassCount{1, 1}));
  EXPECT_EQ(plan.chosen, 1);
}

TEST(PlanAllocation, ThePluginsOrderDecidesInsideTheAlignedAndInsideTheRest) {
  const auto topology =
      Machine(2).Pool(kGpu, {2, 2}).Prefer(kGpu, {"n3", "n1", "n0", "n2"}).Build();
  // Classes are in the plugin's order: n3, n1, n0, n2.
  EXPECT_THAT(Plan(*topology, 1, MaskOf({0})).taken, ElementsAre(ClassCount{1, 1}));
  EXPECT_THAT(Plan(*topology, 3, MaskOf({0})).taken,
              ElementsAre(ClassCount{1, 1}, ClassCount{2, 1}, ClassCount{0, 1}));
}

TEST(PlanAllocation, TooFewFreeDevicesFail) {
  const auto topology = Machine(2).Pool(kGpu, {2, 2}).Build();
  EXPECT_FALSE(Plan(*topology, 3, std::nullopt, {2, 0}).possible);
  EXPECT_TRUE(Plan(*topology, 2, std::nullopt, {2, 0}).possible);
}

TEST(PlanAllocation, WithoutAHealthyDeviceEvenNothingFails) {
  const auto topology = Machine(2).Pool(kGpu, {1, 0}).Break(kGpu, 0, 1).Build();
  EXPECT_FALSE(Plan(*topology, 0, std::nullopt).possible);
  const auto registered = Machine(2).Pool(kGpu, {}).Build();
  EXPECT_FALSE(Plan(*registered, 0, std::nullopt).possible);
}

TEST(ForEachSplit, ListsEverySplitOnce) {
  const ClassCounts classes = {{0, 2}, {1, 1}, {2, 3}};
  std::set<std::vector<int>> seen;
  std::vector<std::vector<int>> order;
  EXPECT_TRUE(ForEachSplit(classes, 3, [&](const auto& split) {
    order.emplace_back(split.begin(), split.end());
    seen.insert(order.back());
    return true;
  }));
  EXPECT_EQ(order.size(), seen.size());
  EXPECT_EQ(order.front(), (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(order.back(), (std::vector<int>{0, 0, 3}));
  EXPECT_EQ(seen.size(), 6U);
  int visited = 0;
  EXPECT_FALSE(ForEachSplit(classes, 3, [&](const auto&) { return ++visited < 2; }));
  EXPECT_EQ(visited, 2);
}

}  // namespace
}  // namespace numafit::policy
