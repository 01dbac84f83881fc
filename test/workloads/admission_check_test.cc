#include "workloads/admission_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "test/cache/machines.h"
#include "test/workloads/objects.h"

namespace numafit::workloads {
namespace {

using cache::Fleet;
using test::kAdmitted;
using test::On;
using test::PodOf;
using test::WorkloadOf;
using ::testing::HasSubstr;

constexpr char kCheck[] = "topology";
constexpr char kHostname[] = "kubernetes.io/hostname";

// Two machines, n0 and n1, with 4 + 4 GPUs and 4 + 4 endpoints, whose kubelets want one NUMA node.
class AdmissionCheckTest : public ::testing::Test {
 protected:
  AdmissionCheckTest() { Make(2); }

  void Make(int nodes) {
    cache::FleetFile file;
    const auto topology = numafit::test::Make(numafit::test::kEven);
    for (int i = 0; i < nodes; ++i) {
      const std::string name = "n" + std::to_string(i);
      file.nodes.push_back({.name = name,
                            .shape = "s",
                            .labels = {},
                            .kubelet_version = "v1.36.3",
                            .topology = topology});
      PutNode(name, {{"half", i == 0 ? "left" : "right"}});
    }
    fleet_ = Fleet::FromFile(file, classes_, {}).value();
  }
  void PutNode(const std::string& name, api::StringMap labels, bool unschedulable = false) {
    api::Node node;
    node.metadata.name = name;
    node.metadata.labels = std::move(labels);
    node.metadata.labels[kHostname] = name;
    node.unschedulable = unschedulable;
    for (const char* resource : {test::kGpu, test::kRdma}) {
      node.allocatable[resource] = api::Quantity::FromInt(8);
    }
    nodes_.Upsert(node);
  }

  static void Assign(api::Workload& workload, const std::string& pod_set, int pods) {
    api::PodSetAssignment& assignment = workload.assignments.emplace_back();
    assignment.name = pod_set;
    assignment.count = pods;
  }
  // Has had its quota since then, and waits for us.
  static api::Workload Waiting(const std::string& name, int pods, int gpus, int endpoints,
                               std::int64_t since = kAdmitted) {
    api::Workload workload = WorkloadOf(name, pods, gpus, endpoints);
    workload.metadata.resource_version = "7";
    workload.cluster_queue = "gpus";
    Assign(workload, "main", pods);
    test::SetCondition(workload, "QuotaReserved", true, since);
    Check(workload, "Pending", since);
    return workload;
  }
  static void Check(api::Workload& workload, const std::string& state,
                    std::int64_t since = kAdmitted, const std::string& name = kCheck) {
    for (api::AdmissionCheckState& check : workload.checks) {
      if (check.name != name) continue;
      check.state = state;
      check.since = since;
      return;
    }
    workload.checks.push_back({.name = name, .state = state, .message = "", .since = since});
  }
  void Put(const api::Workload& workload) { index_.UpsertWorkload(workload); }
  // A Pod of the Workload that runs.
  void Run(const std::string& name, const std::string& workload, const std::string& node, int gpus,
           int endpoints) {
    api::Pod pod = On(PodOf(name, gpus, endpoints), node);
    pod.metadata.annotations["kueue.x-k8s.io/workload"] = workload;
    fleet_->UpsertPod(pod);
    index_.UpsertPod(FactsOf(pod, classes_, {}));
  }

  std::vector<CheckVerdict> Decide() {
    const std::vector<QuotaHolder> holders = index_.QuotaHolders();
    const CheckInputs inputs{.holders = holders,
                             .checks = checks_,
                             .flavors = flavors_,
                             .nodes = nodes_,
                             .fleet = *fleet_,
                             .now = now_};
    const auto plan = fleet_->MakeWhatIf(nullptr);
    return workloads::Decide(inputs, *plan, options_);
  }
  // "a Ready, b Pending", in the order of the decisions.
  std::string States() {
    std::string text;
    for (const CheckVerdict& verdict : Decide()) {
      text += (text.empty() ? "" : ", ") + verdict.workload_uid.substr(7) + " " + verdict.state;
    }
    return text;
  }
  std::string Message() {
    const std::vector<CheckVerdict> verdicts = Decide();
    return verdicts.size() == 1 ? verdicts[0].message : "not one verdict";
  }

  api::ResourceClasses classes_;
  std::unique_ptr<Fleet> fleet_;
  NodeTable nodes_;
  WorkloadIndex index_{api::ResourceClasses()};
  std::set<std::string> checks_{kCheck};
  std::map<std::string, api::ResourceFlavor> flavors_;
  CheckOptions options_;
  std::int64_t now_ = kAdmitted + 5;
};

TEST_F(AdmissionCheckTest, ReadyWhenEveryPodFindsAPlace) {
  Put(Waiting("a", 4, 4, 4));
  EXPECT_EQ(States(), "a Ready");
  Put(Waiting("a", 5, 4, 4));
  EXPECT_EQ(States(), "a Pending");
  EXPECT_THAT(Message(), HasSubstr("4 of 5 Pods of PodSet main would find a place"));
}

TEST_F(AdmissionCheckTest, OfTwoThatFitAloneOnlyOneGoes) {
  Put(Waiting("a", 3, 4, 4, kAdmitted + 1));
  Put(Waiting("b", 3, 4, 4));
  EXPECT_EQ(States(), "b Ready, a Pending") << "b has had its quota for longer";
  api::Workload urgent = Waiting("a", 3, 4, 4, kAdmitted + 1);
  urgent.priority = 10;
  Put(urgent);
  EXPECT_EQ(States(), "a Ready, b Pending");
  // One that waits holds up nobody.
  Put(Waiting("c", 1, 4, 4, kAdmitted + 2));
  EXPECT_EQ(States(), "a Ready, b Pending, c Ready");
}

TEST_F(AdmissionCheckTest, WhoWasLetInAndHasNoPodsYetIsCounted) {
  api::Workload first = Waiting("a", 3, 4, 4);
  Check(first, "Ready");
  Put(first);
  Put(Waiting("b", 2, 4, 4));
  EXPECT_EQ(States(), "b Pending") << "as after a restart: a's Ready is all that there is";
  EXPECT_THAT(Message(), HasSubstr("1 of 2 Pods of PodSet main would find a place; 3 Pods of 1 "
                                   "other Workloads are on their way"));
  // Admitted, and two of its Pods run: those are no longer promised but taken.
  test::SetCondition(first, "Admitted", true);
  Put(first);
  Run("a-0", "a", "n0", 4, 4);
  Run("a-1", "a", "n0", 4, 4);
  EXPECT_EQ(States(), "b Pending");
  Put(Waiting("b", 1, 4, 4));
  EXPECT_EQ(States(), "b Ready");
  Run("a-2", "a", "n1", 4, 4);
  EXPECT_EQ(States(), "b Ready");
  Put(Waiting("b", 2, 4, 4));
  EXPECT_EQ(States(), "b Pending");
}

TEST_F(AdmissionCheckTest, OnlyThoseThatWaitForUsAreJudged) {
  api::Workload admitted = Waiting("admitted", 1, 1, 1);
  test::SetCondition(admitted, "Admitted", true);
  Put(admitted);
  api::Workload evicted = Waiting("evicted", 1, 1, 1);
  test::SetCondition(evicted, "Evicted", true);
  Put(evicted);
  api::Workload finished = Waiting("finished", 1, 1, 1);
  test::SetCondition(finished, "Finished", true);
  Put(finished);
  api::Workload inactive = Waiting("inactive", 1, 1, 1);
  inactive.active = false;
  Put(inactive);
  api::Workload without_quota = Waiting("without-quota", 1, 1, 1);
  test::SetCondition(without_quota, "QuotaReserved", false);
  Put(without_quota);
  api::Workload elsewhere = Waiting("elsewhere", 1, 1, 1);
  elsewhere.cluster_name = "worker-1";
  Put(elsewhere);
  api::Workload foreign = Waiting("foreign", 1, 1, 1);
  foreign.checks[0].name = "somebody-elses";
  Put(foreign);
  // Kueue is about to take its quota back.
  api::Workload retrying = Waiting("retrying", 1, 1, 1);
  Check(retrying, "Retry");
  Put(retrying);
  EXPECT_EQ(States(), "");
  Put(Waiting("waiting", 1, 1, 1));
  EXPECT_EQ(States(), "waiting Ready");
}

TEST_F(AdmissionCheckTest, ForeignChecksAreLeftAlone) {
  api::Workload workload = Waiting("a", 1, 1, 1);
  Check(workload, "Pending", kAdmitted, "somebody-elses");
  Check(workload, "Pending", kAdmitted, "topology-2");
  checks_.insert("topology-2");
  Put(workload);
  const std::vector<CheckVerdict> verdicts = Decide();
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[0].check, kCheck);
  EXPECT_EQ(verdicts[1].check, "topology-2");
}

TEST_F(AdmissionCheckTest, OnlyOnTheNodesOfItsFlavorAndSelector) {
  flavors_["right"].node_labels = {{"half", "right"}};
  api::Workload workload = Waiting("a", 3, 4, 4);
  workload.assignments[0].flavors = {{test::kGpu, "right"}};
  Put(workload);
  EXPECT_EQ(States(), "a Pending");
  EXPECT_THAT(Message(), HasSubstr("2 of 3 Pods"));
  workload.pod_sets[0].count = 2;
  workload.assignments[0].count = 2;
  Put(workload);
  EXPECT_EQ(States(), "a Ready");
  workload.pod_sets[0].pod.node_selector = {{"half", "none"}};
  Put(workload);
  EXPECT_EQ(States(), "a Pending");
  EXPECT_THAT(Message(), HasSubstr("no node that they may go to has an inventory"));
  workload.pod_sets[0].pod.node_selector = {};
  Put(workload);
  PutNode("n1", {{"half", "right"}}, /*unschedulable=*/true);
  EXPECT_EQ(States(), "a Pending");
}

TEST_F(AdmissionCheckTest, ATopologyAssignmentPinsThePods) {
  api::Workload workload = Waiting("a", 2, 4, 4);
  api::PodSetAssignment& assignment = workload.assignments[0];
  assignment.has_topology = true;
  assignment.levels = {kHostname};
  assignment.domains = {{.values = {"n0"}, .count = 1}, {.values = {"n1"}, .count = 1}};
  Put(workload);
  EXPECT_EQ(States(), "a Ready");
  Run("other-0", "other", "n0", 3, 3);
  Run("other-1", "other", "n0", 3, 3);
  EXPECT_EQ(States(), "a Pending") << "n1 has room for both, but one of them has to go to n0";
  EXPECT_THAT(Message(), HasSubstr("0 of 1 Pods of PodSet main would find a place: "
                                   "accelerators-exhausted: wants 4 gpu"));
  // Of an admitted one that Pod is in place.
  test::SetCondition(workload, "Admitted", true);
  Put(workload);
  Put(Waiting("b", 1, 4, 4));
  EXPECT_EQ(States(), "b Ready");
  Put(Waiting("b", 2, 4, 4));
  EXPECT_EQ(States(), "b Pending") << "a's other Pod is still on its way to n1";
}

TEST_F(AdmissionCheckTest, TheLargestPodsFirst) {
  api::Workload workload = Waiting("a", 4, 1, 1);
  api::PodSet large = workload.pod_sets[0];
  large.name = "large";
  large.count = 3;
  large.pod.containers = {test::ContainerOf(4, 4)};
  workload.pod_sets.push_back(large);
  Assign(workload, "large", 3);
  Put(workload);
  EXPECT_EQ(States(), "a Ready");
}

TEST_F(AdmissionCheckTest, PodsWithoutDevicesNeedNoRoom) {
  api::Workload workload = Waiting("a", 1, 4, 4);
  api::PodSet launcher = workload.pod_sets[0];
  launcher.name = "launcher";
  launcher.count = 1;
  launcher.pod.containers = {test::ContainerOf(0, 0)};
  launcher.pod.node_selector = {{"half", "a node without devices"}};
  workload.pod_sets.push_back(launcher);
  Assign(workload, "launcher", 1);
  Put(workload);
  EXPECT_EQ(States(), "a Ready");
}

TEST_F(AdmissionCheckTest, TheMessageHasTheNumbers) {
  Run("x", "x", "n0", 0, 4);
  Run("y", "x", "n0", 0, 3);
  Run("z", "x", "n1", 0, 4);
  Run("w", "x", "n1", 0, 2);
  Put(Waiting("a", 1, 4, 4));
  EXPECT_EQ(Message(),
            "0 of 1 Pods of PodSet main would find a place: endpoints-exhausted: wants 4 rdma; 2 "
            "free at most on one NUMA node (n1), 3 free in all");
  Put(Waiting("a", 1, 5, 5));
  EXPECT_THAT(Message(), HasSubstr("never-fits: wants 5 gpu + 5 rdma; none of 2 nodes could take "
                                   "it even when empty"));
}

TEST_F(AdmissionCheckTest, NodesThatCannotBeJudged) {
  // n2 offers the devices, and has sent no report; n3 offers others.
  PutNode("n2", {});
  api::Node other;
  other.metadata.name = "n3";
  other.allocatable["example.com/disk"] = api::Quantity::FromInt(1);
  nodes_.Upsert(other);
  Put(Waiting("a", 5, 4, 4));
  EXPECT_EQ(States(), "a Pending");
  EXPECT_THAT(Message(), HasSubstr("; 1 nodes cannot be judged"));
  options_.admit_unjudged = true;
  EXPECT_EQ(States(), "a Ready");
  EXPECT_THAT(Message(), HasSubstr("let in unjudged: 4 of 5 Pods"));
  nodes_.Delete("n2");
  EXPECT_EQ(States(), "a Pending") << "all are judged";
}

TEST_F(AdmissionCheckTest, WhatCannotBeReadIsLetIn) {
  api::Workload workload = Waiting("a", 1, 1, 1);
  workload.pod_sets[0].pod.metadata.annotations["numafit.io/alignment"] = "perhaps";
  Put(workload);
  EXPECT_EQ(States(), "a Ready");
  EXPECT_THAT(Message(), HasSubstr("PodSet main is not judged: annotation numafit.io/alignment"));
}

TEST_F(AdmissionCheckTest, SinceWhen) {
  Put(Waiting("a", 9, 4, 4));
  CheckVerdict verdict = Decide().at(0);
  EXPECT_FALSE(verdict.is_new);
  EXPECT_EQ(verdict.since, kAdmitted);
  Put(Waiting("a", 1, 4, 4));
  verdict = Decide().at(0);
  EXPECT_TRUE(verdict.is_new);
  EXPECT_EQ(verdict.since, now_);
}

TEST_F(AdmissionCheckTest, RetryOnlyWhereItIsWantedAndSpacedByTheWait) {
  Put(Waiting("a", 9, 4, 4));
  now_ = kAdmitted + 1'000'000;
  EXPECT_EQ(States(), "a Pending");
  options_.retry_after = 600;
  now_ = kAdmitted + 599;
  EXPECT_EQ(States(), "a Pending");
  now_ = kAdmitted + 600;
  EXPECT_EQ(States(), "a Retry");
  // After its eviction Kueue resets the entry, and the wait begins anew.
  api::Workload again = Waiting("a", 9, 4, 4, now_ - 10);
  Put(again);
  EXPECT_EQ(States(), "a Pending");
  now_ += 600;
  EXPECT_EQ(States(), "a Retry");
  Put(Waiting("a", 1, 4, 4));
  EXPECT_EQ(States(), "a Ready");
}

}  // namespace
}  // namespace numafit::workloads
