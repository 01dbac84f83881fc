#include "workloads/tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "test/workloads/objects.h"

namespace numafit::workloads {
namespace {

using test::Admitted;
using test::Annotated;
using test::kAdmitted;
using test::On;
using test::PodOf;
using test::RefusedBy;
using test::Tried;
using test::WorkloadOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kWorkload[] = "kueue.x-k8s.io/workload";

class TrackerTest : public ::testing::Test {
 protected:
  // One Job of two Pods, admitted.
  TrackerTest() { index_.UpsertWorkload(Admitted(WorkloadOf("a", 2, 4, 4))); }

  void Put(const api::Pod& pod) {
    index_.UpsertPod(FactsOf(Annotated(pod, kWorkload, "a"), classes_, {}));
  }
  void Remove(const std::string& name) { index_.DeletePod("uid-" + name); }
  // So many seconds after the admission.
  Tracker::News Step(std::int64_t after) {
    return tracker_.Step(index_.Statuses(), kAdmitted + after);
  }
  [[nodiscard]] std::vector<Cause> Causes() const {
    std::vector<Cause> causes;
    for (const Flag& flag : tracker_.flags()) causes.push_back(flag.cause());
    return causes;
  }

  api::ResourceClasses classes_;
  WorkloadIndex index_{api::ResourceClasses()};
  Cause says_ = Cause::kEndpointsExhausted;
  int looks_ = 0;
  Tracker tracker_{{}, [this](const Blocked& blocked) {
                     ++looks_;
                     Finding finding;
                     finding.cause =
                         blocked.state == PodState::kRefused ? Cause::kKubeletRefused : says_;
                     return finding;
                   }};
};

TEST_F(TrackerTest, AtTheFirstRefusalAndUntilAllArePlaced) {
  Put(On(PodOf("p-0", 4, 4), "n0"));
  Put(PodOf("p-1", 4, 4));
  EXPECT_THAT(Step(1).raised, IsEmpty()) << "nobody has tried it yet";
  Put(Tried(PodOf("p-1", 4, 4)));
  const Tracker::News news = Step(3);
  ASSERT_EQ(news.raised.size(), 1U);
  const Flag& flag = news.raised.front();
  EXPECT_EQ(flag.cause(), Cause::kEndpointsExhausted);
  EXPECT_EQ(flag.workload.accelerators, 8);
  EXPECT_EQ(flag.since, kAdmitted + 1);
  EXPECT_EQ(flag.raised, kAdmitted + 3);
  EXPECT_THAT(Step(4).raised, IsEmpty());
  EXPECT_THAT(Causes(), ElementsAre(Cause::kEndpointsExhausted));
  EXPECT_EQ(tracker_.flags().front().raised, kAdmitted + 3);
  Put(On(PodOf("p-1", 4, 4), "n1"));
  EXPECT_THAT(Step(5).cleared, ElementsAre("default/a"));
  EXPECT_THAT(Causes(), IsEmpty());
}

TEST_F(TrackerTest, OncePerCycleAndCause) {
  Put(On(PodOf("p-0", 4, 4), "n0"));
  Put(Tried(PodOf("p-1", 4, 4)));
  EXPECT_EQ(Step(1).raised.size(), 1U);
  says_ = Cause::kNumaFragmented;
  EXPECT_EQ(Step(2).raised.size(), 1U);
  says_ = Cause::kEndpointsExhausted;
  EXPECT_THAT(Step(3).raised, IsEmpty()) << "it was told that before";
  EXPECT_THAT(Causes(), ElementsAre(Cause::kEndpointsExhausted));
  // Evicted, and admitted again.
  api::Workload workload = Admitted(WorkloadOf("a", 2, 4, 4));
  test::SetCondition(workload, "Evicted", true);
  index_.UpsertWorkload(workload);
  EXPECT_EQ(Step(4).cleared.size(), 1U);
  index_.UpsertWorkload(Admitted(WorkloadOf("a", 2, 4, 4), kAdmitted + 60));
  const Tracker::News news = Step(61);
  ASSERT_EQ(news.raised.size(), 1U);
  EXPECT_EQ(news.raised.front().since, kAdmitted + 60);
}

TEST_F(TrackerTest, WhatIsNotFlagged) {
  struct Case {
    const char* what;
    std::function<void(api::Workload&)> change;
  };
  Put(Tried(PodOf("p-0", 4, 4)));
  Put(Tried(PodOf("p-1", 4, 4)));
  const std::vector<Case> cases = {
      {"not admitted", [](auto& w) { test::SetCondition(w, "Admitted", false); }},
      {"evicted", [](auto& w) { test::SetCondition(w, "Evicted", true); }},
      {"finished", [](auto& w) { test::SetCondition(w, "Finished", true); }},
      {"switched off", [](auto& w) { w.active = false; }},
      {"being deleted", [](auto& w) { w.metadata.deletion_time = kAdmitted; }},
      {"runs in another cluster", [](auto& w) { w.cluster_name = "worker-1"; }},
      {"its nodes are being made",
       [](auto& w) {
         w.pod_sets.front()
             .pod.metadata.annotations["autoscaling.x-k8s.io/consume-provisioning-request"] = "r";
       }},
      {"its nodes are being exchanged", [](auto& w) { w.has_unhealthy_nodes = true; }},
  };
  for (const Case& each : cases) {
    api::Workload workload = Admitted(WorkloadOf("a", 2, 4, 4));
    each.change(workload);
    index_.UpsertWorkload(workload);
    EXPECT_THAT(Step(300).raised, IsEmpty()) << each.what;
  }
  index_.UpsertWorkload(Admitted(WorkloadOf("a", 2, 4, 4)));
  EXPECT_EQ(Step(300).raised.size(), 1U);
}

TEST_F(TrackerTest, NorThosePodsThatAreOnTheirWay) {
  api::Pod gated = PodOf("p-0", 4, 4);
  gated.scheduling_gates = {"kueue.x-k8s.io/admission"};
  Put(gated);
  api::Pod nominated = Tried(PodOf("p-1", 4, 4));
  nominated.status.nominated_node_name = "n0";
  Put(nominated);
  EXPECT_THAT(Step(300).raised, IsEmpty());
  EXPECT_EQ(looks_, 0);
}

TEST_F(TrackerTest, NodesThatNeverComeAreNotWaitedForForEver) {
  api::Workload workload = Admitted(WorkloadOf("a", 2, 4, 4));
  workload.pod_sets.front()
      .pod.metadata.annotations["autoscaling.x-k8s.io/consume-provisioning-request"] = "r";
  index_.UpsertWorkload(workload);
  Put(Tried(PodOf("p-0", 4, 4)));
  EXPECT_THAT(Step(599).raised, IsEmpty());
  EXPECT_EQ(Step(600).raised.size(), 1U);
}

TEST_F(TrackerTest, WhatMayPassByItselfIsGivenTime) {
  Put(Tried(PodOf("p-0", 4, 4)));
  says_ = Cause::kOther;
  EXPECT_THAT(Step(10).raised, IsEmpty());
  EXPECT_THAT(Step(39).raised, IsEmpty());
  EXPECT_EQ(Step(40).raised.size(), 1U);
  // A flag that stands is not taken for something else because of a moment.
  says_ = Cause::kEndpointsExhausted;
  EXPECT_EQ(Step(41).raised.size(), 1U);
  says_ = Cause::kStaleData;
  EXPECT_THAT(Step(42).raised, IsEmpty());
  EXPECT_THAT(Causes(), ElementsAre(Cause::kEndpointsExhausted));
  EXPECT_EQ(Step(52).raised.size(), 1U);
  EXPECT_THAT(Causes(), ElementsAre(Cause::kStaleData));
}

TEST_F(TrackerTest, RefusedPodsCountWhileNobodyTakesTheirPlace) {
  Put(On(PodOf("p-0", 4, 4), "n0"));
  Put(RefusedBy(PodOf("p-1", 4, 4), "n1"));
  EXPECT_THAT(Step(2).raised, IsEmpty()) << "its controller makes a new one";
  ASSERT_EQ(Step(40).raised.size(), 1U);
  EXPECT_THAT(Causes(), ElementsAre(Cause::kKubeletRefused));
  Put(On(PodOf("p-2", 4, 4), "n1"));
  EXPECT_EQ(Step(41).cleared.size(), 1U);
}

TEST_F(TrackerTest, PodsThatWereNeverMade) {
  Put(On(PodOf("p-0", 4, 4), "n0"));
  EXPECT_THAT(Step(29).raised, IsEmpty());
  EXPECT_THAT(Step(30).raised, IsEmpty());
  const Tracker::News news = Step(60);
  ASSERT_EQ(news.raised.size(), 1U);
  EXPECT_EQ(news.raised.front().why, "1 of 2 Pods have not been created by their controller");
  // A Workload that nobody owns has no controller that would make Pods.
  api::Workload bare = Admitted(WorkloadOf("bare", 2, 4, 4));
  bare.metadata.owners.clear();
  index_.ReplaceWorkloads({bare});
  EXPECT_THAT(Step(600).raised, IsEmpty());
}

TEST_F(TrackerTest, PodsThatMayStillBeFoundAreNotMissing) {
  const auto step = [this](std::int64_t after, bool unread) {
    std::vector<WorkloadStatus> statuses = index_.Statuses();
    statuses.front().has_unread_owners = unread;
    return tracker_.Step(statuses, kAdmitted + after);
  };
  EXPECT_THAT(step(30, true).raised, IsEmpty());
  EXPECT_THAT(step(90, true).raised, IsEmpty()) << "there are many to read";
  EXPECT_EQ(step(91, false).raised.size(), 1U);
  const Tracker::News later = step(92, true);
  EXPECT_THAT(later.cleared, IsEmpty()) << "others' Pods have come";
  EXPECT_THAT(later.raised, IsEmpty());
  EXPECT_THAT(Causes(), ElementsAre(Cause::kOther));
  // What was tried in vain is known to be its.
  Put(Tried(PodOf("p-0", 4, 4)));
  EXPECT_EQ(step(93, true).raised.size(), 1U);
  EXPECT_THAT(Causes(), ElementsAre(Cause::kEndpointsExhausted));
}

TEST_F(TrackerTest, EqualPodsAreJudgedOnce) {
  for (const char* name : {"b", "c", "d"}) {
    index_.UpsertWorkload(Admitted(WorkloadOf(name, 1, 4, 4)));
    index_.UpsertPod(FactsOf(
        Annotated(Tried(PodOf(std::string("p-") + name, 4, 4)), kWorkload, name), classes_, {}));
  }
  EXPECT_EQ(Step(5).raised.size(), 3U);
  EXPECT_EQ(looks_, 1);
}

}  // namespace
}  // namespace numafit::workloads
