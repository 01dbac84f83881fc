// Room that is kept for Pods that are nominated to a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cache/explain.h"
#include "cache/fleet.h"
#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

using policy::Reason;

api::Pod PodOf(const std::string& uid, int gpus, std::int32_t priority) {
  api::Pod pod;
  pod.metadata.name = "pod-" + uid;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = uid;
  pod.priority = priority;
  pod.status.phase = "Pending";
  const auto demand = test::Want(gpus, 0);
  for (const policy::ContainerDemand& each : demand->containers) {
    api::Container container;
    container.name = each.name;
    for (const auto& [resource, count] : each.devices) {
      container.resources.limits[resource] = api::Quantity::FromInt(count);
    }
    pod.containers.push_back(container);
  }
  return pod;
}

// Two even machines: 4 GPUs on each of two NUMA nodes, single-numa-node.
class FleetNomineesTest : public ::testing::Test {
 protected:
  FleetNomineesTest() {
    FleetFile file;
    const auto topology = test::Make(test::kEven);
    for (const char* name : {"n0", "n1"}) {
      file.nodes.push_back({.name = name,
                            .shape = test::kEven.name,
                            .labels = {},
                            .kubelet_version = "v1.36.3",
                            .topology = topology});
    }
    fleet_ = Fleet::FromFile(file, api::ResourceClasses(), {}).value();
  }

  void Nominate(const std::string& uid, int gpus, std::int32_t priority,
                const std::string& node = "n0") {
    api::Pod pod = PodOf(uid, gpus, priority);
    pod.status.nominated_node_name = node;
    fleet_->UpsertNominee(pod);
  }
  void Run(const std::string& uid, int gpus, const std::string& node = "n0") {
    api::Pod pod = PodOf(uid, gpus, 0);
    pod.node_name = node;
    pod.status.phase = "Running";
    pod.status.container_statuses = 1;
    fleet_->UpsertPod(pod);
  }
  // What a filter call hears.
  Reason Ask(const std::string& uid, int gpus, std::int32_t priority, int node = 0) {
    const Fleet::ReadGuard guard(*fleet_);
    const auto demand = test::Want(gpus, 0);
    const Reason plain = JudgeOnNode(*fleet_->State(guard, node), *demand, nullptr).reason;
    const Nominees* const nominees = fleet_->NomineesOf(guard, node);
    if (plain != Reason::kFits || nominees == nullptr) return plain;
    return nominees->LeavesRoom(*fleet_->State(guard, node), uid, priority, *demand)
               ? plain
               : Reason::kKeptForNominee;
  }
  // What the gate says; gives the place back.
  Reason Bind(const std::string& uid, int gpus, std::int32_t priority) {
    const Fleet::ReserveResult result =
        fleet_->Reserve("n0", uid, "default/pod-" + uid, *test::Want(gpus, 0), priority);
    fleet_->Release(uid);
    return result.judgement.reason;
  }
  // What `numafit explain` says of n0.
  Reason Explained(const std::string& uid, int gpus, std::int32_t priority) {
    const ExplainOptions options = {
        .strategy = nullptr, .fold = true, .node = "n0", .uid = uid, .priority = priority};
    const auto said = Explain(fleet_->Snapshot(), uid, *test::Want(gpus, 0), options);
    EXPECT_EQ(said->fit, said->answers.front().reason == Reason::kFits ? 1 : 0);
    return said->answers.front().reason;
  }
  void Expect(const std::string& uid, int gpus, std::int32_t priority, Reason reason) {
    EXPECT_EQ(policy::ReasonCode(Explained(uid, gpus, priority)), policy::ReasonCode(reason))
        << uid;
    EXPECT_EQ(policy::ReasonCode(Ask(uid, gpus, priority)), policy::ReasonCode(reason)) << uid;
    EXPECT_EQ(policy::ReasonCode(Bind(uid, gpus, priority)), policy::ReasonCode(reason)) << uid;
  }
  bool HasNominees() {
    const Fleet::ReadGuard guard(*fleet_);
    return fleet_->HasNominees(guard);
  }
  std::uint64_t Changes() {
    const Fleet::ReadGuard guard(*fleet_);
    return fleet_->Changes(guard)[0];
  }

  std::unique_ptr<Fleet> fleet_;
};

TEST_F(FleetNomineesTest, RoomIsKeptFromThoseOfLowerAndEqualPriority) {
  Run("r", 4);
  Expect("b", 2, 0, Reason::kFits);
  Nominate("a", 4, 10);
  // By count 2 would be left of 8, and the nominee needs 4 together.
  Expect("b", 2, 0, Reason::kKeptForNominee);
  Expect("b", 2, 10, Reason::kKeptForNominee);
  Expect("b", 2, 11, Reason::kFits);
  // Other nodes and the nominee itself.
  EXPECT_EQ(Ask("b", 2, 0, 1), Reason::kFits);
  Expect("a", 4, 10, Reason::kFits);
}

TEST_F(FleetNomineesTest, WhoLeavesItsRoomGetsTheRest) {
  Nominate("a", 4, 10);
  Expect("b", 4, 0, Reason::kFits);
  Expect("b", 2, 0, Reason::kFits);
  // The next two go to NUMA node 0 as well, and then it is full.
  fleet_->Reserve("n0", "r", "default/r", *test::Want(2, 0));
  Expect("b", 2, 0, Reason::kFits);
  fleet_->Reserve("n0", "s", "default/s", *test::Want(2, 0));
  Expect("b", 2, 0, Reason::kKeptForNominee);
}

TEST_F(FleetNomineesTest, OfTwoNomineesTheMoreImportantIsSure) {
  Run("r", 4);
  Nominate("low", 4, 5);
  Nominate("high", 4, 10);
  Expect("high", 4, 10, Reason::kFits);
  Expect("low", 4, 5, Reason::kKeptForNominee);
  Expect("other", 4, 7, Reason::kKeptForNominee);
  fleet_->DeleteNominee("high");
  Expect("low", 4, 5, Reason::kFits);
  Expect("other", 4, 7, Reason::kFits);
}

TEST_F(FleetNomineesTest, ExplainTellsAlikeNodesApartAndWhatWouldHelp) {
  // Seen before its kubelet admitted it, so that one knows where it is.
  fleet_->Reserve("n0", "r", "default/pod-r", *test::Want(4, 0));
  Run("r", 4);
  Run("s", 4, "n1");
  Nominate("a", 4, 10);
  ExplainOptions options;
  auto said = Explain(fleet_->Snapshot(), "b", *test::Want(4, 0), options);
  ASSERT_EQ(said->answers.size(), 2U);
  EXPECT_EQ(said->best, "n1");
  EXPECT_EQ(said->answers.back().node, "n0");
  EXPECT_EQ(said->answers.back().answer,
            "no: room is kept for a Pod that is nominated to this node");
  options.node = "n0";
  said = Explain(fleet_->Snapshot(), "b", *test::Want(4, 0), options);
  EXPECT_EQ(said->fit, 0);
  const auto moves = [&] {
    return std::count_if(said->help.begin(), said->help.end(),
                         [](const Help& help) { return help.kind == "move"; });
  };
  EXPECT_EQ(moves(), 1) << "with r elsewhere there is room for a and b";
  Nominate("c", 4, 10);
  said = Explain(fleet_->Snapshot(), "b", *test::Want(4, 0), options);
  EXPECT_EQ(moves(), 0) << "a and c want it all";
}

TEST_F(FleetNomineesTest, ANomineeThatDoesNotFitKeepsNothing) {
  Run("r", 2);
  Run("s", 4);
  Nominate("a", 4, 10);
  Expect("b", 2, 0, Reason::kFits);
}

TEST_F(FleetNomineesTest, ItEndsWithTheNominationTheBindAndThePod) {
  Run("r", 4);
  for (int way = 0; way < 5; ++way) {
    Nominate("a", 4, 10);
    Expect("b", 2, 0, Reason::kKeptForNominee);
    EXPECT_TRUE(HasNominees());
    const std::uint64_t changes = Changes();
    api::Pod pod = PodOf("a", 4, 10);
    switch (way) {
      case 0:
        fleet_->UpsertNominee(pod);
        break;
      case 1:
        fleet_->DeleteNominee("a");
        break;
      case 2:
        fleet_->ReplaceNominees({});
        break;
      case 3:
        pod.status.nominated_node_name = "n1";
        fleet_->UpsertNominee(pod);
        EXPECT_EQ(Ask("b", 4, 0, 1), Reason::kFits);
        fleet_->DeleteNominee("a");
        break;
      default:
        pod.status.nominated_node_name = "n0";
        pod.status.phase = "Failed";
        fleet_->UpsertNominee(pod);
    }
    EXPECT_FALSE(HasNominees()) << way;
    EXPECT_GT(Changes(), changes) << way;
    Expect("b", 2, 0, Reason::kFits);
  }
  // News of the bind, and the nomination's after it.
  Nominate("a", 4, 10);
  Run("a", 4);
  EXPECT_FALSE(HasNominees());
  Nominate("a", 4, 10);
  EXPECT_FALSE(HasNominees());
}

TEST_F(FleetNomineesTest, NewsThatChangeNothingWakeNobody) {
  Nominate("a", 4, 10);
  Nominate("b", 2, 10);
  const std::uint64_t changes = Changes();
  Nominate("a", 4, 10);
  EXPECT_EQ(Changes(), changes);
  Nominate("a", 4, 11);
  EXPECT_GT(Changes(), changes);
  const std::uint64_t raised = Changes();
  Nominate("a", 2, 11);
  EXPECT_GT(Changes(), raised);
}

TEST_F(FleetNomineesTest, AListHasThemAll) {
  Run("r", 4);
  Nominate("gone", 4, 10, "n1");
  api::Pod pod = PodOf("a", 4, 10);
  pod.status.nominated_node_name = "n0";
  api::Pod nowhere = PodOf("x", 4, 10);
  nowhere.status.nominated_node_name = "n9";
  fleet_->ReplaceNominees({pod, nowhere, PodOf("y", 4, 10)});
  Expect("b", 2, 0, Reason::kKeptForNominee);
  Run("t", 4, "n1");
  EXPECT_EQ(Ask("b", 2, 0, 1), Reason::kFits);
}

}  // namespace
}  // namespace numafit::cache
