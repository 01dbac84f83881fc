// Counts of NodeResourceTopology: what they say of a machine, and how a node lives by them.
#include "cache/counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cache/explain.h"
#include "cache/fleet.h"
#include "test/cache/machines.h"
#include "test/cache/reports.h"

namespace numafit::cache {
namespace {

using policy::Alignment;
using policy::Reason;
using test::kGpu;
using test::kRdma;
using ::testing::HasSubstr;

constexpr const char* kNode = "n0";

// Free GPUs and endpoints of each NUMA node, of so many.
struct Free {
  int gpus = 0;
  int endpoints = 0;
};
api::NodeResourceTopology Counts(const std::vector<Free>& zones, int each = 4,
                                 const std::string& policy = "single-numa-node",
                                 const std::string& scope = "container") {
  api::NodeResourceTopology counts;
  counts.metadata.name = kNode;
  counts.policy = policy;
  counts.scope = scope;
  for (const Free& free : zones) {
    auto& zone = counts.zones.emplace_back();
    zone.numa = static_cast<int>(counts.zones.size()) - 1;
    zone.resources = {{kRdma, each, each, free.endpoints}, {kGpu, each, each, free.gpus}};
  }
  return counts;
}

NodeFacts Facts(int gpus = 8, int endpoints = 8) {
  return {"v1.36.3", {{kGpu, gpus}, {kRdma, endpoints}}};
}

std::string Problem(const api::NodeResourceTopology& counts, const NodeFacts& facts = Facts()) {
  ReportReader reader;
  return std::string(ReadCounts(counts, facts, api::ResourceClasses(), reader).status().message());
}

api::Pod PodFor(const std::string& name, int gpus, int endpoints, bool runs = false) {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-" + name;
  pod.node_name = kNode;
  pod.status.phase = runs ? "Running" : "Pending";
  pod.status.container_statuses = runs ? 1 : 0;
  api::Container container;
  container.name = "main";
  if (gpus > 0) container.resources.limits[kGpu] = api::Quantity::FromInt(gpus);
  if (endpoints > 0) container.resources.limits[kRdma] = api::Quantity::FromInt(endpoints);
  pod.containers = {container};
  return pod;
}

class Counted : public ::testing::Test {
 protected:
  void Put(const api::NodeResourceTopology& counts, const NodeFacts& facts = Facts()) {
    EXPECT_EQ(fleet_->UpsertCounts(counts, facts), "");
  }
  [[nodiscard]] policy::Judgement Judge(int gpus, int endpoints) const {
    return JudgeDemand(*test::Want(gpus, endpoints));
  }
  [[nodiscard]] policy::Judgement JudgeDemand(const policy::Demand& demand) const {
    const Fleet::ReadGuard guard(*fleet_);
    const int index = fleet_->FindNode(guard, kNode, -1);
    return JudgeOnNode(*fleet_->State(guard, index), demand, nullptr);
  }
  [[nodiscard]] Reason Why(int gpus, int endpoints) const { return Judge(gpus, endpoints).reason; }

  std::unique_ptr<Fleet> fleet_ = Fleet::FromReports(api::ResourceClasses(), {});
};

TEST(ReadCountsTest, ZonesBecomeNumaNodesWithAsManyDevices) {
  ReportReader reader;
  api::NodeResourceTopology counts = Counts({{3, 4}, {4, 1}});
  counts.zones[0].costs = {{0, 10}, {1, 21}};
  counts.zones[1].costs = {{0, 21}, {1, 10}};
  const auto counted = ReadCounts(counts, Facts(), api::ResourceClasses(), reader);
  ASSERT_TRUE(counted.ok()) << counted.status();
  const policy::Topology& topology = *counted->node.topology;
  EXPECT_EQ(topology.numa().count(), 2);
  EXPECT_EQ(topology.kubelet().policy, policy::TopologyPolicy::kSingleNumaNode);
  EXPECT_EQ(topology.kubelet().scope, policy::TopologyScope::kContainer);
  EXPECT_EQ(topology.kubelet().version.minor, 36);
  EXPECT_EQ(topology.Distance(0, 1), 21);
  const auto& gpus = topology.pools()[static_cast<std::size_t>(topology.FindPool(kGpu))];
  EXPECT_EQ(gpus.devices, 8);
  EXPECT_EQ(gpus.endpoints.size(), 8U);
  EXPECT_EQ(counted->held.devices.size(), 2U);
  EXPECT_EQ(counted->taken,
            (PoolTotals{{topology.FindPool(kRdma), 3}, {topology.FindPool(kGpu), 1}}));
  // Nodes with the same counts have one machine.
  counts.metadata.name = "other";
  const auto same = ReadCounts(counts, Facts(), api::ResourceClasses(), reader);
  EXPECT_EQ(same->node.topology, counted->node.topology);
}

TEST(ReadCountsTest, TokensThatMayShareAnAdapterAreOneEndpoint) {
  ReportReader reader;
  api::NodeResourceTopology counts = Counts({{4, 4}});
  counts.zones[0].resources[0].name = "device.gpustack.ai/rdma.shared";
  const auto counted = ReadCounts(counts, {"v1.36.3", {}}, api::ResourceClasses(), reader);
  ASSERT_TRUE(counted.ok()) << counted.status();
  const policy::Topology& topology = *counted->node.topology;
  const int pool = topology.FindPool("device.gpustack.ai/rdma.shared");
  EXPECT_EQ(topology.pools()[static_cast<std::size_t>(pool)].endpoints.size(), 1U);
}

TEST(ReadCountsTest, WhatCannotBeAKubeletNamesTheField) {
  EXPECT_EQ(Problem(Counts({{4, 4}}, 4, "")),
            "attributes: no topologyManagerPolicy, and no topologyPolicies");
  EXPECT_EQ(Problem(Counts({{4, 4}}, 4, "restricted", "")),
            "attributes: no topologyManagerScope beside the policy restricted");
  EXPECT_EQ(Problem(Counts({{4, 4}}, 4, "none", "")), "");
  EXPECT_THAT(Problem(Counts({{4, 4}}, 4, "strict")),
              HasSubstr("topologyManagerPolicy: is \"strict\""));
  EXPECT_THAT(Problem(Counts({{4, 4}}), {"", {}}), HasSubstr("kubelet.version: is \"\""));
  EXPECT_THAT(Problem(Counts({{4, 4}, {4, 4}, {4, 4}}, 4096)), HasSubstr("24576 devices"));
  api::NodeResourceTopology counts = Counts({{4, 4}});
  counts.problem = absl::InvalidArgumentError("zones: none");
  EXPECT_EQ(Problem(counts), "zones: none");
  counts = Counts({{4, 4}});
  counts.zones[0].resources.push_back({"cpu", 32, 32, 32});
  EXPECT_EQ(Problem(counts),
            "zones: allocatable CPUs on every NUMA node and none that is reserved");
}

TEST_F(Counted, FreeDevicesDecideWhereTheyAre) {
  EXPECT_EQ(fleet_->size(), 0U);
  Put(Counts({{1, 4}, {3, 4}}));
  EXPECT_EQ(Why(3, 3), Reason::kFits);
  EXPECT_EQ(Why(4, 4), Reason::kNumaFragmented);
  EXPECT_EQ(Why(5, 0), Reason::kNeverFits);
  EXPECT_EQ(fleet_->stats().counted_nodes, 1U);
  EXPECT_EQ(fleet_->stats().unreported_nodes, 0U);
  Put(Counts({{4, 4}, {3, 4}}));
  EXPECT_EQ(Why(4, 4), Reason::kFits);
  // What is wrong changes nothing.
  EXPECT_NE(fleet_->UpsertCounts(Counts({{0, 0}}, 4, ""), Facts()), "");
  EXPECT_EQ(Why(4, 4), Reason::kFits);
  fleet_->DeleteCounts(kNode);
  EXPECT_EQ(Why(1, 0), Reason::kNoReport);
  EXPECT_EQ(fleet_->stats().counted_nodes, 0U);
}

TEST_F(Counted, AReportOutranksThemAsLongAsThereIsOne) {
  fleet_->UpsertPod(PodFor("x", 2, 0, /*runs=*/true));
  Put(Counts({{4, 4}, {4, 4}}));
  v1alpha1::NodeReportStatus report = test::ReportOf(test::SpecOf(test::kEven));
  const auto topology = test::Make(test::kEven);
  const int pool = topology->FindPool(kGpu);
  policy::Holding held;
  held.devices = {{topology->FindDevice(pool, "g0-0").class_index, 1},
                  {topology->FindDevice(pool, "g1-0").class_index, 1}};
  test::ReportedPods(*topology, report).Add("x", "uid-x", held);
  EXPECT_EQ(Why(4, 0), Reason::kFits);
  EXPECT_TRUE(fleet_->UpsertReport(kNode, report).applied);
  EXPECT_EQ(Why(4, 0), Reason::kNumaFragmented);
  EXPECT_EQ(fleet_->stats().reported_nodes, 1U);
  EXPECT_EQ(fleet_->stats().counted_nodes, 0U);
  // News of the counts are kept and not used.
  Put(Counts({{0, 0}, {2, 2}}));
  EXPECT_EQ(Why(3, 0), Reason::kFits);
  fleet_->DeleteReport(kNode);
  EXPECT_EQ(Why(3, 0), Reason::kKubeletRefuses);
  EXPECT_EQ(Why(2, 2), Reason::kFits);
  EXPECT_EQ(fleet_->stats().counted_nodes, 1U);
  EXPECT_TRUE(fleet_->UpsertReport(kNode, report).applied);
  fleet_->DeleteCounts(kNode);
  EXPECT_EQ(Why(3, 0), Reason::kFits);
  fleet_->DeleteReport(kNode);
  EXPECT_EQ(Why(1, 0), Reason::kNoReport);
}

TEST_F(Counted, PodsThatAreNotInThemYetAreForetoldOnTop) {
  Put(Counts({{4, 4}, {4, 4}}));
  ASSERT_TRUE(fleet_->Reserve(kNode, "uid-a", "default/a", *test::Want(4, 4)).judgement.fits());
  fleet_->Commit("uid-a");
  fleet_->UpsertPod(PodFor("a", 4, 4));
  EXPECT_EQ(Why(4, 4), Reason::kFits);
  fleet_->UpsertPod(PodFor("a", 4, 4, /*runs=*/true));
  ASSERT_TRUE(fleet_->Reserve(kNode, "uid-b", "default/b", *test::Want(4, 4)).judgement.fits());
  fleet_->Commit("uid-b");
  EXPECT_EQ(Why(1, 1), Reason::kKubeletRefuses);
  // The publisher has seen the first; the second stays on top.
  Put(Counts({{4, 4}, {0, 0}}));
  EXPECT_EQ(Why(1, 1), Reason::kKubeletRefuses);
  fleet_->UpsertPod(PodFor("b", 4, 4, /*runs=*/true));
  Put(Counts({{0, 0}, {0, 0}}));
  EXPECT_EQ(Why(1, 1), Reason::kKubeletRefuses);
  // The room of one that has gone is somebody's until the publisher says otherwise.
  fleet_->DeletePod(PodFor("a", 4, 4, /*runs=*/true));
  EXPECT_EQ(Why(1, 1), Reason::kKubeletRefuses);
  Put(Counts({{0, 0}, {4, 4}}));
  EXPECT_EQ(Why(4, 4), Reason::kFits);
  EXPECT_EQ(Why(5, 0), Reason::kNeverFits);
}

TEST_F(Counted, ABindInFlightIsInNoCount) {
  Put(Counts({{4, 4}, {4, 4}}));
  ASSERT_TRUE(fleet_->Reserve(kNode, "uid-a", "default/a", *test::Want(4, 4)).judgement.fits());
  Put(Counts({{0, 0}, {4, 4}}));  // others
  EXPECT_EQ(Why(1, 1), Reason::kKubeletRefuses);
  fleet_->Release("uid-a");
  EXPECT_EQ(Why(4, 4), Reason::kFits);
}

TEST_F(Counted, PodsThatRunWhenTheyAreListedAreInThem) {
  // After a restart, whichever list comes first.
  const std::vector<api::Pod> pods = {PodFor("a", 2, 2, true), PodFor("b", 2, 2, true)};
  Put(Counts({{0, 0}, {4, 4}}));
  fleet_->ReplacePods(pods);
  EXPECT_EQ(Why(4, 4), Reason::kFits);
  fleet_ = Fleet::FromReports(api::ResourceClasses(), {});
  fleet_->ReplacePods(pods);
  EXPECT_EQ(Why(1, 0), Reason::kNoReport);
  Put(Counts({{0, 0}, {4, 4}}));
  EXPECT_EQ(Why(4, 4), Reason::kFits);
  // One more than is counted.
  fleet_->ReplacePods({pods[0], pods[1], PodFor("c", 4, 4, true)});
  EXPECT_NE(Why(1, 1), Reason::kFits);
}

TEST_F(Counted, MoreInZonesThanTheNodeHasIsNotFreeAnywhere) {
  // Each of four GPUs on both NUMA nodes.
  Put(Counts({{4, 4}, {4, 4}}), Facts(4, 8));
  EXPECT_EQ(Why(1, 0), Reason::kKubeletRefuses);
  EXPECT_EQ(Why(0, 4), Reason::kFits);
  // One that is unhealthy, who knows where.
  Put(Counts({{4, 4}, {4, 4}}), Facts(7, 8));
  EXPECT_EQ(Why(3, 3), Reason::kFits);
  EXPECT_EQ(Why(4, 4), Reason::kNumaFragmented);
}

TEST_F(Counted, WhatTheZonesDoNotHaveHasNoTopology) {
  api::NodeResourceTopology counts = Counts({{4, 4}, {4, 4}});
  NodeFacts facts = Facts();
  facts.allocatable["example.com/license"] = 2;
  facts.allocatable[kGpu] = 9;
  Put(counts, facts);
  policy::Demand demand = *test::Want(1, 1);
  demand.containers[0].devices["example.com/license"] = 1;
  EXPECT_EQ(JudgeDemand(demand).reason, Reason::kFits);
}

TEST_F(Counted, AlignmentIsGuaranteedOnlyWhereCountsProveIt) {
  Put(Counts({{4, 4}, {4, 4}}));
  EXPECT_EQ(Judge(4, 4).alignment, Alignment::kGuaranteed);
  Put(Counts({{4, 4}, {4, 4}}, 4, "restricted"));
  EXPECT_EQ(Judge(4, 4).alignment, Alignment::kGuaranteed);
  EXPECT_EQ(Judge(8, 8).alignment, Alignment::kPossible);
  policy::Demand demand = *test::Want(8, 8);
  demand.alignment = policy::AlignmentNeed::kGuaranteed;
  EXPECT_EQ(JudgeDemand(demand).reason, Reason::kNotGuaranteed);
  // Nothing else is free: a report would say guaranteed here.
  Put(Counts({{4, 4}, {0, 0}}, 4, "none"));
  EXPECT_EQ(Judge(4, 4).alignment, Alignment::kPossible);
  Put(Counts({{4, 4}, {0, 0}}, 4, "best-effort"));
  EXPECT_EQ(Judge(4, 4).alignment, Alignment::kPossible);
}

TEST_F(Counted, AllocatableCpusMeanAStaticCpuManager) {
  api::NodeResourceTopology counts = Counts({{4, 4}, {4, 4}});
  counts.zones[0].resources.push_back({"cpu", 16, 14, 4});
  counts.zones[1].resources.push_back({"cpu", 16, 16, 16});
  Put(counts);
  policy::Demand demand = *test::Want(4, 4);
  demand.qos = policy::QosClass::kGuaranteed;
  demand.containers[0].requests["cpu"] = 5000;
  ASSERT_TRUE(fleet_->Reserve(kNode, "uid-a", "default/a", demand).judgement.fits());
  fleet_->Commit("uid-a");
  // Four GPUs are left beside four CPUs.
  EXPECT_NE(JudgeDemand(demand).reason, Reason::kFits);
  demand.containers[0].requests["cpu"] = 4000;
  EXPECT_EQ(JudgeDemand(demand).reason, Reason::kFits);
  demand.qos = policy::QosClass::kBurstable;
  demand.containers[0].requests["cpu"] = 20000;
  EXPECT_EQ(JudgeDemand(demand).reason, Reason::kFits);
}

TEST_F(Counted, PeopleAreToldThatTheyAreCounts) {
  Put(Counts({{4, 4}, {4, 4}}));
  const auto nodes =
      nlohmann::json::parse(NodesToJson(fleet_->Snapshot(), api::ResourceClasses()))["nodes"];
  EXPECT_EQ(nodes[0]["report"], "counts");
  const auto explanation = Explain(fleet_->Snapshot(), "default/p", *test::Want(1, 1), {});
  ASSERT_TRUE(explanation.ok());
  ASSERT_EQ(explanation->answers[0].notes.size(), 1U);
  EXPECT_THAT(explanation->answers[0].notes[0],
              HasSubstr("counts only, from NodeResourceTopology"));
  // An agent that is there and has not reported yet makes them no staler.
  fleet_->SetAgentReady(kNode, false);
  EXPECT_FALSE(fleet_->Snapshot()[0].stale);
  EXPECT_EQ(fleet_->stats().stale_nodes, 0U);
}

TEST_F(Counted, NobodyIsAVictimOfWhomNothingIsKnown) {
  fleet_->UpsertPod(PodFor("a", 4, 4, true));
  Put(Counts({{0, 0}, {4, 4}}));
  EXPECT_TRUE(fleet_->VictimsOn(kNode).empty());
  EXPECT_EQ(fleet_->JudgeWithout(kNode, {"uid-a"}, *test::Want(8, 0)).reason, Reason::kNeverFits);
  EXPECT_EQ(fleet_->Snapshot()[0].pods.size(), 1U);
}

}  // namespace
}  // namespace numafit::cache
