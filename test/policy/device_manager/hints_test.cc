#include "policy/device_manager/hints.h"

#include <gtest/gtest.h>

#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using Kind = ResourceHints::Kind;
using testing::kGpu;
using testing::Machine;
using testing::MaskOf;
using testing::Take;

ResourceHints Hints(const Topology& topology, std::int64_t count, const Usage& usage) {
  return DeviceHints(topology, DeviceState(usage), {.pool = 0, .count = count}, true);
}
ResourceHints Hints(const Topology& topology, std::int64_t count) {
  return Hints(topology, count, Usage(topology));
}

TEST(DeviceHints, NoDeviceWithANumaNodeIsNoPreference) {
  EXPECT_EQ(Hints(*Machine(2).Device(kGpu, std::nullopt).Build(), 1).kind, Kind::kDontCare);
  EXPECT_EQ(Hints(*Machine(2).Device(kGpu, std::vector<int>{}).Build(), 1).kind, Kind::kDontCare);
}

TEST(DeviceHints, ANumaNodeThatTheMachineHasNotIsAPreferenceThatNothingMeets) {
  EXPECT_EQ(Hints(*Machine(2).Device(kGpu, std::vector<int>{5}).Build(), 1).kind,
            Kind::kImpossible);
  EXPECT_EQ(Hints(*Machine(2).Device(kGpu, std::vector<int>{-1}).Build(), 1).kind,
            Kind::kImpossible);
}

TEST(DeviceHints, TooFewFreeIsImpossible) {
  const auto topology = Machine(2).Pool(kGpu, {2, 2}).Build();
  Usage usage(*topology);
  Take(*topology, usage, kGpu, {2, 1});
  EXPECT_EQ(Hints(*topology, 1, usage).kind, Kind::kMasks);
  EXPECT_EQ(Hints(*topology, 2, usage).kind, Kind::kImpossible);
}

TEST(DeviceHints, ARequestThatNeedsADeviceWithoutTopologyIsImpossible) {
  const auto topology = Machine(2).Pool(kGpu, {1, 1}).Device(kGpu, std::nullopt).Build();
  EXPECT_EQ(Hints(*topology, 2).kind, Kind::kMasks);
  EXPECT_EQ(Hints(*topology, 3).kind, Kind::kImpossible);
}

TEST(DeviceHints, TheWidthCountsAllocatedAndUnhealthyDevices) {
  const auto topology = Machine(2).Pool(kGpu, {4, 4}).Break(kGpu, 0, 3).Build();
  Usage usage(*topology);
  Take(*topology, usage, kGpu, {0, 3});
  const ResourceHints hints = Hints(*topology, 2, usage);
  EXPECT_EQ(hints.preferred_width, 1);
  EXPECT_FALSE(hints.Contains(MaskOf({0})));
  EXPECT_FALSE(hints.Contains(MaskOf({1})));
  EXPECT_TRUE(hints.Contains(MaskOf({0, 1})));
}

TEST(DeviceHints, ADeviceOnTwoNumaNodesCountsOnBoth) {
  const auto topology =
      Machine(3).Device(kGpu, std::vector<int>{0, 1}).Device(kGpu, std::vector<int>{2}).Build();
  const ResourceHints hints = Hints(*topology, 1);
  EXPECT_TRUE(hints.Contains(MaskOf({0})));
  EXPECT_TRUE(hints.Contains(MaskOf({1})));
  EXPECT_EQ(Hints(*topology, 2).preferred_width, 2);
}

TEST(DeviceHints, SetsAreOfDeviceNodesSince136AndOfTheWholeMachineBefore) {
  const Machine machine = Machine(3).Pool(kGpu, {1});
  EXPECT_EQ(Hints(*Machine(machine).Version(36).Build(), 1).nodes, MaskOf({0}));
  EXPECT_EQ(Hints(*Machine(machine).Version(35).Build(), 1).nodes, MaskOf({0, 1, 2}));
  EXPECT_TRUE(Hints(*Machine(machine).Version(35).Build(), 0).Contains(MaskOf({2})));
}

TEST(DeviceHints, AHintTouchesEveryReusableDevice) {
  const auto topology = Machine(2).Pool(kGpu, {2, 2}).Device(kGpu, std::vector<int>{}).Build();
  // Classes: empty topology, NUMA 0, NUMA 1.
  DeviceState state{Usage(*topology)};
  state.taken[1] = state.reusable[1] = 1;
  const ResourceHints hints = DeviceHints(*topology, state, {0, 1}, true);
  EXPECT_TRUE(hints.Contains(MaskOf({0})));
  EXPECT_FALSE(hints.Contains(MaskOf({1})));
  EXPECT_TRUE(DeviceHints(*topology, state, {0, 1}, false).Contains(MaskOf({1})));
  // A device whose topology names no NUMA node touches nothing.
  state.taken[0] = state.reusable[0] = 1;
  EXPECT_EQ(DeviceHints(*topology, state, {0, 1}, true).kind, Kind::kImpossible);
}

}  // namespace
}  // namespace numafit::policy
