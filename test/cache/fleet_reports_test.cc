// The Fleet with an inventory from reports: what agents saw against what was foretold, and news
// that come late, out of step or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "api/quantity.h"
#include "cache/explain.h"
#include "cache/fleet.h"
#include "cache/placement.h"
#include "policy/admit.h"
#include "test/cache/machines.h"
#include "test/cache/reports.h"

namespace numafit::cache {
namespace {

using policy::Reason;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kNode = "n0";

api::Pod PodFor(const policy::Demand& demand, const std::string& name) {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-" + name;
  pod.node_name = kNode;
  pod.status.phase = "Pending";
  for (const policy::ContainerDemand& each : demand.containers) {
    api::Container container;
    container.name = each.name;
    container.restart_always = each.kind == policy::ContainerDemand::Kind::kSidecar;
    for (const auto& [resource, count] : each.devices) {
      container.resources.limits[resource] = api::Quantity::FromInt(count);
    }
    for (const auto& [resource, milli] : each.requests) {
      container.resources.limits[resource] = api::Quantity::FromMilli(milli);
      container.resources.requests[resource] = api::Quantity::FromMilli(milli);
    }
    const bool app = each.kind == policy::ContainerDemand::Kind::kApp;
    (app ? pod.containers : pod.init_containers).push_back(container);
  }
  return pod;
}

api::Pod Running(api::Pod pod) {
  pod.status.phase = "Running";
  pod.status.container_statuses = 1;
  return pod;
}
api::Pod Deleting(api::Pod pod) {
  pod.metadata.deletion_time = 1;
  return pod;
}
api::Pod Ended(api::Pod pod) {
  pod.status.phase = "Succeeded";
  return pod;
}

policy::DeviceHolding Devices(int gpu_class, int gpus) {
  return {{gpu_class, gpus}};
}

// One even machine (2 NUMA nodes, 4 GPUs and 4 endpoints each), reported when the test says so.
class Reported : public ::testing::Test {
 protected:
  Reported() {
    const int pool = topology_->FindPool(test::kGpu);
    gpu0_ = topology_->FindDevice(pool, "g0-0").class_index;
    gpu1_ = topology_->FindDevice(pool, "g1-0").class_index;
  }

  struct Line {
    std::string name;
    policy::DeviceHolding devices;
  };
  v1alpha1::NodeReportStatus ReportWith(const std::vector<Line>& lines) {
    v1alpha1::NodeReportStatus report = test::ReportOf(test::SpecOf(test::kEven));
    report.set_generation(++generation_);
    test::ReportedPods pods(*topology_, report);
    for (const Line& line : lines) {
      policy::Holding held;
      held.devices = line.devices;
      pods.Add(line.name, "uid-" + line.name, held);
    }
    return report;
  }
  Fleet::ReportNews Report(const std::vector<Line>& lines) {
    const Fleet::ReportNews news = fleet_->UpsertReport(kNode, ReportWith(lines));
    EXPECT_TRUE(news.applied) << news.error;
    return news;
  }
  [[nodiscard]] Reason Judge(const policy::Demand& demand) const {
    const Fleet::ReadGuard guard(*fleet_);
    const int index = fleet_->FindNode(guard, kNode, -1);
    return JudgeOnNode(*fleet_->State(guard, index), demand, nullptr).reason;
  }
  bool Place(const std::string& name, const policy::Demand& demand) {
    const auto result = fleet_->Reserve(kNode, "uid-" + name, "default/" + name, demand);
    if (!result.judgement.fits()) return false;
    fleet_->Commit("uid-" + name);
    return true;
  }
  [[nodiscard]] std::vector<PodOnNode> Pods() const { return fleet_->Snapshot().front().pods; }

  std::shared_ptr<const policy::Topology> topology_ = test::Make(test::kEven);
  int gpu0_ = 0;
  int gpu1_ = 0;
  int generation_ = 0;
  std::unique_ptr<Fleet> fleet_ = Fleet::FromReports(api::ResourceClasses(), {});
};

TEST_F(Reported, ANodeWithoutAReportTakesNobody) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(1, 0), "early")));
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kNoReport);
  EXPECT_EQ(fleet_->Reserve(kNode, "u", "default/p", *test::Want(1, 0)).judgement.reason,
            Reason::kNoReport);
  EXPECT_EQ(fleet_->stats().unreported_nodes, 1U);
  // Its Pods were known before the report came.
  Report({});
  EXPECT_EQ(Judge(*test::Want(4, 4)), Reason::kFits);
  EXPECT_EQ(Pods().size(), 1U);
  fleet_->DeleteReport(kNode);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kNoReport);
  Report({});
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kFits);
}

TEST_F(Reported, ANodeThatIsGoneIsNotCounted) {
  const api::Pod pod = Running(PodFor(*test::Want(1, 0), "early"));
  Report({});
  fleet_->UpsertPod(pod);
  fleet_->SetAgentReady(kNode, true);
  EXPECT_EQ(fleet_->stats().nodes, 1U);
  // The agent goes first, then its report, then what the API server has of its Pods.
  fleet_->SetAgentReady(kNode, false);
  EXPECT_EQ(fleet_->stats().stale_nodes, 1U);
  fleet_->DeleteReport(kNode);
  EXPECT_EQ(fleet_->stats().nodes, 0U);
  EXPECT_EQ(fleet_->stats().stale_nodes, 0U);
  EXPECT_EQ(fleet_->stats().unreported_nodes, 1U);
  EXPECT_EQ(fleet_->Snapshot().size(), 1U);
  fleet_->DeletePod(pod);
  EXPECT_EQ(fleet_->stats().unreported_nodes, 0U);
  EXPECT_TRUE(fleet_->Snapshot().empty());
  // It comes back.
  Report({});
  EXPECT_EQ(fleet_->stats().nodes, 1U);
  EXPECT_EQ(Judge(*test::Want(4, 4)), Reason::kFits);
}

TEST_F(Reported, PeopleAreToldWhatIsNotKnown) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(1, 0), "early")));
  const auto node = [this] {
    return nlohmann::json::parse(
        NodesToJson(fleet_->Snapshot(), api::ResourceClasses()))["nodes"][0];
  };
  EXPECT_EQ(node()["report"], "none");
  EXPECT_EQ(node()["topologyManagerPolicy"], "unknown");
  const auto explained = Explain(fleet_->Snapshot(), "default/p", *test::Want(1, 0), {});
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_EQ(explained->answers.front().answer, "no: no report from this node");
  EXPECT_EQ(explained->answers.front().policy, "unknown");
  Report({});
  EXPECT_EQ(node()["report"], "current");
  EXPECT_EQ(node()["topologyManagerPolicy"], "single-numa-node");
  fleet_->SetAgentReady(kNode, false);
  EXPECT_EQ(node()["report"], "stale");
}

TEST_F(Reported, WhatIsSeenOutranksWhatWasForetold) {
  Report({});
  ASSERT_TRUE(Place("a", *test::Want(3, 0)));
  ASSERT_TRUE(Place("b", *test::Want(1, 0)));
  // What no kubelet with this policy does. The cluster is right all the same.
  const Fleet::ReportNews news = Report({{"a", Devices(gpu1_, 3)}, {"b", Devices(gpu1_, 1)}});
  EXPECT_EQ(Judge(*test::Want(4, 4)), Reason::kFits);
  EXPECT_EQ(news.confirmed, 0);
  ASSERT_EQ(news.differences.size(), 2U);
  EXPECT_EQ(news.differences.front().pod, "default/a");
  EXPECT_EQ(news.differences.front().observed, "nvidia.com/gpu 3 on NUMA 1");
  EXPECT_THAT(news.differences.front().foretold, HasSubstr("nvidia.com/gpu 3 on NUMA 0"));
}

TEST_F(Reported, APredictionThatComesTrueIsCountedOnce) {
  Report({});
  ASSERT_TRUE(Place("a", *test::Want(3, 0)));
  const auto first = Report({{"a", Devices(gpu0_, 3)}});
  EXPECT_EQ(first.confirmed, 1);
  EXPECT_THAT(first.differences, IsEmpty());
  EXPECT_EQ(Report({{"a", Devices(gpu0_, 3)}}).confirmed, 0);
}

TEST_F(Reported, RoomIsReusedOnlyAfterTheReportStopsListingIt) {
  const api::Pod pod = PodFor(*test::Want(4, 4), "a");
  Report({{"a", Devices(gpu0_, 4)}, {"b", Devices(gpu1_, 4)}});
  fleet_->UpsertPod(Running(pod));
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "b")));
  fleet_->UpsertPod(Ended(pod));
  EXPECT_NE(Judge(*test::Want(4, 0)), Reason::kFits);
  fleet_->DeletePod(Ended(pod));
  EXPECT_NE(Judge(*test::Want(4, 0)), Reason::kFits);
  EXPECT_EQ(Pods().size(), 2U);
  Report({{"b", Devices(gpu1_, 4)}});
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
  EXPECT_EQ(Pods().size(), 1U);
}

TEST_F(Reported, APodThatAReportHasNotListedYetStaysForetold) {
  Report({});
  ASSERT_TRUE(Place("a", *test::Want(4, 0)));
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "a")));
  Report({});  // made before the kubelet admitted it
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
  ASSERT_TRUE(Place("b", *test::Want(4, 0)));
  Report({{"a", Devices(gpu0_, 4)}});
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
}

TEST_F(Reported, APodThatIsBeingAdmittedIsForetoldUntilItHasEverything) {
  Report({});
  ASSERT_TRUE(Place("a", *test::Want(3, 3)));
  const auto first = Report({{"a", Devices(gpu0_, 3)}});  // the endpoints come a moment later
  EXPECT_EQ(first.confirmed, 0);
  EXPECT_THAT(first.differences, IsEmpty());
  policy::DeviceHolding all = Devices(gpu0_, 3);
  const int pool = topology_->FindPool(test::kRdma);
  all.push_back({topology_->FindDevice(pool, "e0-0").class_index, 3});
  std::sort(all.begin(), all.end());
  EXPECT_EQ(Pods().front().held(), all);
  EXPECT_EQ(Report({{"a", all}}).confirmed, 1);
}

TEST_F(Reported, APodThatVanishesFromTheReportMayStillBeThere) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "a")));
  Report({{"a", Devices(gpu0_, 4)}});
  Report({});  // the kubelet starts again, or is ahead of its statuses
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kSettling);  // on which side it goes is not known
  fleet_->UpsertPod(Ended(PodFor(*test::Want(4, 0), "a")));
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
  EXPECT_THAT(Pods(), IsEmpty());
}

TEST_F(Reported, APodThatVanishesWithItsPluginIsStillThereWhenThePluginIsBack) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "a")));
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "b")));
  Report({{"a", Devices(gpu0_, 4)}, {"b", Devices(gpu1_, 4)}});
  // The kubelet starts again: first nobody is there, then the devices are, then the Pods.
  v1alpha1::NodeReportStatus bare = ReportWith({});
  for (v1alpha1::Resource& resource : *bare.mutable_resources()) resource.clear_groups();
  ASSERT_TRUE(fleet_->UpsertReport(kNode, bare).applied);
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
  Report({});
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
  EXPECT_NE(Judge(*test::Want(4, 0)), Reason::kFits);
  Report({{"a", Devices(gpu0_, 4)}, {"b", Devices(gpu1_, 4)}});
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
}

TEST_F(Reported, APodThatHasBeenReplacedHasReallyGone) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "a")));
  Report({{"a", Devices(gpu0_, 4)}});
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "b")));
  Report({{"b", Devices(gpu0_, 4)}});
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
}

TEST_F(Reported, PodsThatOnlyTheAgentHasSeenCount) {
  Report({{"foreign", Devices(gpu0_, 4)}, {"other", Devices(gpu1_, 3)}});
  // Perhaps it is they who are late, perhaps the report.
  EXPECT_NE(Judge(*test::Want(2, 0)), Reason::kFits);
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "foreign")));
  EXPECT_NE(Judge(*test::Want(2, 0)), Reason::kFits);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kFits);  // there whatever becomes of "other"
  EXPECT_EQ(Pods().size(), 2U);
  fleet_->ReplacePods({});
  EXPECT_NE(Judge(*test::Want(2, 0)), Reason::kFits);
  Report({});
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
  EXPECT_THAT(Pods(), IsEmpty());
}

TEST_F(Reported, APodWithoutUidIsFoundByItsName) {
  v1alpha1::NodeReportStatus report = ReportWith({{"a", Devices(gpu0_, 4)}});
  report.mutable_pods(0)->clear_uid();
  ASSERT_TRUE(fleet_->UpsertReport(kNode, report).applied);
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "a")));
  EXPECT_EQ(Pods().size(), 1U);
  report.set_generation(++generation_);
  ASSERT_TRUE(fleet_->UpsertReport(kNode, report).applied);
  EXPECT_EQ(Pods().size(), 1U);
  EXPECT_EQ(Pods().front().uid, "uid-a");
}

TEST_F(Reported, AStaticPodIsOnePod) {
  Report({{"static", Devices(gpu0_, 4)}});
  api::Pod mirror = Running(PodFor(*test::Want(4, 0), "static"));
  mirror.metadata.uid = "the object's";
  mirror.metadata.annotations["kubernetes.io/config.hash"] = "uid-static";
  fleet_->UpsertPod(mirror);
  EXPECT_EQ(Pods().size(), 1U);
  Report({{"static", Devices(gpu0_, 4)}});  // still by the name that its kubelet knows
  EXPECT_EQ(Pods().size(), 1U);
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
}

TEST_F(Reported, AnOlderReportIsIgnored) {
  const v1alpha1::NodeReportStatus old = ReportWith({});
  Report({{"a", Devices(gpu0_, 4)}, {"b", Devices(gpu1_, 4)}});
  const Fleet::ReportNews news = fleet_->UpsertReport(kNode, old);
  EXPECT_FALSE(news.applied);
  EXPECT_EQ(news.error, "");
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
  // After a reboot counting may start again.
  v1alpha1::NodeReportStatus rebooted = old;
  rebooted.set_boot_id("next");
  EXPECT_TRUE(fleet_->UpsertReport(kNode, rebooted).applied);
}

TEST_F(Reported, AWrongReportLeavesTheStateAsItWas) {
  Report({{"a", Devices(gpu0_, 4)}, {"b", Devices(gpu1_, 4)}});
  v1alpha1::NodeReportStatus bad = ReportWith({});
  bad.mutable_resources(0)->mutable_groups(0)->set_count(-4);
  const Fleet::ReportNews news = fleet_->UpsertReport(kNode, bad);
  EXPECT_FALSE(news.applied);
  EXPECT_THAT(news.error, HasSubstr("count: is \"-4\""));
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
}

TEST_F(Reported, WithoutAnAgentTheApiServersWordCounts) {
  const api::Pod pod = PodFor(*test::Want(4, 0), "a");
  Report({{"a", Devices(gpu0_, 4)}, {"b", Devices(gpu1_, 4)}});
  fleet_->UpsertPod(Running(pod));
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "b")));
  fleet_->SetAgentReady(kNode, false);
  EXPECT_EQ(fleet_->stats().stale_nodes, 1U);
  fleet_->UpsertPod(Ended(pod));
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
  EXPECT_TRUE(Place("c", *test::Want(4, 0)));
  EXPECT_NE(Judge(*test::Want(1, 0)), Reason::kFits);
}

TEST_F(Reported, StaleNodesCanBeRefused) {
  Fleet::Options options;
  options.refuse_stale = true;
  fleet_ = Fleet::FromReports(api::ResourceClasses(), options);
  Report({});
  fleet_->SetAgentReady(kNode, false);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kStaleReport);
  fleet_->SetAgentReady(kNode, true);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kFits);
}

TEST_F(Reported, NothingIsBoundWhileTheKubeletIsAway) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(4, 0), "a")));
  Report({{"a", Devices(gpu0_, 4)}});
  const auto away = [this] {
    v1alpha1::NodeReportStatus report = ReportWith({{"a", Devices(gpu0_, 4)}});
    report.mutable_kubelet()->set_away(true);
    EXPECT_TRUE(fleet_->UpsertReport(kNode, report).applied);
  };
  away();
  EXPECT_EQ(fleet_->stats().away_nodes, 1U);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kKubeletAway);
  EXPECT_FALSE(Place("b", *test::Want(1, 0)));
  EXPECT_EQ(fleet_->stats().distinct_states, 1U);
  Report({{"a", Devices(gpu0_, 4)}});
  EXPECT_EQ(fleet_->stats().away_nodes, 0U);
  EXPECT_TRUE(Place("b", *test::Want(1, 0)));
  // Without an agent nobody would say that it is back.
  away();
  fleet_->SetAgentReady(kNode, false);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kFits);
  fleet_->SetAgentReady(kNode, true);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kKubeletAway);
  fleet_->DeleteReport(kNode);
  EXPECT_EQ(Judge(*test::Want(1, 0)), Reason::kNoReport);
}

TEST_F(Reported, ADeviceThatBecomesUnhealthyIsNoRoomAnyMore) {
  fleet_->UpsertPod(Running(PodFor(*test::Want(3, 0), "a")));
  Report({{"a", Devices(gpu0_, 3)}});
  EXPECT_EQ(Judge(*test::Want(4, 0)), Reason::kFits);
  v1alpha1::NodeReportStatus report = ReportWith({{"a", Devices(gpu0_, 3)}});
  for (v1alpha1::Resource& resource : *report.mutable_resources()) {
    if (resource.name() == test::kGpu) resource.mutable_groups(7)->set_unhealthy(true);
  }
  ASSERT_TRUE(fleet_->UpsertReport(kNode, report).applied);
  EXPECT_NE(Judge(*test::Want(4, 0)), Reason::kFits);
  EXPECT_EQ(Judge(*test::Want(3, 0)), Reason::kFits);
}

// A kubelet with its agent, and an API server, whose news reach the Fleet whenever the test lets
// them: statuses in order, reports in order, each as late as it likes.
class LateNews {
 public:
  LateNews(const test::Machine& machine, unsigned seed)
      : spec_(test::SpecOf(machine)),
        topology_(test::Make(machine)),
        random_(seed),
        usage_(*topology_),
        with_cpus_(machine.managers) {
    Snapshot();
    TellReports();
  }

  // kube-scheduler places a Pod if the Fleet lets it.
  void Place() {
    const auto demand =
        with_cpus_ ? test::RandomDemandWithCpus(random_) : test::RandomDemand(random_);
    const std::string name = "p" + std::to_string(next_++);
    const auto result = fleet_->Reserve(kNode, "uid-" + name, "default/" + name, *demand);
    if (!result.judgement.fits()) return;
    fleet_->Commit("uid-" + name);
    ++placed_;
    Note("place " + name + " " + demand->Fingerprint());
    waiting_[name] = demand;
    objects_[name] = PodFor(*demand, name);
    objects_[name].metadata.annotations[std::string(kPlacementAnnotation)] = result.placement;
    statuses_.push_back(objects_[name]);
  }
  void AdmitOne() {
    if (waiting_.empty()) return;
    auto pod = waiting_.begin();
    std::advance(pod, Below(waiting_.size()));
    const policy::AdmitResult result = policy::Admit(*topology_, usage_, *pod->second);
    const policy::Outcome& outcome = result.outcomes[Below(result.outcomes.size())];
    ASSERT_TRUE(outcome.admitted) << "the kubelet refuses " << pod->first << " after our OK, after"
                                  << story_;
    if (outcome.held.devices.size() > 1 && Below(3) == 0) {
      // The agent looks while the kubelet is at it.
      policy::Holding part = outcome.held;
      part.cpus = {};
      part.memory.clear();
      part.devices.pop_back();
      held_[pod->first] = part;
      Snapshot();
      TellReports();
      held_.erase(pod->first);
      told_.erase(pod->first);
    }
    policy::Apply(*topology_, outcome, usage_);
    Note("admit " + pod->first);
    held_[pod->first] = outcome.held;
    objects_[pod->first] = Running(objects_[pod->first]);
    statuses_.push_back(objects_[pod->first]);
    waiting_.erase(pod);
    Snapshot();
  }
  // One ends by itself, or is deleted. One of the two channels says so before anybody is placed.
  void EndOne() {
    if (held_.empty() || !waiting_.empty()) return;
    auto pod = held_.begin();
    std::advance(pod, Below(held_.size()));
    const bool deleted = Below(2) == 0;
    Note((deleted ? "delete " : "end ") + pod->first);
    if (deleted) statuses_.push_back(Deleting(objects_[pod->first]));
    usage_.Release(*topology_, pod->second);
    statuses_.push_back(Ended(objects_[pod->first]));
    objects_.erase(pod->first);
    // One that came and went between two reports is known from its statuses alone.
    const bool listed = told_.contains(pod->first);
    held_.erase(pod);
    Snapshot();
    if (!listed || Below(2) == 0) {
      TellStatuses(statuses_.size());
    } else {
      TellReports();
    }
  }
  void TellStatuses(std::size_t count) {
    for (; count > 0 && !statuses_.empty(); --count) {
      Note("status of " + statuses_.front().metadata.name + " " + statuses_.front().status.phase);
      fleet_->UpsertPod(statuses_.front());
      statuses_.pop_front();
    }
  }
  // The newest; a watch may skip those in between.
  void TellReports() {
    if (reports_.empty()) return;
    Note("report");
    const Fleet::ReportNews news = fleet_->UpsertReport(kNode, reports_.back());
    ASSERT_TRUE(news.applied) << news.error;
    for (const Fleet::ReportNews::Difference& difference : news.differences) {
      ADD_FAILURE() << difference.pod << ": foretold " << difference.foretold << ", observed "
                    << difference.observed << " after" << story_;
    }
    latest_ = reports_.back();
    for (const v1alpha1::Pod& pod : latest_.pods()) told_.insert(pod.name());
    reports_.clear();
  }
  // The extender starts again: it knows what the API server has.
  void Restart() {
    TellStatuses(statuses_.size());
    Note("restart");
    told_.clear();
    for (const v1alpha1::Pod& pod : latest_.pods()) told_.insert(pod.name());
    fleet_ = Fleet::FromReports(api::ResourceClasses(), {});
    std::vector<api::Pod> pods;
    for (const auto& [name, pod] : objects_) pods.push_back(pod);
    const bool pods_first = Below(2) == 0;
    if (pods_first) fleet_->ReplacePods(pods);
    ASSERT_TRUE(fleet_->UpsertReport(kNode, latest_).applied);
    if (!pods_first) fleet_->ReplacePods(pods);
  }

  void Step() {
    switch (Below(12)) {
      case 0:
      case 1:
      case 2:
        return Place();
      case 3:
      case 4:
      case 5:
        return AdmitOne();
      case 6:
        return EndOne();
      case 7:
      case 8:
        return TellStatuses(1 + Below(2));
      case 9:
      case 10:
        return TellReports();
      default:
        if (Below(6) == 0) Restart();
    }
  }

  // Everything has happened and everything is told: the Fleet knows exactly what there is.
  void ExpectTheTruth() {
    while (!waiting_.empty() && !::testing::Test::HasFatalFailure()) AdmitOne();
    TellStatuses(statuses_.size());
    TellReports();
    const NodeView view = fleet_->Snapshot().front();
    ASSERT_EQ(view.state->knowledge.usages.size(), 1U);
    EXPECT_FALSE(view.state->knowledge.settling);
    EXPECT_FALSE(view.state->leaving);
    EXPECT_EQ(view.state->knowledge.usages.front().raw(), usage_.raw());
    EXPECT_EQ(view.state->knowledge.usages.front().compute().memory, usage_.compute().memory);
    EXPECT_EQ(view.state->knowledge.usages.front().compute().default_cpus.count(),
              usage_.compute().default_cpus.count());
    EXPECT_EQ(view.pods.size(), held_.size());
  }
  [[nodiscard]] int placed() const { return placed_; }

 private:
  std::size_t Below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  void Note(const std::string& what) { story_ += "\n  " + what; }
  // What the agent sees now.
  void Snapshot() {
    v1alpha1::NodeReportStatus report = test::ReportOf(spec_);
    report.set_generation(++generation_);
    test::ReportedPods pods(*topology_, report);
    for (const auto& [name, held] : held_) pods.Add(name, "uid-" + name, held);
    pods.SetBooks(usage_.compute());
    reports_.push_back(std::move(report));
  }

  std::string story_;
  const policy::TopologySpec spec_;
  const std::shared_ptr<const policy::Topology> topology_;
  std::mt19937 random_;
  policy::Usage usage_;
  const bool with_cpus_;
  int next_ = 0;
  int placed_ = 0;
  int generation_ = 0;
  std::unique_ptr<Fleet> fleet_ = Fleet::FromReports(api::ResourceClasses(), {});
  std::map<std::string, std::shared_ptr<policy::Demand>> waiting_;
  std::map<std::string, policy::Holding> held_;
  std::map<std::string, api::Pod> objects_;
  std::deque<api::Pod> statuses_;
  std::vector<v1alpha1::NodeReportStatus> reports_;
  std::set<std::string> told_;  // Pods that some report that was told has listed
  v1alpha1::NodeReportStatus latest_;
};

class LateNewsOf : public ::testing::TestWithParam<test::Machine> {};

TEST_P(LateNewsOf, NobodyIsRefusedAfterOurOkAndTheEndIsExact) {
  int placed = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LateNews node(GetParam(), seed);
    for (int i = 0; i < 80 && !HasFailure(); ++i) node.Step();
    if (HasFailure()) return;
    node.ExpectTheTruth();
    if (HasFailure()) return;
    placed += node.placed();
  }
  EXPECT_GT(placed, 200);
}

std::string NameOf(const ::testing::TestParamInfo<test::Machine>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Devices, LateNewsOf, ::testing::ValuesIn(test::kMachines), NameOf);
INSTANTIATE_TEST_SUITE_P(Managers, LateNewsOf, ::testing::ValuesIn(test::kMachinesWithManagers),
                         NameOf);

}  // namespace
}  // namespace numafit::cache
