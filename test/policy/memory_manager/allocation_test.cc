#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/memory_manager/memory_manager.h"
#include "test/policy/memory_manager/machine.h"

namespace numafit::policy {
namespace {

using testing::Block;
using ::testing::ElementsAre;
using testing::FreeGib;
using testing::Gib;
using testing::k137;
using testing::kAnywhere;
using testing::kHugepages;
using testing::kNobodyAsked;
using testing::MachineOf;
using testing::Memory;
using testing::Numa;
using testing::On;
using testing::Request;
using testing::Take;
using Outcome = MemoryAllocation::Outcome;

TEST(MemoryAllocate, TakesFromTheFirstNodeOfTheAffinityOn) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}});
  MemoryState state = manager.InitialState();
  const MemoryAllocation got = Take(manager, state, Memory(6), On({1, 2}));
  EXPECT_EQ(got.outcome, Outcome::kAllocated);
  EXPECT_TRUE(got.held);
  EXPECT_THAT(got.blocks, ElementsAre(Block({1, 2}, 6)));
  EXPECT_EQ(FreeGib(state, 1), 0);
  EXPECT_EQ(FreeGib(state, 2), 2);
  EXPECT_EQ(state.nodes[2].cells, Numa({1, 2}));
  EXPECT_EQ(state.nodes[0].assignments, 0);
}

TEST(MemoryAllocate, CountsAnAssignmentPerType) {
  const MemoryManager manager = MachineOf({{9, 2}, {9, 2}});
  MemoryState state = manager.InitialState();
  const MemoryAllocation got =
      Take(manager, state, Request({{kHugepages, 1}, {kMemoryType, 3}}), On({1}));
  EXPECT_THAT(got.blocks, ElementsAre(Block({1}, 3), Block({1}, 1, kHugepages)));
  EXPECT_EQ(state.nodes[1].assignments, 2);
  EXPECT_EQ(FreeGib(state, 1, kHugepages), 1);
}

struct Refused {
  const char* name;
  // What is there before, each allocated with its affinity.
  std::vector<std::pair<MemoryRequests, Hint>> before;
  MemoryRequests requests;
  Hint hint;
  Outcome outcome;
};
void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.name;
}

// Three NUMA nodes with 4 GiB of memory and 2 GiB of hugepages each.
class MemoryAllocateRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(MemoryAllocateRefuses, AndLeavesTheStateAlone) {
  const Refused& r = GetParam();
  const MemoryManager manager = MachineOf({{7, 2}, {6, 2}, {6, 2}});
  MemoryState state = manager.InitialState();
  for (const auto& [requests, hint] : r.before) {
    ASSERT_EQ(Take(manager, state, requests, hint).outcome, Outcome::kAllocated);
  }
  const MemoryState before = state;
  const MemoryAllocation got = Take(manager, state, r.requests, r.hint);
  EXPECT_EQ(got.outcome, r.outcome);
  EXPECT_FALSE(got.held);
  EXPECT_TRUE(got.blocks.empty());
  EXPECT_EQ(state, before);
}

MemoryRequests Unreadable() {
  MemoryRequests requests = Memory(1);
  requests.unreadable = true;
  return requests;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, MemoryAllocateRefuses,
    ::testing::Values(
        Refused{"Unreadable", {}, Unreadable(), On({0}), Outcome::kUnreadableRequest},
        // The empty list passed the merge as no preference.
        Refused{"NothingHasRoom", {}, Memory(13), kAnywhere, Outcome::kNoDefaultHint},
        Refused{"NothingRequestedAndNoAffinity", {}, {}, kAnywhere, Outcome::kNoDefaultHint},
        Refused{"OnlyAGroupHasRoom",
                {{Memory(5), On({0, 1})}, {Memory(4), On({2})}},
                Memory(1),
                kAnywhere,
                Outcome::kDefaultHintNotPreferred},
        Refused{"HugepagesAloneWithoutAffinity",
                {},
                Request({{kHugepages, 1}}),
                kAnywhere,
                Outcome::kDefaultHintNotPreferred},
        Refused{"HugepagesAloneWhenNobodyAsked",
                {},
                Request({{kHugepages, 1}}),
                kNobodyAsked,
                Outcome::kPanics},
        Refused{"HugepagesAloneWithoutRoomAnywhere",
                {},
                Request({{kHugepages, 9}}),
                kNobodyAsked,
                Outcome::kNoDefaultHint},
        Refused{"HugepagesAloneWithAnAffinityThatLacksThem",
                {},
                Request({{kHugepages, 3}}),
                On({0}),
                Outcome::kNoExtendedHint},
        Refused{"NoWiderSetHasRoom",
                {{Memory(3), On({0})}, {Memory(3), On({1})}, {Memory(3), On({2})}},
                Memory(2),
                On({0}, false),
                Outcome::kNoExtendedHint},
        Refused{"NothingThatIncludesItHasRoom",
                {{Memory(5), On({0, 1})}},
                Memory(4),
                On({1}),
                Outcome::kNoExtendedHint},
        Refused{"OneCouldHoldItButOnlyTwoHaveRoom",
                {{Memory(6), On({0, 1})}},
                Memory(2),
                On({0}),
                Outcome::kExtendedHintNotPreferred},
        Refused{"ASetWithANodeInUseAlone",
                {{Memory(1), On({0})}},
                Memory(2),
                On({0, 1}),
                Outcome::kGroupViolation},
        Refused{"ASetThatCutsAGroup",
                {{Memory(5), On({0, 1})}},
                Memory(2),
                On({1, 2}),
                Outcome::kGroupViolation},
        Refused{
            "UnknownHugepages", {}, Request({{kUnknownMemoryType, 0}}), On({0}), Outcome::kPanics},
        Refused{"UnknownHugepagesWithoutAffinity",
                {},
                Request({{kUnknownMemoryType, 1}}),
                kAnywhere,
                Outcome::kPanics},
        Refused{"ANodeThatIsNotThere", {}, Memory(1), On({0, 9}), Outcome::kPanics}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(MemoryAllocate, FindsItsOwnPlaceWithoutAnAffinity) {
  const MemoryManager manager = MachineOf({{3}, {4}, {4}});
  MemoryState state = manager.InitialState();
  EXPECT_THAT(Take(manager, state, Memory(3), kAnywhere).blocks, ElementsAre(Block({1}, 3)));
  EXPECT_THAT(Take(manager, state, Memory(6), kAnywhere).blocks, ElementsAre(Block({0, 2}, 6)));
  EXPECT_EQ(Take(manager, state, Memory(1), kAnywhere).outcome, Outcome::kAllocated);
}

TEST(MemoryAllocate, WidensAnAffinityThatHasTooLittle) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}});
  MemoryState state = manager.InitialState();
  EXPECT_THAT(Take(manager, state, Memory(8), On({2})).blocks, ElementsAre(Block({0, 2}, 8)));
}

TEST(MemoryAllocate, WidensToAWiderSetWhenTheMergeWasNotPreferred) {
  const MemoryManager manager = MachineOf({{5}, {4}, {4}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(6), On({0, 1}));  // 4 + 2
  EXPECT_EQ(Take(manager, state, Memory(1), On({0})).outcome, Outcome::kExtendedHintNotPreferred);
  EXPECT_THAT(Take(manager, state, Memory(1), On({0}, false)).blocks,
              ElementsAre(Block({0, 1}, 1)));
}

TEST(MemoryAllocate, DoesNotAskASingleNodeForItsGroup) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  MemoryState state = manager.InitialState();
  Take(manager, state, Memory(6), On({0, 1}));
  EXPECT_THAT(Take(manager, state, Memory(1), On({1})).blocks, ElementsAre(Block({1}, 1)));
  EXPECT_EQ(state.nodes[1].cells, Numa({1}));
  // Now the group is broken for good.
  EXPECT_EQ(Take(manager, state, Memory(1), On({0, 1})).outcome, Outcome::kGroupViolation);
}

TEST(MemoryAllocate, NothingRequestedIsAnEmptyEntryBefore137AndNoneSince) {
  const MemoryManager older = MachineOf({{5}, {4}});
  MemoryState state = older.InitialState();
  const MemoryAllocation got = Take(older, state, {}, On({0}));
  EXPECT_EQ(got.outcome, Outcome::kAllocated);
  EXPECT_TRUE(got.held);
  EXPECT_TRUE(got.blocks.empty());
  Take(older, state, Memory(1), On({0}));
  EXPECT_EQ(Take(older, state, {}, On({0, 1})).outcome, Outcome::kGroupViolation);

  const MemoryManager newer = MachineOf({{5}, {4}}, k137);
  EXPECT_EQ(Take(newer, state, {}, On({0, 1})).outcome, Outcome::kAllocated);
  EXPECT_FALSE(Take(newer, state, {}, kAnywhere).held);
  EXPECT_EQ(Take(newer, state, Memory(0), On({0, 1})).outcome, Outcome::kGroupViolation);
}

TEST(MemoryAllocate, MoreThanSixteenNodesAreNotWalkedButAnAffinityWithRoomIsTaken) {
  const MemoryManager manager = MachineOf(std::vector<Gib>(17, Gib{4, std::nullopt}));
  MemoryState state = manager.InitialState();
  EXPECT_EQ(Take(manager, state, Memory(4), kAnywhere).outcome, Outcome::kIntractable);
  EXPECT_EQ(Take(manager, state, Memory(5), On({3})).outcome, Outcome::kIntractable);
  EXPECT_EQ(Take(manager, state, Memory(4), On({3})).outcome, Outcome::kAllocated);
}

TEST(MemoryReuse, AnAppContainerTakesWhatInitContainersLeft) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  MemoryState state = manager.InitialState();
  ReusableMemory reusable;
  using Kind = ContainerDemand::Kind;
  std::vector<ContainerMemory> pod(4);
  const auto place = [&](std::size_t at, Kind kind, std::int64_t gib) {
    const MemoryAllocation got =
        manager.Allocate(state, Memory(gib), On({1}), reusable, kind == Kind::kInit);
    ASSERT_EQ(got.outcome, Outcome::kAllocated);
    EXPECT_EQ(got.blocks[0].size, static_cast<std::uint64_t>(gib) << 30);
    pod[at] = {kind, true, got.blocks};
    ShrinkReusedBlocks(std::span(pod).first(at), got.blocks);
  };
  place(0, Kind::kInit, 2);
  EXPECT_EQ(FreeGib(state, 1), 2);
  place(1, Kind::kInit, 3);  // 2 of them again
  EXPECT_EQ(FreeGib(state, 1), 1);
  EXPECT_THAT(pod[0].blocks, ElementsAre(Block({1}, 0)));
  place(2, Kind::kSidecar, 1);
  EXPECT_EQ(FreeGib(state, 1), 1);
  EXPECT_THAT(pod[1].blocks, ElementsAre(Block({1}, 2)));
  EXPECT_EQ(reusable.Of(Numa({1}), kMemoryType), std::uint64_t{2} << 30);
  // Free memory alone is too little, so the affinity is "widened", to itself.
  place(3, Kind::kApp, 3);
  EXPECT_EQ(FreeGib(state, 1), 0);
  EXPECT_EQ(reusable.Of(Numa({1}), kMemoryType), 0U);
  EXPECT_THAT(pod[1].blocks, ElementsAre(Block({1}, 0)));
  for (const ContainerMemory& container : pod) manager.Release(state, container.blocks);
  EXPECT_EQ(state, manager.InitialState());
}

TEST(MemoryReuse, OnAnotherSetIsNone) {
  const MemoryManager manager = MachineOf({{5}, {4}});
  MemoryState state = manager.InitialState();
  ReusableMemory reusable;
  std::vector<ContainerMemory> pod(1);
  pod[0] = {ContainerDemand::Kind::kInit, true,
            manager.Allocate(state, Memory(3), On({0}), reusable, true).blocks};
  const MemoryAllocation app = manager.Allocate(state, Memory(2), On({1}), reusable, false);
  ShrinkReusedBlocks(pod, app.blocks);
  EXPECT_EQ(FreeGib(state, 1), 2);
  EXPECT_THAT(pod[0].blocks, ElementsAre(Block({0}, 3)));
}

TEST(MemoryReuse, SidecarsBlocksAreNotShrunk) {
  std::vector<ContainerMemory> pod(1);
  pod[0] = {ContainerDemand::Kind::kSidecar, true, {Block({0}, 3)}};
  ShrinkReusedBlocks(pod, {Block({0}, 2)});
  EXPECT_THAT(pod[0].blocks, ElementsAre(Block({0}, 3)));
}

TEST(MemoryReuse, ATypeIsUsedAgainAsItself) {
  const MemoryManager manager = MachineOf({{9, 2}, {9, 2}});
  MemoryState state = manager.InitialState();
  ReusableMemory reusable;
  const MemoryRequests both = Request({{kMemoryType, 1}, {kHugepages, 2}});
  ASSERT_TRUE(manager.Allocate(state, both, On({0}), reusable, true).held);
  ASSERT_TRUE(manager.Allocate(state, Request({{kHugepages, 1}}), On({0}), reusable, false).held ==
              false);
  ASSERT_TRUE(manager.Allocate(state, both, On({0}), reusable, false).held);
  EXPECT_EQ(FreeGib(state, 0, kHugepages), 0);
  EXPECT_EQ(FreeGib(state, 0), 5);
}

}  // namespace
}  // namespace numafit::policy
