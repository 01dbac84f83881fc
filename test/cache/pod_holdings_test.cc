// Who holds what, as people are shown it.
#include "cache/pod_holdings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/resource_class.h"
#include "cache/explain.h"
#include "cache/pods_json.h"
#include "test/cache/machines.h"
#include "test/cache/reports.h"

namespace numafit::cache {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

api::Pod PodWith(const std::string& name, int gpus, int endpoints) {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-" + name;
  pod.node_name = "n0";
  pod.status.phase = "Running";
  pod.status.container_statuses = 1;
  api::Container& main = pod.containers.emplace_back();
  main.name = "main";
  main.resources.limits[test::kGpu] = api::Quantity::FromInt(gpus);
  main.resources.limits[test::kRdma] = api::Quantity::FromInt(endpoints);
  return pod;
}

// Groups 0 to 3 of either resource are on NUMA 0, 4 to 7 on NUMA 1.
class PodHoldingsTest : public ::testing::Test {
 protected:
  void Start(const test::Machine& machine) {
    machine_ = machine;
    Fleet::Options options;
    options.now_ms = [this] { return now_ms_; };
    options.wall_ms = [this] { return wall_ms_; };
    fleet_ = Fleet::FromReports(classes_, std::move(options));
  }
  v1alpha1::NodeReportStatus Report() {
    v1alpha1::NodeReportStatus report = test::ReportOf(test::SpecOf(machine_));
    report.set_generation(++generation_);
    return report;
  }
  // A Pod of one container with these groups of GPUs and endpoints.
  static void AddPod(const std::string& name, const std::vector<int>& gpus,
                     const std::vector<int>& endpoints, v1alpha1::NodeReportStatus& report) {
    v1alpha1::Pod* pod = report.add_pods();
    pod->set_namespace_("default");
    pod->set_name(name);
    pod->set_uid("uid-" + name);
    v1alpha1::Container* main = pod->add_containers();
    main->set_name("main");
    const auto hold = [&](const char* resource, const std::vector<int>& groups) {
      for (const int group : groups) {
        for (v1alpha1::HeldDevices* held : {pod->add_devices(), main->add_devices()}) {
          held->set_resource(resource);
          held->set_group(group);
          held->set_count(1);
        }
      }
    };
    hold(test::kGpu, gpus);
    hold(test::kRdma, endpoints);
  }
  json Pods(const PodsOptions& options = {}) {
    return json::parse(PodsToJson(fleet_->Snapshot(), options).value())["pods"];
  }
  json Node() { return json::parse(NodesToJson(fleet_->Snapshot(), classes_))["nodes"].at(0); }

  const api::ResourceClasses classes_;
  test::Machine machine_ = test::kEven;
  int generation_ = 0;
  std::int64_t now_ms_ = 1'000'000;
  std::int64_t wall_ms_ = 1'800'000'000'000;
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(PodHoldingsTest, WhatAReportListsIsObservedContainerByContainer) {
  Start(test::kUnaligned);
  v1alpha1::NodeReportStatus report = Report();
  AddPod("apart", {0, 1}, {4}, report);
  AddPod("together", {2}, {0}, report);
  AddPod("only-gpus", {5}, {}, report);
  ASSERT_TRUE(fleet_->UpsertReport("n0", report).applied);
  fleet_->UpsertPod(PodWith("apart", 2, 1));
  const json pods = Pods();
  ASSERT_EQ(pods.size(), 3U);
  // The misaligned one first.
  EXPECT_EQ(pods[0]["pod"], "default/apart");
  EXPECT_EQ(pods[0]["node"], "n0");
  EXPECT_EQ(pods[0]["state"], "observed");
  EXPECT_EQ(pods[0]["alignment"], "misaligned");
  const json devices = pods[0]["containers"][0]["devices"];
  EXPECT_EQ(devices[0], json::parse(R"({"resource": "nvidia.com/gpu", "kind": "accelerator",
                                        "numa": [0], "published": true, "count": 2})"));
  EXPECT_EQ(devices[1]["kind"], "endpoint");
  EXPECT_EQ(devices[1]["numa"], json::array({1}));
  EXPECT_EQ(pods[1]["alignment"], "not-needed");
  EXPECT_EQ(pods[2]["alignment"], "aligned");
  EXPECT_EQ(Pods({.node = "", .misaligned_only = true}).size(), 1U);
  EXPECT_EQ(Node()["misaligned"], 1);
  fleet_->UpsertPod([] {
    api::Pod pod = PodWith("apart", 2, 1);
    pod.metadata.deletion_time = 1;
    return pod;
  }());
  EXPECT_EQ(Pods()[0]["state"], "leaving");
}

TEST_F(PodHoldingsTest, OnlyNodesThatAreThereHavePods) {
  Start(test::kEven);
  fleet_->UpsertReport("n0", Report());
  EXPECT_THAT(Pods({.node = "n0", .misaligned_only = false}), IsEmpty());
  EXPECT_EQ(
      PodsToJson(fleet_->Snapshot(), {.node = "n1", .misaligned_only = false}).status().code(),
      absl::StatusCode::kNotFound);
}

TEST_F(PodHoldingsTest, WhatIsForetoldIsSaidAsFarAsItIsCertain) {
  Start(test::kEven);
  fleet_->UpsertReport("n0", Report());
  const auto demand = DemandFromPod(PodWith("next", 4, 4), classes_, {}).value();
  ASSERT_TRUE(fleet_->Reserve("n0", "uid-next", "default/next", demand).judgement.fits());
  json pods = Pods();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0]["state"], "reserved");
  // NUMA 0 as well as NUMA 1; on either it is aligned.
  ASSERT_EQ(pods[0]["possible"].size(), 0U) << "the kubelet takes the smaller id";
  EXPECT_EQ(pods[0]["alignment"], "aligned");
  fleet_->Commit("uid-next");
  EXPECT_EQ(Pods()[0]["state"], "predicted");
}

TEST_F(PodHoldingsTest, WhereAKubeletPicksAtRandomItSaysWhatMayBe) {
  Start(test::kUnaligned);
  fleet_->UpsertReport("n0", Report());
  const auto demand = DemandFromPod(PodWith("next", 1, 1), classes_, {}).value();
  ASSERT_TRUE(fleet_->Reserve("n0", "uid-next", "default/next", demand).judgement.fits());
  const json pods = Pods();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0]["alignment"], "unknown");
  EXPECT_EQ(pods[0]["possible"].size(), 4U) << pods;
  EXPECT_EQ(pods[0]["containers"][0]["devices"][0]["numa"], json::array());
  EXPECT_EQ(Node()["misaligned"], 0);
}

TEST_F(PodHoldingsTest, APodOnANodeWithoutAReportIsNotGuessedAt) {
  Start(test::kEven);
  fleet_->UpsertPod(PodWith("early", 1, 1));
  const json pods = Pods();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0]["alignment"], "unknown");
  EXPECT_EQ(pods[0]["possible"], json::array());
  EXPECT_EQ(Node()["states"], json::array({"no-report"}));
}

TEST_F(PodHoldingsTest, ContainersShareAnEntryWhereOnlyTheTotalIsKnown) {
  const auto topology = test::Make(test::kUnaligned);
  const int gpu = topology->FindPool(test::kGpu);
  const int rdma = topology->FindPool(test::kRdma);
  const int gpu0 = topology->FindDevice(gpu, "g0-0").class_index;
  const int gpu1 = topology->FindDevice(gpu, "g1-0").class_index;
  const int rdma0 = topology->FindDevice(rdma, "e0-0").class_index;
  ASSERT_GE(rdma0, 0);
  api::Pod two = PodWith("two", 1, 1);
  two.containers.push_back(two.containers[0]);
  two.containers[1].name = "side";
  auto state = std::make_shared<NodeState>();
  state->topology = topology;
  NodeView node;
  node.name = "n0";
  node.state = state;
  PodOnNode pod;
  pod.demand = DemandFromPod(two, classes_, {}).value();
  pod.may_hold = {{{gpu0, 2}, {rdma0, 2}}};
  PodHoldings holdings = HoldingsOf(node, pod);
  ASSERT_EQ(holdings.containers.size(), 2U);
  EXPECT_EQ(holdings.containers[1].places.name, "side");
  EXPECT_EQ(holdings.containers[1].places.devices[0].count, 1);
  EXPECT_EQ(holdings.alignment(), api::HeldAlignment::kAligned);
  // Who has the GPU on NUMA 1?
  pod.may_hold = {{{gpu0, 1}, {gpu1, 1}, {rdma0, 2}}};
  holdings = HoldingsOf(node, pod);
  ASSERT_EQ(holdings.containers.size(), 1U);
  EXPECT_EQ(holdings.containers[0].places.name, "main, side");
  EXPECT_EQ(holdings.alignment(), api::HeldAlignment::kUnknown);
}

TEST_F(PodHoldingsTest, ANodeSaysWhatKeepsItFromBeingTrusted) {
  Start(test::kEven);
  v1alpha1::NodeReportStatus report = Report();
  report.set_observed_time("2027-01-15T08:00:00Z");  // 1,800,000,000
  report.set_agent_version("0.1.0");
  v1alpha1::Source* source = report.add_sources();
  source->set_name("configuration");
  source->set_error("configz: 403 Forbidden");
  report.add_sources()->set_name("machine");
  report.mutable_resources(0)->mutable_groups(0)->clear_numa_nodes();
  report.mutable_resources(0)->mutable_groups(0)->set_no_topology(true);
  fleet_->UpsertReport("n0", report);
  fleet_->SetAgentReady("n0", true);
  json node = Node();
  EXPECT_EQ(node["report"], "current");
  EXPECT_EQ(node["states"], json::array());
  EXPECT_EQ(node["observedTime"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(node["agentVersion"], "0.1.0");
  EXPECT_EQ(node["configurationConfirmed"], true);
  ASSERT_EQ(node["sourceErrors"].size(), 1U);
  EXPECT_EQ(node["sourceErrors"][0]["error"], "configz: 403 Forbidden");
  ASSERT_EQ(node["withoutNuma"].size(), 1U);
  EXPECT_EQ(node["withoutNuma"][0]["devices"], 1);
  EXPECT_FALSE(node.contains("clockAheadSeconds")) << "nobody knows how old the first report is";

  // The next one was made a moment ago.
  report.set_generation(++generation_);
  wall_ms_ += 90'000;
  fleet_->UpsertReport("n0", report);
  EXPECT_EQ(Node()["clockAheadSeconds"], -90);
  report.set_generation(generation_ += 5);
  report.set_observed_time("2027-01-15T08:05:00Z");
  fleet_->UpsertReport("n0", report);
  EXPECT_EQ(Node()["clockAheadSeconds"], 210) << "of the future, whatever came between";

  fleet_->SetAgentReady("n0", false);
  now_ms_ += 41'000;
  node = Node();
  EXPECT_EQ(node["report"], "stale");
  EXPECT_EQ(node["states"], json::array({"stale-report"}));
  EXPECT_EQ(node["agentLostSeconds"], 41);
  fleet_->SetAgentReady("n0", true);
  EXPECT_FALSE(Node().contains("agentLostSeconds"));

  report.set_generation(++generation_);
  report.mutable_kubelet()->clear_topology_manager_policy();
  EXPECT_FALSE(fleet_->UpsertReport("n0", report).applied);
  EXPECT_THAT(Node()["reportError"].get<std::string>(), HasSubstr("topologyManagerPolicy"));
  fleet_->RefuseReport("n0", "status.bootId: too long");
  EXPECT_EQ(Node()["reportError"], "status.bootId: too long");
  fleet_->DeleteReport("n0");
  EXPECT_TRUE(fleet_->Snapshot().empty()) << "nothing is known of it any more";
  fleet_->UpsertReport("n0", Report());
  node = Node();
  EXPECT_FALSE(node.contains("reportError"));
  EXPECT_FALSE(node.contains("observedTime"));
}

TEST_F(PodHoldingsTest, AnAgentThatWasNeverThereHasNoTimeOfLoss) {
  Start(test::kEven);
  fleet_->UpsertReport("n0", Report());
  fleet_->SetAgentReady("n0", false);
  EXPECT_EQ(Node()["report"], "stale");
  EXPECT_FALSE(Node().contains("agentLostSeconds"));
}

TEST(PlacesTable, EqualPodsShareOne) {
  PlacesTable table;
  const std::vector<api::ContainerPlaces> places = {
      {"main", false, {{"a.com/b", true, {0, 1}, true, 2}}}};
  const PodPlaces one = table.Intern(places);
  EXPECT_EQ(table.Intern(places), one);
  std::vector<api::ContainerPlaces> others = places;
  others[0].devices[0].published = false;
  EXPECT_NE(table.Intern(others), one);
  others = places;
  others[0].devices[0].numa_nodes = {1};
  EXPECT_NE(table.Intern(others), one);
  EXPECT_EQ(*one, places);
  EXPECT_EQ(table.size(), 1U) << "nobody uses the others";
  EXPECT_EQ(table.Intern({}), nullptr);
}

}  // namespace
}  // namespace numafit::cache
