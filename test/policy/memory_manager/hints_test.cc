#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/memory_manager/memory_manager.h"
#include "test/policy/memory_manager/machine.h"

namespace numafit::policy {
namespace {

using testing::Block;
using testing::FreeGib;
using testing::Gib;
using testing::k136;
using testing::k137;
using testing::kGi;
using testing::kHugepages;
using testing::MachineOf;
using testing::Memory;
using testing::Numa;
using testing::On;
using testing::Request;
using testing::Take;
using ListKind = ResourceHints::Kind;
using Outcome = MemoryHints::Outcome;

MemoryHints Ask(const MemoryManager& manager, const MemoryState& state,
                const MemoryRequests& requests) {
  return manager.Hints(state, requests, ReusableMemory());
}
// The masks as numbers, preferred ones negative.
std::vector<int> Masks(const MemoryHints& hints) {
  EXPECT_EQ(hints.outcome, Outcome::kHints);
  std::vector<int> masks;
  for (const NumaMask mask : hints.hints.listed) {
    const int bits = static_cast<int>(mask.bits());
    EXPECT_TRUE(hints.hints.Contains(mask));
    masks.push_back(hints.hints.Prefers(mask) ? -bits : bits);
  }
  return masks;
}
using List = std::vector<int>;

TEST(MemoryHints, AreTheSetsWithEnoughMemory) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  const MemoryState state = manager.InitialState();
  EXPECT_EQ(Masks(Ask(manager, state, Memory(4))), (List{-1, -2, 3}));
  EXPECT_EQ(Masks(Ask(manager, state, Memory(5))), (List{-3}));
  const MemoryHints hints = Ask(manager, state, Memory(4));
  EXPECT_EQ(hints.hints.nodes, Numa({0, 1}));
  EXPECT_EQ(hints.hints.resources, 1);
  EXPECT_TRUE(hints.hints.is_listed);
}

TEST(MemoryHints, NoneAtAllIsNoPreference) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  const MemoryHints hints = Ask(manager, manager.InitialState(), Memory(9));
  EXPECT_EQ(hints.outcome, Outcome::kHints);
  EXPECT_EQ(hints.hints.kind, ListKind::kDontCare);
}

TEST(MemoryHints, TheWidthCountsWhatIsAllocated) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}});
  MemoryState state = manager.InitialState();
  for (const int id : {0, 1, 2}) Take(manager, state, Memory(3), On({id}));
  // One NUMA node could hold 2 GiB if it were empty; none can now, and all are in use alone.
  EXPECT_EQ(Ask(manager, state, Memory(2)).hints.kind, ListKind::kDontCare);
  // In a group two could, but that is not the width of one.
  state = manager.InitialState();
  Take(manager, state, Memory(7), On({0, 1}));
  Take(manager, state, Memory(4), On({2}));
  EXPECT_EQ(Masks(Ask(manager, state, Memory(1))), (List{3}));
}

TEST(MemoryHints, ANodeInAGroupIsNoHintAlone) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(5), On({0, 1}));
  EXPECT_EQ(Masks(Ask(manager, state, Memory(1))), (List{3, -4}));
}

TEST(MemoryHints, ANodeInUseAloneIsInNoSetOfSeveral) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(1), On({1}));
  EXPECT_EQ(Masks(Ask(manager, state, Memory(1))), (List{-1, -2, -4, 5}));
  EXPECT_EQ(Masks(Ask(manager, state, Memory(8))), (List{-5}));
}

TEST(MemoryHints, AGroupIsOneAsAWhole) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}, {4}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(5), On({1, 2}));
  // Neither a part of the group nor more than it.
  EXPECT_EQ(Masks(Ask(manager, state, Memory(2))), (List{-1, 6, -8, 9}));
}

TEST(MemoryHints, AFreeNodeOfABrokenGroupHasStillItsCells) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  MemoryState state = manager.InitialState();
  // By hand: no assignment, but a group, as no sequence leaves it.
  state.nodes[0].cells = Numa({0, 1});
  EXPECT_EQ(Masks(Ask(manager, state, Memory(1))), (List{-2, 3}));
}

TEST(MemoryHints, EveryRequestedTypeMustFitAndHasTheSameList) {
  const MemoryManager manager = MachineOf({{9, 1}, {9, 2}});
  const MemoryState state = manager.InitialState();
  const MemoryHints hints = Ask(manager, state, Request({{kMemoryType, 1}, {kHugepages, 2}}));
  EXPECT_EQ(Masks(hints), (List{-2, 3}));
  EXPECT_EQ(hints.hints.resources, 2);
  EXPECT_EQ(Masks(Ask(manager, state, Request({{kHugepages, 3}}))), (List{-3}));
}

TEST(MemoryHints, ZeroIsARequest) {
  const MemoryManager manager = MachineOf({{5}, {0}});
  EXPECT_EQ(Masks(Ask(manager, manager.InitialState(), Memory(0))), (List{-1, -2, 3}));
}

TEST(MemoryHints, ANegativeRequestIsAHugeOne) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  EXPECT_EQ(Ask(manager, manager.InitialState(), Memory(-1)).hints.kind, ListKind::kDontCare);
}

TEST(MemoryHints, SumsWrapAround) {
  // NUMA node 0 has less than is reserved there: allocatable is huge alone, and small with 1.
  const MemoryManager manager = MachineOf({{0}, {4}});
  EXPECT_EQ(Masks(Ask(manager, manager.InitialState(), Memory(4))), (List{-1, -2}));
  EXPECT_EQ(Masks(Ask(manager, manager.InitialState(), Memory(3))), (List{-1, -2, 3}));
}

TEST(MemoryHints, ATypeThatANodeLacksMakesTheKubeletPanic) {
  const MemoryManager manager = MachineOf({{5, 1}, {4}});
  const MemoryState state = manager.InitialState();
  EXPECT_EQ(Ask(manager, state, Request({{kHugepages, 1}})).outcome, Outcome::kPanics);
  EXPECT_EQ(Ask(manager, state, Request({{kHugepages, 0}})).outcome, Outcome::kPanics);
  EXPECT_EQ(Ask(manager, state, Request({{kMemoryType, 1}, {kUnknownMemoryType, 1}})).outcome,
            Outcome::kPanics);
  EXPECT_EQ(Masks(Ask(manager, state, Memory(1))), (List{-1, -2, 3}));
}

TEST(MemoryHints, MoreThanSixteenNodesAreNotWalked) {
  std::vector<Gib> nodes(16, Gib{4, std::nullopt});
  const MemoryManager sixteen = MachineOf(nodes);
  const MemoryHints hints = Ask(sixteen, sixteen.InitialState(), Memory(4));
  EXPECT_EQ(hints.outcome, Outcome::kHints);
  // All but NUMA node 0 alone, which has 3 GiB.
  EXPECT_EQ(hints.hints.listed.size(), 65534U);
  nodes.push_back({4, std::nullopt});
  const MemoryManager seventeen = MachineOf(nodes);
  EXPECT_EQ(Ask(seventeen, seventeen.InitialState(), Memory(4)).outcome, Outcome::kIntractable);
  EXPECT_EQ(Ask(seventeen, seventeen.InitialState(), Request({{kUnknownMemoryType, 1}})).outcome,
            Outcome::kPanics);
  EXPECT_EQ(Ask(seventeen, seventeen.InitialState(), {}).outcome, Outcome::kIntractable);
  const MemoryManager newer = MachineOf(nodes, k137);
  EXPECT_EQ(Ask(newer, newer.InitialState(), {}).outcome, Outcome::kHints);
}

TEST(MemoryHints, AnUnreadableRequestIsNoPreference) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  MemoryRequests requests = Memory(1);
  requests.unreadable = true;
  const MemoryHints hints = Ask(manager, manager.InitialState(), requests);
  EXPECT_EQ(hints.outcome, Outcome::kHints);
  EXPECT_EQ(hints.hints.kind, ListKind::kDontCare);
}

TEST(MemoryHints, IdsNeedNotBeConsecutive) {
  constexpr std::uint64_t kGib = static_cast<std::uint64_t>(kGi);
  const std::vector<MemoryNodeSpec> nodes = {{.id = 4, .memory = 5 * kGib, .hugepages = {}},
                                             {.id = 1, .memory = 4 * kGib, .hugepages = {}}};
  const std::vector<MemoryReservationSpec> reserved = {{.numa = 4, .type = "memory", .bytes = kGi}};
  const auto manager = MemoryManager::Create(nodes, reserved, std::nullopt, k136);
  ASSERT_TRUE(manager.ok());
  MemoryState state = manager->InitialState();
  EXPECT_EQ(Masks(Ask(*manager, state, Memory(4))), (List{-2, -16, 18}));
  Take(*manager, state, Memory(1), On({4}));
  EXPECT_EQ(FreeGib(state, 1), 3);
  EXPECT_EQ(Masks(Ask(*manager, state, Memory(4))), (List{-2}));
}

TEST(MemoryHints, ReusableMemoryCountsOnTheVerySameSet) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  MemoryState state = manager.InitialState();
  ReusableMemory reusable;
  const MemoryAllocation init = manager.Allocate(state, Memory(4), On({1}), reusable, true);
  ASSERT_TRUE(init.held);
  EXPECT_EQ(reusable.Of(Numa({1}), kMemoryType), std::uint64_t{4} << 30);
  EXPECT_EQ(Masks(manager.Hints(state, Memory(4), reusable)), (List{-1, -2}));
  EXPECT_EQ(Masks(manager.Hints(state, Memory(4), ReusableMemory())), (List{-1}));
}

TEST(RegeneratedHints, AreWhereTheBlocksAre) {
  const ResourceHints hints =
      MemoryManager::RegeneratedHints(Request({{kMemoryType, 2}, {kHugepages, 1}}),
                                      {Block({0, 1}, 2), Block({0, 1}, 1, kHugepages)});
  EXPECT_EQ(hints.kind, ListKind::kMasks);
  EXPECT_TRUE(hints.Contains(Numa({0, 1})));
  EXPECT_TRUE(hints.Prefers(Numa({0, 1})));
  EXPECT_EQ(hints.listed.size(), 1U);
  EXPECT_EQ(hints.resources, 2);
}

TEST(RegeneratedHints, OfOtherSizesOrTypesAreNoPreference) {
  const MemoryBlocks blocks = {Block({0}, 2)};
  EXPECT_EQ(MemoryManager::RegeneratedHints(Memory(2), blocks).kind, ListKind::kMasks);
  EXPECT_EQ(MemoryManager::RegeneratedHints(Memory(3), blocks).kind, ListKind::kDontCare);
  EXPECT_EQ(MemoryManager::RegeneratedHints({}, blocks).kind, ListKind::kDontCare);
  EXPECT_EQ(MemoryManager::RegeneratedHints(Request({{kHugepages, 2}}), blocks).kind,
            ListKind::kDontCare);
  EXPECT_EQ(MemoryManager::RegeneratedHints({}, {}).kind, ListKind::kDontCare);
}

TEST(PodMemoryRequests, AreTheLargerOfAllThatRunTogetherAndOfEachInitContainer) {
  using Kind = ContainerDemand::Kind;
  const std::vector<ContainerMemoryRequests> pod = {
      {Kind::kInit, Memory(6)},    {Kind::kSidecar, Memory(1)}, {Kind::kInit, Memory(6)},
      {Kind::kSidecar, Memory(1)}, {Kind::kApp, Memory(2)},     {Kind::kApp, Memory(2)}};
  EXPECT_EQ(PodMemoryRequests(pod), Memory(7));
  EXPECT_EQ(PodMemoryRequests(std::span(pod).subspan(3)), Memory(5));
}

TEST(PodMemoryRequests, IgnoreTypesThatNoAppContainerRequests) {
  using Kind = ContainerDemand::Kind;
  const std::vector<ContainerMemoryRequests> pod = {
      {Kind::kInit, Request({{kMemoryType, 1}, {kHugepages, 4}})},
      {Kind::kSidecar, Request({{kHugepages, 1}, {kUnknownMemoryType, 1}})},
      {Kind::kApp, Memory(2)}};
  EXPECT_EQ(PodMemoryRequests(pod), Memory(2));
}

TEST(PodMemoryRequests, AreUnreadableWhenOneIs) {
  using Kind = ContainerDemand::Kind;
  std::vector<ContainerMemoryRequests> pod = {{Kind::kInit, {}}, {Kind::kApp, Memory(2)}};
  pod[0].requests.unreadable = true;
  EXPECT_TRUE(PodMemoryRequests(pod).unreadable);
}

TEST(MemoryRequests, AreKeptByTypeAndOnce) {
  MemoryRequests requests;
  requests.Add(kHugepages, 5);
  requests.Add(kUnknownMemoryType, 1);
  requests.Add(kMemoryType, 7);
  requests.Add(kUnknownMemoryType, 2);
  ASSERT_EQ(requests.items.size(), 3U);
  EXPECT_EQ(requests.items[0].type, kUnknownMemoryType);
  EXPECT_EQ(requests.items[1], (MemoryRequests::Item{kMemoryType, 7}));
  EXPECT_EQ(requests.items[2], (MemoryRequests::Item{kHugepages, 5}));
}

}  // namespace
}  // namespace numafit::policy
