#include "cache/what_if.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/fleet.h"
#include "policy/score/score_strategy.h"
#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

using numafit::test::kEven;
using numafit::test::kGpu;
using numafit::test::kRdma;
using numafit::test::Machine;
using numafit::test::Want;

std::unique_ptr<Fleet> FleetOf(const Machine& machine, int nodes) {
  FleetFile file;
  const auto topology = numafit::test::Make(machine);
  for (int i = 0; i < nodes; ++i) {
    file.nodes.push_back({.name = "n" + std::to_string(i),
                          .shape = "s",
                          .labels = {},
                          .kubelet_version = "v1.36.3",
                          .topology = topology});
  }
  return Fleet::FromFile(file, {}, {}).value();
}

// A Pod that runs on the node.
api::Pod Running(const std::string& name, const std::string& node, int gpus, int endpoints) {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-" + name;
  pod.node_name = node;
  pod.status.phase = "Running";
  pod.status.container_statuses = 1;
  api::Container& container = pod.containers.emplace_back();
  container.name = "main";
  if (gpus > 0) container.resources.limits[kGpu] = api::Quantity::FromInt(gpus);
  if (endpoints > 0) container.resources.limits[kRdma] = api::Quantity::FromInt(endpoints);
  return pod;
}

bool Everywhere(std::string_view) {
  return true;
}

TEST(WhatIf, PlacesWhatTheFleetHasRoomFor) {
  const auto fleet = FleetOf(kEven, 2);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(4, 4), 10, Everywhere).placed, 4);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(2, 2), 10, Everywhere).placed, 8);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(3, 3), 10, Everywhere).placed, 4);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(5, 5), 10, Everywhere).placed, 0);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(1, 1), 3, Everywhere).placed, 3);
  fleet->UpsertPod(Running("a", "n0", 1, 1));
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(4, 4), 10, Everywhere).placed, 3);
}

TEST(WhatIf, APlacedPodCountsForTheNextAndCanBeTakenBack) {
  const auto fleet = FleetOf(kEven, 1);
  const auto plan = fleet->MakeWhatIf(nullptr);
  EXPECT_EQ(plan->Place(*Want(4, 4), 1, Everywhere).placed, 1);
  plan->Keep();
  EXPECT_EQ(plan->Place(*Want(2, 2), 5, Everywhere).placed, 2);
  EXPECT_EQ(plan->Place(*Want(1, 1), 1, Everywhere).placed, 0);
  plan->Undo();
  EXPECT_EQ(plan->Place(*Want(4, 4), 5, Everywhere).placed, 1) << "the kept one is still there";
  plan->Undo();
  plan->Undo();
  EXPECT_EQ(plan->Place(*Want(4, 4), 5, Everywhere).placed, 1);
  EXPECT_EQ(fleet->stats().reservations, 0U) << "the fleet itself knows nothing of it";
}

TEST(WhatIf, OnlyWhereItIsAllowed) {
  const auto fleet = FleetOf(kEven, 3);
  const auto plan = fleet->MakeWhatIf(nullptr);
  EXPECT_EQ(plan->Place(*Want(4, 4), 9, [](std::string_view node) { return node == "n1"; }).placed,
            2);
  EXPECT_EQ(plan->Place(*Want(4, 4), 9, [](std::string_view) { return false; }).placed, 0);
  EXPECT_EQ(plan->Place(*Want(4, 4), 9, Everywhere).placed, 4);
}

TEST(WhatIf, APodWithoutDevicesFindsRoomOnAnyNode) {
  const auto fleet = FleetOf(kEven, 1);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)->Place(*Want(0, 0), 1'000, Everywhere).placed, 1'000);
  EXPECT_EQ(fleet->MakeWhatIf(nullptr)
                ->Place(*Want(0, 0), 1, [](std::string_view) { return false; })
                .placed,
            0);
}

TEST(WhatIf, NodesThatCannotBeJudgedAreCounted) {
  const auto fleet = Fleet::FromReports({}, {});
  fleet->UpsertPod(Running("a", "n0", 1, 1));
  const WhatIf::Answer answer = fleet->MakeWhatIf(nullptr)->Place(*Want(1, 1), 1, Everywhere);
  EXPECT_EQ(answer.placed, 0);
  EXPECT_EQ(answer.unknown, 1);
  EXPECT_EQ(answer.settling, 0);
}

TEST(WhatIf, TheStrategyChoosesTheNode) {
  const auto fleet = FleetOf(kEven, 2);
  fleet->UpsertPod(Running("a", "n1", 1, 1));
  const auto* most = policy::FindScoreStrategy("most-allocated");
  const auto* least = policy::FindScoreStrategy("least-allocated");
  const auto room_on = [&](const policy::ScoreStrategy* strategy, std::string_view node) {
    const auto plan = fleet->MakeWhatIf(strategy);
    EXPECT_EQ(plan->Place(*Want(1, 1), 1, Everywhere).placed, 1);
    return plan->Place(*Want(1, 1), 99, [&](std::string_view each) { return each == node; }).placed;
  };
  EXPECT_EQ(room_on(most, "n0"), 8);
  EXPECT_EQ(room_on(most, "n1"), 6);
  EXPECT_EQ(room_on(least, "n0"), 7);
  EXPECT_EQ(room_on(least, "n1"), 7);
}

TEST(WhatIf, ANodeThatFillsUpMeanwhileTakesNoMore) {
  const auto fleet = FleetOf(kEven, 1);
  const auto plan = fleet->MakeWhatIf(nullptr);
  fleet->UpsertPod(Running("a", "n0", 4, 4));
  EXPECT_EQ(plan->Place(*Want(4, 4), 2, Everywhere).placed, 1);
}

// What is foretold for Pods that do not exist is what the fleet says once they run: on every kind
// of machine, one after the other, for shapes in turn.
class AsThoughTheyRan : public ::testing::TestWithParam<Machine> {};

TEST_P(AsThoughTheyRan, OneAfterTheOther) {
  constexpr int kShapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 0}, {4, 4}, {1, 0}};
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const auto fleet = FleetOf(GetParam(), 1);
    const auto plan = FleetOf(GetParam(), 1);
    const auto what_if = plan->MakeWhatIf(nullptr);
    for (int i = 0; i < 12; ++i) {
      const int* shape = kShapes[random() % std::size(kShapes)];
      const auto demand = Want(shape[0], shape[1]);
      const std::string name = "p" + std::to_string(i);
      const bool fits =
          fleet->Reserve("n0", "uid-" + name, "default/" + name, *demand).judgement.fits();
      EXPECT_EQ(what_if->Place(*demand, 1, Everywhere).placed == 1, fits)
          << GetParam().name << " round " << round << " Pod " << i << ": " << shape[0] << " + "
          << shape[1];
      if (!fits) continue;
      fleet->Commit("uid-" + name);
      fleet->UpsertPod(Running(name, "n0", shape[0], shape[1]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, AsThoughTheyRan, ::testing::ValuesIn(numafit::test::kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });
INSTANTIATE_TEST_SUITE_P(Managers, AsThoughTheyRan,
                         ::testing::ValuesIn(numafit::test::kMachinesWithManagers),
                         [](const auto& machine) { return std::string(machine.param.name); });

}  // namespace
}  // namespace numafit::cache
