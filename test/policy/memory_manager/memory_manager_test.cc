#include "policy/memory_manager/memory_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "test/policy/memory_manager/machine.h"

namespace numafit::policy {
namespace {

using testing::Block;
using ::testing::ElementsAre;
using testing::FreeGib;
using ::testing::HasSubstr;
using testing::k136;
using testing::kGi;
using testing::kHugepages;
using testing::MachineOf;
using testing::Memory;
using testing::Numa;
using testing::On;
using testing::Take;
using Restored = MemoryManager::Restored;

constexpr std::uint64_t kGib = static_cast<std::uint64_t>(kGi);

TEST(MemoryManagerCreate, WhatContainersCanHaveIsWithoutHugepagesAndReservations) {
  const std::vector<MemoryNodeSpec> nodes = {
      {.id = 3, .memory = 10 * kGib, .hugepages = {{"hugepages-2Mi", kGib}}},
      {.id = 0,
       .memory = 8 * kGib,
       .hugepages = {{"hugepages-2Mi", kGib}, {"hugepages-1Gi", 2 * kGib}}}};
  const std::vector<MemoryReservationSpec> reserved = {
      {.numa = 0, .type = "memory", .bytes = kGi},
      {.numa = 3, .type = "hugepages-2Mi", .bytes = kGi / 2}};
  const auto manager = MemoryManager::Create(
      nodes, reserved,
      std::map<std::string, std::int64_t>{{"cpu", 7}, {"memory", kGi}, {"hugepages-2Mi", kGi / 2}},
      k136);
  ASSERT_TRUE(manager.ok()) << manager.status();
  EXPECT_THAT(manager->numa_ids(), ElementsAre(0, 3));
  EXPECT_THAT(manager->types(), ElementsAre("memory", "hugepages-1Gi", "hugepages-2Mi"));
  EXPECT_EQ(manager->FindType("hugepages-2Mi"), 2);
  EXPECT_EQ(manager->FindType("hugepages-64Ki"), kUnknownMemoryType);
  EXPECT_EQ(manager->allocatable(0, 0), 4 * kGib);
  EXPECT_EQ(manager->allocatable(0, 1), 2 * kGib);
  EXPECT_EQ(manager->allocatable(1, 0), 9 * kGib);
  EXPECT_EQ(manager->allocatable(1, 2), kGib / 2);
  EXPECT_TRUE(manager->HasType(0, 1));
  EXPECT_FALSE(manager->HasType(3, 1));
  const MemoryState state = manager->InitialState();
  EXPECT_EQ(state.at(0, 0).free, 4 * kGib);
  EXPECT_EQ(state.nodes[1].cells, Numa({3}));
  EXPECT_EQ(state.nodes[1].assignments, 0);
}

TEST(MemoryManagerCreate, MoreReservedThanThereIsWrapsAround) {
  const std::vector<MemoryNodeSpec> nodes = {{.id = 0, .memory = kGib, .hugepages = {}}};
  const std::vector<MemoryReservationSpec> reserved = {
      {.numa = 0, .type = "memory", .bytes = kGi + 1}};
  const auto manager = MemoryManager::Create(nodes, reserved, std::nullopt, k136);
  ASSERT_TRUE(manager.ok());
  EXPECT_EQ(manager->allocatable(0, 0), ~std::uint64_t{0});
}

TEST(MemoryManagerCreate, OfTwoReservationsOfOneNodeTheLaterCountsButBothAddUp) {
  const std::vector<MemoryNodeSpec> nodes = {{.id = 0, .memory = 4 * kGib, .hugepages = {}}};
  const std::vector<MemoryReservationSpec> reserved = {
      {.numa = 0, .type = "memory", .bytes = 2 * kGi}, {.numa = 0, .type = "memory", .bytes = kGi}};
  const auto manager = MemoryManager::Create(
      nodes, reserved, std::map<std::string, std::int64_t>{{"memory", 3 * kGi}}, k136);
  ASSERT_TRUE(manager.ok());
  EXPECT_EQ(manager->allocatable(0, 0), 3 * kGib);
}

struct Refusal {
  const char* name;
  std::vector<MemoryNodeSpec> nodes;
  std::vector<MemoryReservationSpec> reserved;
  std::optional<std::map<std::string, std::int64_t>> node_reservation;
  const char* says;
};
void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class MemoryManagerRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(MemoryManagerRefuses, ToStart) {
  const Refusal& r = GetParam();
  const auto manager = MemoryManager::Create(r.nodes, r.reserved, r.node_reservation, k136);
  EXPECT_EQ(manager.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(manager.status().message()), HasSubstr(r.says));
}

const MemoryNodeSpec kNode0{.id = 0, .memory = 4 * kGib, .hugepages = {}};
INSTANTIATE_TEST_SUITE_P(
    Cases, MemoryManagerRefuses,
    ::testing::Values(
        Refusal{"NothingReserved", {kNode0}, {}, std::nullopt, "reserved for the system"},
        Refusal{"OnlyHugepagesReserved",
                {kNode0},
                {{.numa = 0, .type = "hugepages-2Mi", .bytes = 1}},
                std::nullopt,
                "reserved for the system"},
        Refusal{"UnknownNumaNode",
                {kNode0},
                {{.numa = 1, .type = "memory", .bytes = 1}},
                std::nullopt,
                "NUMA node 1"},
        Refusal{"SumDiffers",
                {kNode0},
                {{.numa = 0, .type = "memory", .bytes = 1}},
                {{{"memory", 2}}},
                "memory does not add up"},
        Refusal{"NodeReservesHugepagesToo",
                {kNode0},
                {{.numa = 0, .type = "memory", .bytes = 1}},
                {{{"memory", 1}, {"hugepages-2Mi", 1}}},
                "hugepages-2Mi does not add up"},
        Refusal{"NodeReservesNothing",
                {kNode0},
                {{.numa = 0, .type = "memory", .bytes = 1}},
                std::map<std::string, std::int64_t>{},
                "memory does not add up"},
        Refusal{"IdTwice", {kNode0, kNode0}, {}, std::nullopt, "twice"},
        Refusal{"IdTooLarge", {{.id = 64, .memory = 1, .hugepages = {}}}, {}, std::nullopt, "64"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(MemoryState, IsOrderedAndComparedAsAValue) {
  const MemoryManager manager = MachineOf({{9}, {8}});
  const MemoryState before = manager.InitialState();
  MemoryState after = before;
  EXPECT_EQ(before, after);
  ASSERT_TRUE(Take(manager, after, Memory(1), On({1})).held);
  EXPECT_NE(before, after);
  EXPECT_TRUE(before < after);
}

TEST(MemoryManagerRelease, GivesBackFromTheFirstNodeOn) {
  const MemoryManager manager = MachineOf({{9}, {8}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(10), On({0, 1}));  // 8 + 2
  Take(manager, state, Memory(6), On({0, 1}));   // 0 + 6
  EXPECT_EQ(FreeGib(state, 0), 0);
  EXPECT_EQ(FreeGib(state, 1), 0);
  // The second allocation lay on NUMA node 1; its release frees NUMA node 0.
  manager.Release(state, std::vector{Block({0, 1}, 6)});
  EXPECT_EQ(FreeGib(state, 0), 6);
  EXPECT_EQ(FreeGib(state, 1), 0);
  EXPECT_EQ(state.nodes[0].assignments, 1);
  EXPECT_EQ(state.nodes[0].cells, Numa({0, 1}));
  manager.Release(state, std::vector{Block({0, 1}, 10)});
  EXPECT_EQ(state, manager.InitialState());
}

TEST(MemoryManagerRelease, OfAllThatOverlapsCanLoseTheOrder) {
  const MemoryManager manager = MachineOf({{9}, {8}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(12), On({0, 1}));  // 8 + 4
  MemoryState other = state;
  // A single NUMA node is not asked whether it is in a group.
  ASSERT_TRUE(Take(manager, state, Memory(2), On({1})).held);
  EXPECT_EQ(state.nodes[1].cells, Numa({1}));
  EXPECT_EQ(state.nodes[0].cells, Numa({0, 1}));
  const std::vector both = {Block({0, 1}, 12), Block({1}, 2)};
  EXPECT_TRUE(ReleaseOrderMatters(both));
  other = state;
  manager.Release(state, both);
  EXPECT_EQ(state, manager.InitialState());
  manager.Release(other, std::vector{Block({1}, 2)});
  EXPECT_EQ(FreeGib(other, 1), 4);
}

TEST(ReleaseOrderMatters, OnlyWhenSetsOverlapAndDiffer) {
  EXPECT_FALSE(ReleaseOrderMatters({}));
  EXPECT_FALSE(ReleaseOrderMatters(std::vector{Block({0, 1}, 1), Block({0, 1}, 2)}));
  EXPECT_FALSE(ReleaseOrderMatters(std::vector{Block({0}, 1), Block({1, 2}, 2)}));
  EXPECT_FALSE(ReleaseOrderMatters(std::vector{Block({0}, 1), Block({0, 1}, 2, kHugepages)}));
  EXPECT_FALSE(ReleaseOrderMatters(std::vector{Block({0}, 0), Block({0, 1}, 2)}));
  EXPECT_TRUE(ReleaseOrderMatters(std::vector{Block({2}, 1), Block({0}, 1), Block({0, 1}, 2)}));
}

TEST(ReleaseOrderMatters, WhereItDoesNotEveryOrderGivesTheSameState) {
  const MemoryManager manager = MachineOf({{9, 4}, {8, 4}, {8, 4}, {8, 4}});
  std::mt19937 random(1);
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  int indifferent = 0;
  for (int round = 0; round < 3000; ++round) {
    MemoryState state = manager.InitialState();
    std::vector<MemoryBlock> blocks;
    for (std::uint64_t i = 0, n = 2 + pick(4); i < n; ++i) {
      const Hint hint{.affinity = NumaMask::FromBits(1 + pick(15)), .preferred = false};
      MemoryRequests requests;
      requests.Add(static_cast<int>(pick(2)), static_cast<std::int64_t>(pick(9)) * kGi);
      for (const MemoryBlock& block : Take(manager, state, requests, hint).blocks) {
        blocks.push_back(block);
      }
    }
    if (ReleaseOrderMatters(blocks)) continue;
    ++indifferent;
    // Some containers stay, so that what is lost would show.
    blocks.resize((blocks.size() + 1) / 2);
    MemoryState after = state;
    manager.Release(after, blocks);
    for (int order = 0; order < 4; ++order) {
      std::shuffle(blocks.begin(), blocks.end(), random);
      MemoryState other = state;
      manager.Release(other, blocks);
      ASSERT_EQ(other, after) << "round " << round;
    }
  }
  EXPECT_GT(indifferent, 500);
}

TEST(MemoryManagerStartContainer, FreesRegularInitContainersBeforeIt) {
  const MemoryManager manager = MachineOf({{9}, {8}});
  using Kind = ContainerDemand::Kind;
  std::vector<ContainerMemory> pod;
  MemoryState state = manager.InitialState();
  for (const Kind kind : {Kind::kInit, Kind::kSidecar, Kind::kInit, Kind::kApp}) {
    pod.push_back({kind, true, Take(manager, state, Memory(1), On({0})).blocks});
  }
  ASSERT_EQ(FreeGib(state, 0), 4);
  // The second init container starts: the first is over, itself it is not.
  manager.StartContainer(state, pod, 2);
  EXPECT_EQ(FreeGib(state, 0), 5);
  EXPECT_FALSE(pod[0].held);
  EXPECT_TRUE(pod[0].blocks.empty());
  EXPECT_TRUE(pod[2].held);
  manager.StartContainer(state, pod, 3);
  manager.StartContainer(state, pod, 3);
  EXPECT_EQ(FreeGib(state, 0), 6);
  EXPECT_TRUE(pod[1].held);
  EXPECT_EQ(state.nodes[0].assignments, 2);
}

TEST(MemoryManagerValidate, TheStateMustBeTheSumOfTheBlocks) {
  const MemoryManager manager = MachineOf({{9}, {8}, {8}});
  MemoryState state = manager.InitialState();
  EXPECT_EQ(manager.Validate(state, {}), Restored::kAccepted);
  Take(manager, state, Memory(10), On({0, 1}));
  Take(manager, state, Memory(2), On({2}));
  const std::vector blocks = {Block({2}, 2), Block({0, 1}, 10)};
  EXPECT_EQ(manager.Validate(state, blocks), Restored::kAccepted);
  EXPECT_EQ(manager.Validate(state, std::span(blocks).first(1)), Restored::kRefused);
  EXPECT_EQ(manager.Validate(manager.InitialState(), blocks), Restored::kRefused);
  EXPECT_EQ(manager.Validate(state, std::vector{Block({2}, 1), Block({0, 1}, 10)}),
            Restored::kRefused);
  EXPECT_EQ(manager.Validate(state, std::vector{Block({5}, 2)}), Restored::kRefused);
  EXPECT_EQ(manager.Validate(state, std::vector{Block({0}, 2, kHugepages)}), Restored::kRefused);
}

TEST(MemoryManagerValidate, WithinAGroupOnlyTheSumCounts) {
  const MemoryManager manager = MachineOf({{9}, {8}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(8), On({0, 1}, false));
  Take(manager, state, Memory(6), On({0, 1}));
  manager.Release(state, std::vector{Block({0, 1}, 8)});
  ASSERT_EQ(FreeGib(state, 1), 2);  // a fresh allocation would lie on NUMA node 0
  EXPECT_EQ(manager.Validate(state, std::vector{Block({0, 1}, 6)}), Restored::kAccepted);
}

TEST(MemoryManagerValidate, OverlappingBlocksLeaveItToTheOrder) {
  const MemoryManager manager = MachineOf({{9}, {8}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(12), On({0, 1}));
  Take(manager, state, Memory(2), On({1}));
  EXPECT_EQ(manager.Validate(state, std::vector{Block({1}, 2), Block({0, 1}, 12)}),
            Restored::kOrderDecides);
}

TEST(MemoryManagerValidate, AGroupWithAndWithoutAHugepageSizeIsRefused) {
  const MemoryManager manager = MachineOf({{9, 1}, {8}});
  MemoryState state = manager.InitialState();
  ASSERT_TRUE(Take(manager, state, Memory(12), On({0, 1})).held);
  EXPECT_EQ(manager.Validate(state, std::vector{Block({0, 1}, 12)}), Restored::kRefused);
}

}  // namespace
}  // namespace numafit::policy
