#include "workloads/workload_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/workloads/objects.h"

namespace numafit::workloads {
namespace {

using test::Admitted;
using test::Annotated;
using test::kAdmitted;
using test::On;
using test::OwnedBy;
using test::PodOf;
using test::RefusedBy;
using test::Tried;
using test::WorkloadOf;

constexpr char kWorkload[] = "kueue.x-k8s.io/workload";
constexpr char kSlice[] = "kueue.x-k8s.io/workload-slice-name";
constexpr char kPrebuilt[] = "kueue.x-k8s.io/prebuilt-workload-name";
constexpr char kGroup[] = "kueue.x-k8s.io/pod-group-name";

class WorkloadIndexTest : public ::testing::Test {
 protected:
  void Put(const api::Pod& pod) { index_.UpsertPod(FactsOf(pod, classes_, {})); }
  [[nodiscard]] std::string WorkloadOfPod(const std::string& pod) const {
    return index_.WorkloadOf("uid-" + pod);
  }
  [[nodiscard]] WorkloadStatus Only() const {
    const std::vector<WorkloadStatus> all = index_.Statuses();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? WorkloadStatus() : all.front();
  }

  api::ResourceClasses classes_;
  WorkloadIndex index_{api::ResourceClasses()};
};

TEST_F(WorkloadIndexTest, APodIsFoundByWhatKueueWritesOnItThenByItsOwners) {
  index_.UpsertWorkload(Admitted(WorkloadOf("a", 1, 1, 1)));
  index_.UpsertWorkload(Admitted(WorkloadOf("b", 1, 1, 1)));
  api::Workload slice = Admitted(WorkloadOf("c-2", 1, 1, 1));
  slice.metadata.annotations[kSlice] = "c-1";
  index_.UpsertWorkload(slice);

  Put(Annotated(PodOf("annotated", 1, 1), kWorkload, "a"));
  EXPECT_EQ(WorkloadOfPod("annotated"), "uid-of-a");
  // The annotation names the first of a chain of slices, of which only the last still exists.
  Put(Annotated(Annotated(PodOf("sliced", 1, 1), kWorkload, "a"), kSlice, "c-1"));
  EXPECT_EQ(WorkloadOfPod("sliced"), "uid-of-c-2");
  Put(Annotated(PodOf("prebuilt", 1, 1), kPrebuilt, "b"));
  EXPECT_EQ(WorkloadOfPod("prebuilt"), "uid-of-b");
  api::Pod labelled = PodOf("labelled", 1, 1);
  labelled.metadata.labels[kGroup] = "b";
  Put(labelled);
  EXPECT_EQ(WorkloadOfPod("labelled"), "uid-of-b");
  // Annotation before label.
  Put(Annotated(labelled, kGroup, "a"));
  EXPECT_EQ(WorkloadOfPod("labelled"), "uid-of-a");
  Put(OwnedBy(PodOf("owned", 1, 1), "Job", "job-b"));
  EXPECT_EQ(WorkloadOfPod("owned"), "uid-of-b");
  Put(OwnedBy(PodOf("strange", 1, 1), "ReplicaSet", "replica-set"));
  EXPECT_EQ(WorkloadOfPod("strange"), "");
  api::Pod elsewhere = Annotated(PodOf("elsewhere", 1, 1), kWorkload, "a");
  elsewhere.metadata.namespace_ = "other";
  Put(elsewhere);
  EXPECT_EQ(WorkloadOfPod("elsewhere"), "");
}

TEST_F(WorkloadIndexTest, APlainPodOwnsItsWorkloadAndAGroupIsOwnedByAll) {
  api::Workload plain = Admitted(WorkloadOf("pod-x", 1, 1, 1));
  plain.metadata.owners = {{.kind = "Pod", .name = "x", .uid = "uid-x", .controller = true}};
  index_.UpsertWorkload(plain);
  Put(PodOf("x", 1, 1));
  EXPECT_EQ(WorkloadOfPod("x"), "uid-of-pod-x");
  api::Workload group = Admitted(WorkloadOf("group", 2, 1, 1));
  group.metadata.owners = {{.kind = "Pod", .name = "y", .uid = "uid-y"},
                           {.kind = "Pod", .name = "z", .uid = "uid-z"}};
  index_.UpsertWorkload(group);
  Put(PodOf("z", 1, 1));
  EXPECT_EQ(WorkloadOfPod("z"), "uid-of-group");
}

TEST_F(WorkloadIndexTest, OfSeveralWorkloadsOfOneOwnerTheLivingOne) {
  api::Workload old = WorkloadOf("old", 1, 1, 1);
  old.metadata.owners.front().uid = "job";
  test::SetCondition(old, "Finished", true);
  api::Workload now = Admitted(WorkloadOf("now", 1, 1, 1));
  now.metadata.owners.front().uid = "job";
  now.metadata.creation_time -= 100;
  index_.UpsertWorkload(old);
  index_.UpsertWorkload(now);
  Put(OwnedBy(PodOf("p", 1, 1), "Job", "job"));
  EXPECT_EQ(WorkloadOfPod("p"), "uid-of-now");
  index_.DeleteWorkload("uid-of-now");
  EXPECT_EQ(WorkloadOfPod("p"), "uid-of-old");
  index_.DeleteWorkload("uid-of-old");
  EXPECT_EQ(WorkloadOfPod("p"), "");
}

TEST_F(WorkloadIndexTest, Phases) {
  api::Workload workload = WorkloadOf("a", 1, 1, 1);
  EXPECT_EQ(PhaseOf(workload), Phase::kPending);
  test::SetCondition(workload, "QuotaReserved", true);
  EXPECT_EQ(PhaseOf(workload), Phase::kPending) << "its checks are not ready";
  workload = Admitted(workload);
  EXPECT_EQ(PhaseOf(workload), Phase::kAdmitted);
  workload.cluster_name = "worker-1";
  EXPECT_EQ(PhaseOf(workload), Phase::kElsewhere);
  test::SetCondition(workload, "Evicted", true);
  EXPECT_EQ(PhaseOf(workload), Phase::kEvicted) << "while its Pods stop it is admitted, too";
  workload.active = false;
  EXPECT_EQ(PhaseOf(workload), Phase::kInactive);
  test::SetCondition(workload, "Finished", true);
  EXPECT_EQ(PhaseOf(workload), Phase::kFinished);
}

TEST_F(WorkloadIndexTest, PodsAreCountedByHowFarTheyAre) {
  index_.UpsertWorkload(Admitted(WorkloadOf("a", 8, 4, 4)));
  const auto member = [](api::Pod pod) { return Annotated(std::move(pod), kWorkload, "a"); };
  api::Pod gated = member(Tried(PodOf("gated", 4, 4), "SchedulingGated"));
  gated.scheduling_gates = {"kueue.x-k8s.io/topology"};
  Put(gated);
  // Ungated; the condition lags.
  Put(member(Tried(PodOf("ungated", 4, 4), "SchedulingGated")));
  Put(member(Tried(PodOf("tried", 4, 4))));
  Put(member(Tried(PodOf("error", 4, 4), "SchedulerError")));
  api::Pod nominated = member(Tried(PodOf("nominated", 4, 4)));
  nominated.status.nominated_node_name = "n0";
  Put(nominated);
  Put(member(On(PodOf("runs", 4, 4), "n0")));
  Put(member(RefusedBy(PodOf("refused", 4, 4), "n0")));
  const WorkloadStatus status = Only();
  EXPECT_EQ(status.expected, 8);
  for (const PodState state :
       {PodState::kGated, PodState::kUntried, PodState::kUnschedulable, PodState::kSchedulerError,
        PodState::kNominated, PodState::kPlaced, PodState::kRefused}) {
    EXPECT_EQ(status.In(state), 1) << PodStateName(state);
  }
  EXPECT_EQ(status.missing, 2) << "one was never made, one was refused and has no successor";
  EXPECT_EQ(status.accelerators, 32);
  EXPECT_EQ(status.blocked.size(), 3U);
  EXPECT_EQ(status.admitted_since, kAdmitted);
  EXPECT_EQ(status.cluster_queue, "gpus");
}

TEST_F(WorkloadIndexTest, PartialAdmissionAndReclaimablePodsCount) {
  api::Workload workload = Admitted(WorkloadOf("a", 8, 2, 0));
  workload.assignments.front().count = 5;
  workload.reclaimable["main"] = 2;
  index_.UpsertWorkload(workload);
  EXPECT_EQ(Only().expected, 3);
  EXPECT_EQ(Only().accelerators, 6);
  workload.assignments.front().count.reset();
  index_.UpsertWorkload(workload);
  EXPECT_EQ(Only().expected, 6) << "old objects have no count";
}

TEST_F(WorkloadIndexTest, PodsOfAnEarlierCycleDoNotCount) {
  index_.UpsertWorkload(Admitted(WorkloadOf("a", 1, 1, 1), kAdmitted + 100));
  Put(Annotated(RefusedBy(PodOf("before", 1, 1), "n0"), kWorkload, "a"));
  EXPECT_EQ(Only().In(PodState::kRefused), 0);
  api::Pod now = Annotated(RefusedBy(PodOf("now", 1, 1), "n0"), kWorkload, "a");
  now.metadata.creation_time = kAdmitted + 101;
  Put(now);
  EXPECT_EQ(Only().In(PodState::kRefused), 1);
  // A plain Pod waits gated for its admission.
  api::Workload plain = Admitted(WorkloadOf("pod-x", 1, 1, 1), kAdmitted + 100);
  plain.metadata.owners = {{.kind = "Pod", .name = "x", .uid = "uid-x", .controller = true}};
  index_.ReplaceWorkloads({plain});
  Put(RefusedBy(PodOf("x", 1, 1), "n0"));
  EXPECT_EQ(Only().In(PodState::kRefused), 1);
}

TEST_F(WorkloadIndexTest, BlockedPodsThatAreAlikeAreOneKind) {
  api::Workload workload = Admitted(WorkloadOf("a", 4, 4, 4));
  workload.assignments.front().has_topology = true;
  workload.assignments.front().levels = {"kubernetes.io/hostname"};
  index_.UpsertWorkload(workload);
  for (const char* name : {"p-1", "p-0"}) {
    Put(Annotated(Tried(PodOf(name, 4, 4)), kWorkload, "a"));
  }
  api::Pod pinned = Annotated(Tried(PodOf("p-2", 4, 4)), kWorkload, "a");
  pinned.node_selector["kubernetes.io/hostname"] = "n7";
  Put(pinned);
  const WorkloadStatus status = Only();
  ASSERT_EQ(status.blocked.size(), 2U);
  EXPECT_EQ(status.blocked[0].pods, 2);
  EXPECT_EQ(status.blocked[0].example, "p-0");
  EXPECT_EQ(status.blocked[0].pod_set, "main");
  EXPECT_EQ(status.blocked[0].since, kAdmitted + 1);
  EXPECT_FALSE(status.blocked[0].pinned_by_topology);
  EXPECT_EQ(status.blocked[1].pinned_node, "n7");
  EXPECT_TRUE(status.blocked[1].pinned_by_topology);
}

// Pod → Job → Training, which owns the Workload; nobody names it.
class OwnerChainTest : public WorkloadIndexTest {
 protected:
  OwnerChainTest() {
    workload_ = Admitted(WorkloadOf("a", 2, 1, 1));
    workload_.metadata.owners.front().uid = "training";
    index_.UpsertWorkload(workload_);
    Put(OwnedBy(On(PodOf("runs", 1, 1), "n0"), "Job", "job"));
    Put(OwnedBy(Tried(PodOf("waits", 1, 1)), "Job", "job"));
  }
  static api::OwnerReference Controller(const std::string& uid) {
    return {.kind = "K", .name = uid, .uid = uid, .controller = true, .api_version = "g/v1"};
  }
  // The uids of the objects whose controllers are asked for.
  std::vector<std::string> Questions(std::int64_t now = 0, std::size_t most = 10) {
    statuses_ = index_.Statuses();
    std::vector<std::string> uids;
    for (const OwnerQuestion& question : index_.OwnersToRead(most, now, &statuses_)) {
      EXPECT_EQ(question.namespace_, "default");
      uids.push_back(question.owner.uid);
    }
    return uids;
  }
  void Learn(const std::string& uid, std::optional<api::OwnerReference> controller,
             std::int64_t now = 0) {
    index_.LearnOwner({"default", Controller(uid)}, std::move(controller), now);
  }
  using Uids = std::vector<std::string>;

  api::Workload workload_;
  std::vector<WorkloadStatus> statuses_;
};

TEST_F(OwnerChainTest, LeadsToTheWorkloadOfAnOwnersOwner) {
  EXPECT_EQ(Only().missing, 2);
  EXPECT_EQ(Questions(), Uids{"job"}) << "once for both Pods";
  EXPECT_TRUE(statuses_.front().has_unread_owners);
  const std::uint64_t before = index_.version();
  Learn("job", Controller("training"));
  EXPECT_NE(index_.version(), before);
  EXPECT_EQ(WorkloadOfPod("runs"), "uid-of-a");
  EXPECT_EQ(WorkloadOfPod("waits"), "uid-of-a");
  EXPECT_EQ(Only().missing, 0);
  EXPECT_EQ(Only().blocked.size(), 1U);
  EXPECT_EQ(Questions(), Uids{});
  EXPECT_FALSE(statuses_.front().has_unread_owners);
  // Later Pods, and a Workload that comes again, find the way by themselves.
  Put(OwnedBy(PodOf("later", 1, 1), "Job", "job"));
  EXPECT_EQ(WorkloadOfPod("later"), "uid-of-a");
  index_.DeleteWorkload("uid-of-a");
  EXPECT_EQ(WorkloadOfPod("later"), "");
  index_.UpsertWorkload(workload_);
  EXPECT_EQ(WorkloadOfPod("later"), "uid-of-a");
  // What leads there directly comes first.
  index_.UpsertWorkload(Admitted(WorkloadOf("b", 1, 1, 1)));
  Put(OwnedBy(OwnedBy(PodOf("later", 1, 1), "Job", "job-b"), "Job", "job"));
  EXPECT_EQ(WorkloadOfPod("later"), "uid-of-b");
}

TEST_F(OwnerChainTest, IsFollowedStepByStepAndNotForEver) {
  Learn("job", Controller("1"));
  EXPECT_EQ(Questions(), Uids{"1"});
  Learn("1", Controller("2"));
  Learn("2", Controller("3"));
  EXPECT_EQ(Questions(), Uids{"3"});
  Learn("3", Controller("4"));
  EXPECT_EQ(Questions(), Uids{}) << "four were read";
  Learn("2", Controller("job"));
  EXPECT_EQ(Questions(), Uids{}) << "a circle";
  Learn("2", Controller("training"));
  EXPECT_EQ(WorkloadOfPod("waits"), "uid-of-a");
}

TEST_F(OwnerChainTest, NobodyIsAnAnswerForAWhile) {
  Learn("job", std::nullopt, 1'000);
  EXPECT_EQ(Questions(1'000 + OwnerChains::kNobodyHolds - 1), Uids{});
  EXPECT_FALSE(statuses_.front().has_unread_owners);
  EXPECT_EQ(Questions(1'000 + OwnerChains::kNobodyHolds), Uids{"job"}) << "the right may be there";
  EXPECT_FALSE(statuses_.front().has_unread_owners) << "what was true stays true meanwhile";
  Learn("job", Controller("training"), 2'000);
  EXPECT_EQ(WorkloadOfPod("waits"), "uid-of-a");
}

TEST_F(OwnerChainTest, IsAskedForOnlyWhereAWorkloadLacksPods) {
  Put(OwnedBy(PodOf("stranger", 1, 1), "ReplicaSet", "replicas"));
  Put(OwnedBy(RefusedBy(PodOf("refused", 1, 1), "n0"), "Job", "z-job"));
  api::Pod elsewhere = OwnedBy(Tried(PodOf("elsewhere", 1, 1)), "Job", "other-job");
  elsewhere.metadata.namespace_ = "other";
  Put(elsewhere);
  api::Pod ended = OwnedBy(PodOf("ended", 1, 1), "Job", "ended-job");
  ended.status.phase = "Succeeded";
  Put(ended);
  EXPECT_EQ(Questions(), (Uids{"job", "z-job", "replicas"})) << "first of those that wait";
  EXPECT_EQ(Questions(0, 2), (Uids{"job", "z-job"}));
  Learn("job", Controller("training"));
  EXPECT_EQ(Questions(), Uids{}) << "none is missing any more";
  index_.DeletePod("uid-runs");
  EXPECT_EQ(Questions(), (Uids{"z-job", "replicas"}));
  test::SetCondition(workload_, "Evicted", true);
  index_.UpsertWorkload(workload_);
  EXPECT_EQ(Questions(), Uids{});
}

TEST_F(OwnerChainTest, TheOldestAreForgotten) {
  OwnerChains chains;
  const auto uid = [](std::size_t i) { return "owner-" + std::to_string(i); };
  for (std::size_t i = 0; i <= OwnerChains::kMostOwners; ++i) {
    chains.Learn(uid(i), Controller("top"), 0);
  }
  EXPECT_TRUE(chains.Above(Controller(uid(0))).empty());
  EXPECT_EQ(chains.Above(Controller(uid(1))), Uids{"top"});
  EXPECT_EQ(chains.Above(Controller(uid(OwnerChains::kMostOwners))), Uids{"top"});
}

TEST_F(WorkloadIndexTest, WhatGoesIsForgotten) {
  index_.UpsertWorkload(Admitted(WorkloadOf("a", 1, 1, 1)));
  Put(Annotated(PodOf("p", 1, 1), kWorkload, "a"));
  index_.DeletePod("uid-p");
  index_.DeletePod("uid-p");
  EXPECT_EQ(index_.pods(), 0U);
  EXPECT_EQ(Only().missing, 1);
  index_.ReplaceWorkloads({});
  EXPECT_TRUE(index_.Statuses().empty());
  index_.DeleteWorkload("uid-of-a");
}

}  // namespace
}  // namespace numafit::workloads
