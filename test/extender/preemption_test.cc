#include "extender/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test/cache/machines.h"

namespace numafit::extender {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

constexpr const char* kNode = "n0";

// An even machine (4 GPUs on each of two NUMA nodes) full of Pods of two GPUs.
class PreemptionTest : public ::testing::Test {
 protected:
  PreemptionTest() {
    file_.nodes.push_back({.name = kNode,
                           .shape = "even",
                           .labels = {},
                           .kubelet_version = "v1.36.3",
                           .topology = test::Make(test::kEven)});
    fleet_ = cache::Fleet::FromFile(file_, api::ResourceClasses(), {}).value();
  }

  // Runs on the lowest NUMA node with room, as its kubelet puts it.
  void Run(const std::string& uid, int gpus, std::int32_t priority) {
    api::Pod pod;
    pod.metadata.name = uid;
    pod.metadata.namespace_ = "default";
    pod.metadata.uid = uid;
    pod.node_name = kNode;
    pod.priority = priority;
    pod.status.phase = "Pending";
    api::Container container;
    container.name = "main";
    container.resources.limits[test::kGpu] = api::Quantity::FromInt(gpus);
    pod.containers = {container};
    fleet_->UpsertPod(pod);
    pod.status.phase = "Running";
    fleet_->UpsertPod(pod);
  }

  std::optional<std::vector<std::string>> Decide(const std::vector<std::string>& proposed, int gpus,
                                                 std::int32_t priority,
                                                 const std::string& node = kNode,
                                                 UnknownNodes unknown = UnknownNodes::kRefuse) {
    const Preemption preemption({.rules = {}, .unknown_nodes = unknown, .now_ms = [] { return 0; }},
                                {*fleet_, metrics_, log_});
    const auto chosen = preemption.Decide(node, {.uids = proposed, .pdb_violations = 3},
                                          *test::Want(gpus, 0), priority);
    if (!chosen) return std::nullopt;
    EXPECT_EQ(chosen->pdb_violations, 3);
    return chosen->uids;
  }

  cache::FleetFile file_;
  std::unique_ptr<cache::Fleet> fleet_;
  Metrics metrics_;
  DecisionLog log_{{LogLevel::kOff, 0}};
};

TEST_F(PreemptionTest, VictimsThatMakeRoomStayAsTheyAre) {
  for (const char* uid : {"a", "b", "c", "d"}) Run(uid, 2, 0);
  EXPECT_THAT(Decide({"a", "b"}, 4, 10), Optional(ElementsAre("a", "b")));
}

TEST_F(PreemptionTest, VictimsOnTwoSidesAreJoinedByTheOneThatIsMissing) {
  for (const char* uid : {"a", "b", "c", "d"}) Run(uid, 2, 0);  // a and b on NUMA 0
  EXPECT_THAT(Decide({"a", "c"}, 4, 10), Optional(ElementsAre("a", "c", "b")));
}

TEST_F(PreemptionTest, TheLeastImportantGoesAndNobodyElse) {
  Run("a", 2, 5);
  Run("b", 2, 5);
  Run("c", 2, 1);
  Run("d", 2, 3);
  // d is less important than b; together with c it frees NUMA 1.
  EXPECT_THAT(Decide({"a", "c"}, 4, 10), Optional(ElementsAre("a", "c", "d")));
}

TEST_F(PreemptionTest, WhoIsNotNeededInTheEndIsSpared) {
  Run("small0", 1, 1);
  Run("big0", 3, 5);
  Run("small1", 1, 2);
  Run("big1", 3, 4);
  // small0 was tried first and frees nothing useful; small1 and big1 free NUMA 1 together.
  EXPECT_THAT(Decide({"big1"}, 4, 10), Optional(ElementsAre("big1", "small1")));
}

TEST_F(PreemptionTest, NobodyOfEqualPriorityIsAdded) {
  Run("a", 2, 0);
  Run("b", 2, 10);
  Run("c", 2, 0);
  Run("d", 2, 10);
  EXPECT_EQ(Decide({"a", "c"}, 4, 10), std::nullopt);
}

TEST_F(PreemptionTest, WhatNeverFitsIsVetoed) {
  for (const char* uid : {"a", "b", "c", "d"}) Run(uid, 2, 0);
  EXPECT_EQ(Decide({"a", "b", "c"}, 6, 10), std::nullopt);
}

TEST_F(PreemptionTest, APodThatIsLeavingAnywayIsNotAdded) {
  for (const char* uid : {"a", "b", "c"}) Run(uid, 2, 0);
  Run("d", 2, 10);
  api::Pod b;
  b.metadata.name = b.metadata.uid = "b";
  b.metadata.namespace_ = "default";
  b.metadata.deletion_time = 1;
  b.node_name = kNode;
  b.status.phase = "Running";
  fleet_->UpsertPod(b);
  EXPECT_EQ(fleet_->VictimsOn(kNode).size(), 3U);
}

TEST_F(PreemptionTest, UnknownNodesAndProposalsWithoutVictims) {
  EXPECT_EQ(Decide({"a"}, 2, 10, "elsewhere"), std::nullopt);
  EXPECT_THAT(Decide({"a"}, 2, 10, "elsewhere", UnknownNodes::kPass), Optional(ElementsAre("a")));
  EXPECT_EQ(Decide({}, 2, 10), std::nullopt);
}

}  // namespace
}  // namespace numafit::extender
