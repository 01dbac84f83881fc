#include "workloads/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cache/judge.h"
#include "policy/admit.h"
#include "test/cache/machines.h"
#include "test/workloads/objects.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using workloads::test::Admitted;
using workloads::test::kGpu;
using workloads::test::kRdma;
using workloads::test::SetCondition;
using workloads::test::WorkloadOf;
using Topology = std::shared_ptr<const policy::Topology>;

// ClusterQueue gpus with a quota of 16 GPUs of flavor h100.
class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() : index_(classes_) {
    advisor_.emplace(classes_);
    flavors_["h100"].node_labels = {{"kind", "h100"}};
    SetQuota("gpus", "h100", 16);
  }

  void SetQuota(const std::string& queue, const std::string& flavor, int gpus) {
    queues_[queue].quotas = {
        {.flavor = flavor, .resource = kGpu, .nominal = api::Quantity::FromInt(gpus)}};
  }
  void AddMachine(const std::string& name, const Topology& topology,
                  const api::StringMap& labels = {{"kind", "h100"}, {"zone", "a"}}) {
    file_.nodes.push_back({.name = name,
                           .shape = "s",
                           .labels = {},
                           .kubelet_version = "v1.36.3",
                           .topology = topology});
    fleet_ = cache::Fleet::FromFile(file_, classes_, {}).value();
    api::Node node;
    node.metadata.name = name;
    node.metadata.labels = labels;
    nodes_.Upsert(node);
  }
  void Cordon(const std::string& name) {
    api::Node node;
    node.metadata.name = name;
    node.metadata.labels = {{"kind", "h100"}};
    node.unschedulable = true;
    nodes_.Upsert(node);
  }
  // 4 + 4 GPUs, and endpoints on the first NUMA node only.
  static Topology OneSided() {
    numafit::test::Machine machine = numafit::test::kEven;
    machine.endpoint_numa_nodes = 1;
    return numafit::test::Make(machine);
  }
  static Topology Even() { return numafit::test::Make(numafit::test::kEven); }

  void Hold(const std::string& name, int pods, int gpus, int endpoints, bool ended = false) {
    api::Workload workload = Admitted(WorkloadOf(name, pods, gpus, endpoints));
    workload.assignments.front().flavors = {{kGpu, "h100"}};
    if (ended) SetCondition(workload, "Finished", true);
    index_.UpsertWorkload(workload);
  }

  std::optional<std::vector<QuotaAdvice>> TryAdvise(const std::vector<QuotaUse>& uses) {
    return advisor_->Advise(
        {.queues = queues_, .flavors = flavors_, .nodes = nodes_, .uses = uses, .fleet = *fleet_});
  }
  std::optional<std::vector<QuotaAdvice>> TryAdvise() { return TryAdvise(index_.QuotaUses()); }
  std::vector<QuotaAdvice> Advise() { return TryAdvise().value(); }
  QuotaAdvice One() {
    std::vector<QuotaAdvice> all = Advise();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? QuotaAdvice() : all.front();
  }

  api::ResourceClasses classes_;
  cache::FleetFile file_;
  std::unique_ptr<cache::Fleet> fleet_;
  NodeTable nodes_;
  std::map<std::string, api::ClusterQueue> queues_;
  std::map<std::string, api::ResourceFlavor> flavors_;
  WorkloadIndex index_;
  std::optional<QuotaAdvisor> advisor_;
};

TEST_F(QuotaTest, WithoutWorkloadsTheHealthyDevicesCount) {
  policy::TopologySpec broken = numafit::test::SpecOf(numafit::test::kEven);
  broken.devices[kGpu][0].healthy = false;
  AddMachine("n0", Even());
  AddMachine("n1", policy::Topology::Create(broken).value());
  const QuotaAdvice advice = One();
  EXPECT_EQ(advice.cluster_queue, "gpus");
  EXPECT_EQ(advice.flavor, "h100");
  EXPECT_EQ(advice.resource, kGpu);
  EXPECT_EQ(advice.quota, 16);
  EXPECT_EQ(advice.nodes, 2);
  EXPECT_EQ(advice.devices, 15);
  EXPECT_EQ(advice.placeable, 15);
  EXPECT_THAT(advice.shapes, IsEmpty());
}

TEST_F(QuotaTest, EndpointsOnTheSameNumaNodeBoundWhatCanBePlaced) {
  AddMachine("n0", Even());
  AddMachine("n1", OneSided());
  Hold("a", 3, 1, 1);
  const QuotaAdvice advice = One();
  EXPECT_EQ(advice.devices, 16);
  EXPECT_EQ(advice.placeable, 8 + 4);
  ASSERT_EQ(advice.shapes.size(), 1U);
  EXPECT_EQ(advice.shapes[0].pods, 3);
  EXPECT_EQ(advice.shapes[0].placeable, 12);
  EXPECT_EQ(advice.shapes[0].workload, "default/a");
  EXPECT_THAT(advice.shapes[0].per_pod, UnorderedElementsAre(Pair(kGpu, 1), Pair(kRdma, 1)));
}

TEST_F(QuotaTest, WhereTheKubeletMayPickItPicksWhatLiesTogether) {
  AddMachine("n0", numafit::test::Make(numafit::test::kUnaligned));
  Hold("a", 1, 4, 4);
  EXPECT_EQ(One().placeable, 8) << "one apart, and no other would find four together";
}

TEST_F(QuotaTest, PodsThatRunTakeNothingAway) {
  AddMachine("n0", Even());
  Hold("a", 1, 2, 2);
  fleet_->UpsertPod(workloads::test::On(workloads::test::PodOf("p", 4, 4), "n0"));
  EXPECT_EQ(One().placeable, 8);
}

TEST_F(QuotaTest, NodesThatDoNotCount) {
  AddMachine("n0", Even());
  AddMachine("other-label", Even(), {{"kind", "a100"}});
  AddMachine("cordoned", Even());
  Cordon("cordoned");
  AddMachine("gone", Even());
  nodes_.Delete("gone");
  Hold("a", 1, 1, 1);
  EXPECT_EQ(One().nodes, 1);
  EXPECT_EQ(One().placeable, 8);
  // A flavor without labels is every node that is there.
  flavors_["h100"].node_labels.clear();
  EXPECT_EQ(One().nodes, 2);
  // One that does not exist lets nothing in.
  flavors_.clear();
  EXPECT_THAT(Advise(), IsEmpty());
}

TEST_F(QuotaTest, TheShapeOfMostDevicesDecides) {
  AddMachine("n0", Even());
  Hold("many", 6, 1, 1);
  Hold("odd", 1, 3, 3);
  QuotaAdvice advice = One();
  EXPECT_EQ(advice.placeable, 8) << "6 of 9 devices are of Pods that ask for one";
  ASSERT_EQ(advice.shapes.size(), 2U);
  EXPECT_EQ(advice.shapes[1].placeable, 6) << "the other is shown beside it";
  EXPECT_EQ(advice.shapes[1].workload, "default/odd");
  Hold("odd-2", 2, 3, 3);
  advice = One();
  EXPECT_EQ(advice.placeable, 6);
  EXPECT_EQ(advice.shapes[0].pods, 3);
  // As many devices: the one that can be placed less often.
  Hold("many", 9, 1, 1);
  EXPECT_EQ(One().placeable, 6);
}

TEST_F(QuotaTest, WhatHasEndedCountsOnlyWhenNobodyHoldsQuota) {
  AddMachine("n0", Even());
  Hold("past", 100, 3, 3, /*ended=*/true);
  EXPECT_EQ(One().placeable, 6);
  Hold("present", 1, 1, 1);
  const QuotaAdvice advice = One();
  EXPECT_EQ(advice.placeable, 8);
  EXPECT_EQ(advice.shapes.size(), 1U);
}

TEST_F(QuotaTest, ShapesOfOtherQueuesFlavorsAndResourcesDoNotCount) {
  AddMachine("n0", OneSided());
  Hold("a", 5, 1, 1);
  SetQuota("others", "h100", 4);
  const std::vector<QuotaAdvice> all = Advise();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].placeable, 4);
  EXPECT_EQ(all[1].cluster_queue, "others");
  EXPECT_EQ(all[1].placeable, 8);
  // A quota of endpoints, or of CPUs, is none of accelerators.
  queues_["others"].quotas.front().resource = kRdma;
  EXPECT_EQ(Advise().size(), 1U);
}

TEST_F(QuotaTest, AShapeThatFitsNowhereCanPlaceNothing) {
  AddMachine("n0", Even());
  Hold("a", 1, 5, 5);
  EXPECT_EQ(One().placeable, 0);
}

TEST_F(QuotaTest, PartsOfADeviceAreNone) {
  AddMachine("n0", Even());
  queues_["gpus"].quotas.front().nominal = api::Quantity::FromMilli(2'900);
  EXPECT_EQ(One().quota, 2);
}

TEST_F(QuotaTest, MuchThatIsNewTakesSeveralCalls) {
  advisor_.emplace(classes_, QuotaAdvisor::Limits{.max_tries = 1});
  AddMachine("n0", Even());
  AddMachine("n1", OneSided());
  Hold("a", 3, 1, 1);
  Hold("b", 1, 2, 2);
  EXPECT_FALSE(TryAdvise().has_value());
  int calls = 1;
  std::optional<std::vector<QuotaAdvice>> advice;
  // Machines and shapes: four questions, one a call.
  for (; !advice.has_value() && calls < 10; ++calls) advice = TryAdvise();
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(advice->front().placeable, 12);
  EXPECT_EQ(advisor_->kept(), 4U);
  // What is not asked for any more is forgotten, and asked at no cost meanwhile.
  index_.DeleteWorkload("uid-of-b");
  EXPECT_TRUE(TryAdvise().has_value());
  EXPECT_EQ(advisor_->kept(), 2U);
}

TEST_F(QuotaTest, OnlySoManyShapesAreLookedAt) {
  advisor_.emplace(classes_, QuotaAdvisor::Limits{.max_shapes = 2});
  AddMachine("n0", Even());
  Hold("a", 1, 1, 1);
  Hold("b", 2, 2, 2);
  Hold("c", 2, 3, 3);
  const QuotaAdvice advice = One();
  ASSERT_EQ(advice.shapes.size(), 2U);
  EXPECT_EQ(advice.shapes[0].workload, "default/c");
  EXPECT_EQ(advice.shapes[1].workload, "default/b");
}

// The fewest and the most Pods that the machine can come to hold, whatever its kubelet picks.
class Depths {
 public:
  Depths(Topology topology, const policy::Demand& demand)
      : topology_(std::move(topology)), demand_(demand) {}

  std::pair<int, int> From(const policy::Usage& usage) {
    if (const auto found = known_.find(usage); found != known_.end()) return found->second;
    cache::NodeState state;
    state.topology = topology_;
    state.knowledge.usages = {usage};
    std::pair<int, int> depths(0, 0);
    if (cache::JudgeOnNode(state, demand_, nullptr).fits()) {
      depths = {1'000, 0};
      policy::ForEachOutcome(*topology_, usage, demand_, [&](const policy::Outcome& outcome) {
        policy::Usage next = usage;
        policy::Apply(*topology_, outcome, next);
        const auto [fewest, most] = From(next);
        depths.first = std::min(depths.first, fewest + 1);
        depths.second = std::max(depths.second, most + 1);
        return true;
      });
    }
    return known_[usage] = depths;
  }

 private:
  const Topology topology_;
  const policy::Demand& demand_;
  std::map<policy::Usage, std::pair<int, int>> known_;
};

TEST_F(QuotaTest, CountsWhatKubeletsCanComeToHold) {
  std::mt19937 random(11);
  int told_apart = 0;
  for (const numafit::test::Machine& machine : numafit::test::kMachines) {
    const Topology topology = numafit::test::Make(machine);
    file_.nodes.clear();
    AddMachine("n0", topology);
    for (int i = 0; i < 12; ++i) {
      const std::shared_ptr<const policy::Demand> demand = numafit::test::RandomDemand(random);
      const auto [fewest, most] = Depths(topology, *demand).From(policy::Usage(*topology));
      const std::vector<QuotaUse> uses = {{.workload = "default/a",
                                           .cluster_queue = "gpus",
                                           .flavors = {{kGpu, "h100"}},
                                           .demand = demand,
                                           .pods = 1}};
      const QuotaAdvice one = TryAdvise(uses).value().at(0);
      const std::int64_t pods = one.placeable / one.shapes.at(0).per_pod.at(kGpu);
      EXPECT_GE(pods, fewest) << machine.name << " " << demand->Fingerprint();
      EXPECT_LE(pods, most) << machine.name << " " << demand->Fingerprint();
      if (fewest == most && fewest > 0) ++told_apart;
    }
  }
  EXPECT_GT(told_apart, 20) << "cases in which there is one right answer";
}

TEST(QuotaJson, SaysWhatIsKnown) {
  using nlohmann::json;
  QuotaAdvice advice{.cluster_queue = "gpus",
                     .flavor = "h100",
                     .resource = kGpu,
                     .quota = 64,
                     .nodes = 7,
                     .devices = 56,
                     .placeable = 40,
                     .shapes = {}};
  advice.shapes.push_back(
      {.per_pod = {{kGpu, 1}}, .pods = 3, .placeable = 40, .workload = "default/a"});
  EXPECT_EQ(json::parse(ToJson("current", "", {advice})), json::parse(R"({"state": "current",
      "quotas": [{"clusterQueue": "gpus", "flavor": "h100", "resource": "nvidia.com/gpu",
      "quota": 64, "nodes": 7, "devices": 56, "placeable": 40, "shapes": [{"perPod":
      {"nvidia.com/gpu": 1}, "pods": 3, "placeable": 40, "workload": "default/a"}]}]})"));
  EXPECT_EQ(json::parse(ToJson("unreadable", "forbidden \xff", {}))["state"], "unreadable");
}

}  // namespace
}  // namespace numafit::workloads
