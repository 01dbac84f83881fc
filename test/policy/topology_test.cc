#include "policy/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/kubelet_version.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::MaskOf;

std::string ErrorOf(TopologySpec spec) {
  return std::string(Topology::Create(std::move(spec)).status().message());
}

TEST(Topology, SaysWhichFieldIsWrong) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("no NUMA node"));
  Machine twice(2);
  twice.spec().numa[1].id = 0;
  EXPECT_THAT(ErrorOf(twice.spec()), HasSubstr("id 0 is there twice"));
  Machine far(1);
  far.spec().numa[0].id = 64;
  EXPECT_THAT(ErrorOf(far.spec()), HasSubstr("64 is not in 0..63"));
  Machine same = Machine(1).Pool(kGpu, {2});
  same.spec().devices[kGpu][1].id = "n0";
  EXPECT_THAT(ErrorOf(same.spec()), HasSubstr("nvidia.com/gpu: id \"n0\" is there twice"));
  EXPECT_THAT(ErrorOf(Machine(2).Closest({{10, 20}, {20}}).spec()),
              HasSubstr("id 1: distances has 1 entries"));
}

TEST(Topology, AKubeletStartsOnAtMostEightNumaNodesUnlessPolicyNoneOrTold) {
  EXPECT_THAT(ErrorOf(Machine(9).spec()), HasSubstr("max-allowable-numa-nodes"));
  EXPECT_NE(Machine(9, TopologyPolicy::kNone).Build(), nullptr);
  Machine told(9);
  told.spec().kubelet.max_allowable_numa_nodes = 9;
  EXPECT_NE(told.Build(), nullptr);
}

TEST(Topology, DevicesThatTheKubeletCannotTellApartAreOneClass) {
  Machine machine = Machine(2).Pool(kGpu, {2, 1}).Break(kGpu, 0, 1);
  machine.Device(kGpu, std::nullopt).Device(kGpu, std::vector<int>{1, 0});
  const auto topology = machine.Build();
  const Topology::Pool& pool = topology->pools()[0];
  EXPECT_EQ(pool.class_count, 5);
  EXPECT_EQ(pool.devices, 5);
  EXPECT_EQ(pool.device_numa, MaskOf({0, 1}));
  const Topology::DeviceRef ref = topology->FindDevice(0, "n0");
  EXPECT_FALSE(topology->classes()[static_cast<std::size_t>(ref.class_index)].healthy);
  EXPECT_THAT(topology->DeviceIds(ref.class_index), ElementsAre("n0"));
  EXPECT_EQ(topology->FindDevice(0, "n9").class_index, -1);
  EXPECT_EQ(topology->FindPool("nobody.has/this"), -1);
}

TEST(Topology, TellsNoTopologyFromAnEmptyOneAndFromOneElsewhere) {
  Machine machine(2);
  machine.Device(kGpu, std::nullopt).Device(kGpu, std::vector<int>{});
  EXPECT_FALSE(machine.Build()->pools()[0].aligned);
  EXPECT_EQ(machine.Build()->pools()[0].class_count, 2);
  machine.Device(kGpu, std::vector<int>{7}).Device(kGpu, std::vector<int>{-1});
  const auto topology = machine.Build();
  EXPECT_TRUE(topology->pools()[0].aligned);
  const auto elsewhere = topology->FindDevice(0, "n2").class_index;
  const auto nowhere = topology->FindDevice(0, "n3").class_index;
  EXPECT_FALSE(topology->classes()[static_cast<std::size_t>(elsewhere)].placeless);
  EXPECT_TRUE(topology->classes()[static_cast<std::size_t>(nowhere)].placeless);
}

TEST(Topology, TheMinimalWidthIsOfTheBestNumaNodes) {
  const auto topology = Machine(4).Pool(kGpu, {1, 4, 2, 0}).Build();
  const Topology::Pool& pool = topology->pools()[0];
  EXPECT_EQ(topology->MinimalWidth(pool, 0), 1);
  EXPECT_EQ(topology->MinimalWidth(pool, 4), 1);
  EXPECT_EQ(topology->MinimalWidth(pool, 5), 2);
  EXPECT_EQ(topology->MinimalWidth(pool, 7), 3);
  EXPECT_EQ(topology->MinimalWidth(pool, 99), 3);
  const auto older = Machine(4).Pool(kGpu, {1, 4, 2, 0}).Version(35).Build();
  EXPECT_EQ(older->MinimalWidth(older->pools()[0], 99), 4);
}

TEST(Topology, TheMinimalWidthCountsADeviceOnSeveralNumaNodesOnce) {
  Machine machine(4);
  for (int i = 0; i < 3; ++i) machine.Device(kGpu, std::vector<int>{0, 1});
  machine.Device(kGpu, std::vector<int>{2}).Device(kGpu, std::vector<int>{3});
  const auto topology = machine.Build();
  EXPECT_EQ(topology->MinimalWidth(topology->pools()[0], 3), 1);
  EXPECT_EQ(topology->MinimalWidth(topology->pools()[0], 4), 2);
  EXPECT_EQ(topology->MinimalWidth(topology->pools()[0], 5), 3);
}

TEST(Topology, TheFingerprintForgetsIdsAndNothingElse) {
  const Machine machine = Machine(2).Pool(kGpu, {4, 4}).Pool(kNic, {1, 1});
  Machine renamed = machine;
  for (auto& [resource, devices] : renamed.spec().devices) {
    for (DeviceSpec& device : devices) device.id = "other-" + device.id;
  }
  const std::string fingerprint = machine.Build()->fingerprint();
  EXPECT_EQ(renamed.Build()->fingerprint(), fingerprint);
  const auto differs = [&](const Machine& other) {
    return other.Build()->fingerprint() != fingerprint;
  };
  EXPECT_TRUE(differs(Machine(machine).Break(kGpu, 0, 1)));
  EXPECT_TRUE(differs(Machine(machine).Scope(TopologyScope::kPod)));
  EXPECT_TRUE(differs(Machine(machine).Version(35)));
  EXPECT_TRUE(differs(Machine(machine).Device(kGpu, std::nullopt)));
  EXPECT_TRUE(differs(Machine(machine).Prefer(kGpu, {"n3"})));
  EXPECT_TRUE(differs(Machine(machine).Closest({{10, 20}, {20, 10}})));
  EXPECT_FALSE(differs(Machine(machine).Version(36)));
  Machine shared = machine;
  for (DeviceSpec& device : shared.spec().devices[kNic]) device.endpoint = "mlx5_0";
  EXPECT_TRUE(differs(shared));
}

TEST(Topology, AnEndpointHasOneNumberInAllPools) {
  Machine machine(1);
  machine.Device(kNic, std::vector<int>{0}, true, "mlx5_0");
  machine.Device(kNic, std::vector<int>{0}, true, "mlx5_1");
  machine.Device("rdma/shared", std::vector<int>{0}, true, "mlx5_1");
  const auto topology = machine.Build();
  EXPECT_THAT(topology->ClassEndpoints(0), ElementsAre(0, 1));
  EXPECT_THAT(topology->ClassEndpoints(1), ElementsAre(1));
}

TEST(Topology, PoliciesAndScopesHaveTheKubeletsNames) {
  for (const char* name : {"none", "best-effort", "restricted", "single-numa-node"}) {
    EXPECT_EQ(TopologyPolicyName(ParseTopologyPolicy(name).value()), name);
  }
  EXPECT_EQ(ParseTopologyPolicy("strict"), std::nullopt);
  for (const char* name : {"container", "pod"}) {
    EXPECT_EQ(TopologyScopeName(ParseTopologyScope(name).value()), name);
  }
  EXPECT_EQ(ParseTopologyScope("node"), std::nullopt);
}

TEST(KubeletVersion, IsReadFromWhatNodesReport) {
  EXPECT_EQ(KubeletVersion::Parse("v1.36.3"), (KubeletVersion{1, 36}));
  EXPECT_EQ(KubeletVersion::Parse("1.35.4-gke.100"), (KubeletVersion{1, 35}));
  EXPECT_EQ(KubeletVersion::Parse("v1.34"), (KubeletVersion{1, 34}));
  EXPECT_EQ(KubeletVersion::Parse("v1.9+"), (KubeletVersion{1, 9}));
  for (const char* unreadable : {"", "v", "latest", "v1", "v1.", "1.x"}) {
    EXPECT_EQ(KubeletVersion::Parse(unreadable), KubeletVersion{}) << unreadable;
  }
}

TEST(KubeletVersion, KnowsItsRules) {
  EXPECT_FALSE((KubeletVersion{1, 33}).IsKnown());
  EXPECT_TRUE((KubeletVersion{1, 34}).IsKnown());
  EXPECT_TRUE((KubeletVersion{1, 37}).IsKnown());
  EXPECT_FALSE((KubeletVersion{1, 38}).IsKnown());
  EXPECT_FALSE((KubeletVersion{1, 35}).HintsOverDeviceNodesOnly());
  EXPECT_TRUE((KubeletVersion{1, 36}).HintsOverDeviceNodesOnly());
}

}  // namespace
}  // namespace numafit::policy
