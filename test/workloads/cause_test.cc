#include "workloads/cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "test/cache/machines.h"
#include "test/workloads/objects.h"

namespace numafit::workloads {
namespace {

using cache::Fleet;
using ::testing::HasSubstr;
using workloads::test::On;
using workloads::test::PodOf;
using workloads::test::Tried;

// Two machines, n0 and n1, with 4 + 4 GPUs and 4 + 4 endpoints, whose kubelets want one NUMA node.
class CauseTest : public ::testing::Test {
 protected:
  CauseTest() { Make(numafit::test::kEven, 2); }

  void Make(const numafit::test::Machine& machine, int nodes, const Fleet::Options& options = {}) {
    cache::FleetFile file;
    const auto topology = numafit::test::Make(machine);
    for (int i = 0; i < nodes; ++i) {
      file.nodes.push_back({.name = "n" + std::to_string(i),
                            .shape = "s",
                            .labels = {},
                            .kubelet_version = "v1.36.3",
                            .topology = topology});
    }
    fleet_ = Fleet::FromFile(file, classes_, options).value();
  }
  void Run(const std::string& name, const std::string& node, int gpus, int endpoints) {
    fleet_->UpsertPod(On(PodOf(name, gpus, endpoints), node));
  }
  [[nodiscard]] Blocked Waits(int gpus, int endpoints, const std::string& pinned = "") const {
    const PodFacts facts = FactsOf(Tried(PodOf("w", gpus, endpoints)), classes_, {});
    Blocked blocked;
    blocked.state = facts.state;
    blocked.demand = facts.demand;
    blocked.pinned_node = pinned;
    blocked.pods = 1;
    blocked.example = facts.name;
    blocked.message = facts.message;
    return blocked;
  }
  [[nodiscard]] Finding Find(int gpus, int endpoints, const std::string& pinned = "") const {
    return FindCause(*fleet_, Waits(gpus, endpoints, pinned));
  }
  [[nodiscard]] std::string Why(int gpus, int endpoints, const std::string& pinned = "") const {
    const Blocked blocked = Waits(gpus, endpoints, pinned);
    return WhyText(FindCause(*fleet_, blocked), blocked);
  }

  api::ResourceClasses classes_;
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(CauseTest, EndpointsAreGoneAndAcceleratorsAreNot) {
  Run("a", "n0", 0, 4);
  Run("b", "n0", 0, 3);
  Run("c", "n1", 0, 4);
  Run("d", "n1", 0, 2);
  const Finding finding = Find(4, 4);
  EXPECT_EQ(finding.cause, Cause::kEndpointsExhausted);
  ASSERT_EQ(finding.resources.size(), 2U);
  EXPECT_EQ(finding.resources[0].resource, workloads::test::kGpu);
  EXPECT_EQ(finding.resources[0].free, 16);
  EXPECT_TRUE(finding.resources[1].endpoint);
  EXPECT_EQ(finding.resources[1].wanted, 4);
  EXPECT_EQ(finding.resources[1].free, 3);
  EXPECT_EQ(finding.resources[1].best_numa_free, 2);
  EXPECT_EQ(finding.resources[1].best_numa_node, "n1");
  EXPECT_EQ(finding.resources[1].best_numa, -1) << "nobody has seen which one";
  EXPECT_EQ(finding.nearest, "n1");
  EXPECT_EQ(Why(4, 4), "wants 4 rdma; 2 free at most on one NUMA node (n1), 3 free in all");
}

TEST_F(CauseTest, AcceleratorsAreGone) {
  for (const char* node : {"n0", "n1"}) {
    Run(std::string("a-") + node, node, 4, 0);
    Run(std::string("b-") + node, node, 3, 0);
  }
  EXPECT_EQ(Find(2, 2).cause, Cause::kAcceleratorsExhausted);
  EXPECT_THAT(Why(2, 2), HasSubstr("wants 2 gpu; 1 free at most"));
  // Nothing is left anywhere.
  Run("c", "n0", 1, 0);
  Run("d", "n1", 1, 0);
  EXPECT_EQ(Why(2, 2), "wants 2 gpu; none is free");
}

TEST_F(CauseTest, EnoughByCountAndNotTogether) {
  for (const char* node : {"n0", "n1"}) {
    Run(std::string("a-") + node, node, 2, 2);
    Run(std::string("b-") + node, node, 3, 3);
  }
  const Finding finding = Find(3, 3);
  EXPECT_EQ(finding.cause, Cause::kNumaFragmented);
  EXPECT_THAT(Why(3, 3), HasSubstr("wants 3 gpu + 3 rdma together; nearest is n0: no: "));
}

TEST_F(CauseTest, NoMachineOfThisFleetCould) {
  EXPECT_EQ(Find(5, 5).cause, Cause::kNeverFits);
  EXPECT_EQ(Why(5, 5), "wants 5 gpu + 5 rdma; none of 2 nodes could take it even when empty");
  Run("a", "n0", 4, 4);
  EXPECT_EQ(Find(5, 5).cause, Cause::kNeverFits) << "also when it is not empty";
}

TEST_F(CauseTest, PinnedToAFullNodeWhileAnotherHasRoom) {
  Run("a", "n0", 4, 4);
  Run("b", "n0", 4, 4);
  const Finding finding = Find(2, 2, "n0");
  EXPECT_EQ(finding.cause, Cause::kPinnedNodeFull);
  EXPECT_EQ(finding.nearest, "n1");
  EXPECT_THAT(Why(2, 2, "n0"), HasSubstr("pinned to n0 by its node selector: no: "));
  EXPECT_THAT(Why(2, 2, "n0"), HasSubstr("; n1 would fit"));
  // The other one is full, too: then that is why.
  Run("c", "n1", 4, 4);
  Run("d", "n1", 4, 4);
  EXPECT_EQ(Find(2, 2, "n0").cause, Cause::kAcceleratorsExhausted);
  EXPECT_EQ(Find(2, 2, "gone").cause, Cause::kStaleData);
}

TEST_F(CauseTest, OneLookAtTheNodesAnswersForAllThatArePinned) {
  Run("a", "n0", 4, 4);
  Run("b", "n0", 4, 4);
  CauseFinder finder(*fleet_);
  Blocked blocked = Waits(2, 2);
  for (const char* node : {"", "n0", "n1", "gone"}) {
    blocked.pinned_node = node;
    const Finding one = FindCause(*fleet_, blocked);
    const Finding same = finder.Find(blocked);
    EXPECT_EQ(same.cause, one.cause) << node;
    EXPECT_EQ(WhyText(same, blocked), WhyText(one, blocked)) << node;
    EXPECT_EQ(same.pinned_answer, one.pinned_answer) << node;
  }
  EXPECT_EQ(FindCause(*fleet_, blocked).pinned_answer, "not in the inventory");
  // What it has seen holds until it is told to look again.
  Run("c", "n1", 4, 4);
  Run("d", "n1", 4, 4);
  blocked.pinned_node = "n0";
  EXPECT_EQ(finder.Find(blocked).cause, Cause::kPinnedNodeFull);
  finder.Forget();
  EXPECT_EQ(finder.Find(blocked).cause, Cause::kAcceleratorsExhausted);
}

TEST_F(CauseTest, ThereIsRoomAndSomethingElseIsInTheWay) {
  EXPECT_EQ(Find(2, 2).cause, Cause::kOther);
  EXPECT_EQ(Why(2, 2),
            "2 of 2 nodes would fit; the scheduler says: 0/2 nodes are available: 2 Insufficient "
            "rdma.");
  EXPECT_EQ(Find(2, 2, "n0").cause, Cause::kOther);
}

TEST_F(CauseTest, NobodyCanSay) {
  fleet_ = Fleet::FromReports(classes_, {});
  EXPECT_EQ(Find(2, 2).cause, Cause::kStaleData);
  EXPECT_EQ(Why(2, 2), "no node has a report");
}

TEST_F(CauseTest, ThePodsOwnStateSaysWhoFailed) {
  Blocked blocked = Waits(2, 2);
  blocked.state = PodState::kSchedulerError;
  blocked.message = "context deadline exceeded";
  Finding finding = FindCause(*fleet_, blocked);
  EXPECT_EQ(finding.cause, Cause::kSchedulerError);
  EXPECT_EQ(WhyText(finding, blocked), "the scheduler fails on w: context deadline exceeded");
  blocked.state = PodState::kRefused;
  blocked.message = "TopologyAffinityError: no";
  finding = FindCause(*fleet_, blocked);
  EXPECT_EQ(finding.cause, Cause::kKubeletRefused);
  EXPECT_EQ(WhyText(finding, blocked), "kubelet refused w: TopologyAffinityError: no");
}

TEST_F(CauseTest, InitContainersAreNotAddedToTheRest) {
  api::Pod pod = Tried(PodOf("w", 2, 2));
  pod.init_containers.push_back(workloads::test::ContainerOf(3, 0));
  const PodFacts facts = FactsOf(pod, classes_, {});
  const Finding finding = LookAtFleet(*fleet_, *facts.demand, "");
  EXPECT_EQ(finding.resources[0].wanted, 3);
  EXPECT_EQ(finding.resources[1].wanted, 2);
}

// As when its annotations have a value that nobody knows: the scheduler fails on it, because we do.
TEST_F(CauseTest, WhatCannotBeReadHasTheCauseOfItsState) {
  Blocked blocked = Waits(1, 1);
  blocked.demand = nullptr;
  EXPECT_EQ(FindCause(*fleet_, blocked).cause, Cause::kOther);
  blocked.state = PodState::kSchedulerError;
  EXPECT_EQ(FindCause(*fleet_, blocked).cause, Cause::kSchedulerError);
  blocked.state = PodState::kRefused;
  EXPECT_EQ(FindCause(*fleet_, blocked).cause, Cause::kKubeletRefused);
}

// Where Pods have landed is not always known, for instance after a restart with a fleet file; how
// many devices they hold is.
TEST_F(CauseTest, CountsAreKnownWherePlacesAreNot) {
  Fleet::Options options;
  options.max_states = 1;
  Make({"Scarce", policy::TopologyPolicy::kSingleNumaNode, policy::TopologyScope::kContainer, 2, 4,
        2, 2},
       1, options);
  for (const char* name : {"a", "b", "c", "d"}) Run(name, "n0", 1, 0);
  for (const char* name : {"e", "f", "g"}) Run(name, "n0", 0, 1);
  EXPECT_EQ(Find(1, 1).cause, Cause::kStaleData) << "one endpoint is free, nobody knows where";
  EXPECT_EQ(Find(1, 2).cause, Cause::kEndpointsExhausted);
  EXPECT_THAT(Why(1, 2), HasSubstr("wants 2 rdma; 1 free at most on one NUMA node"));
  EXPECT_EQ(Find(5, 1).cause, Cause::kNeverFits);
  Run("h", "n0", 0, 1);
  EXPECT_EQ(Find(1, 1).cause, Cause::kEndpointsExhausted);
  EXPECT_EQ(Why(1, 1), "wants 1 rdma; none is free");
}

}  // namespace
}  // namespace numafit::workloads
