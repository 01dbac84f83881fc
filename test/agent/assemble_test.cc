#include "agent/assemble.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "agent/collector.h"
#include "api/node_report.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kRdma[] = "device.gpustack.ai/rdma";
constexpr char kShared[] = "device.gpustack.ai/rdma.shared";

Device Healthy(std::vector<int> nodes) {
  return {{true, std::move(nodes)}, true};
}
Device WithoutTopology() {
  return {{false, {}}, true};
}

// Every report of these tests is one that readers take.
v1alpha1::NodeReportStatus Report(const Observations& seen,
                                  const std::vector<EndpointRule>& rules = {}) {
  v1alpha1::NodeReportStatus report = Assemble(seen, api::ResourceClasses(), rules);
  const absl::Status status = api::CheckNodeReport(report);
  EXPECT_TRUE(status.ok()) << status;
  return report;
}

std::string Json(const google::protobuf::Message& message) {
  std::string text;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &text).ok());
  return text;
}

ListedContainer Main(DeviceTopologies devices) {
  return {"main", std::move(devices), {}, {}};
}

TEST(Assemble, TokensOfOneEndpointAreOneRow) {
  Observations seen;
  for (int endpoint = 0; endpoint < 2; ++endpoint) {
    for (int token = 0; token < 64; ++token) {
      seen.devices[kShared][fmt::format("ib{0}:ib{0}:{1:04}", endpoint, token)] =
          Healthy({endpoint});
    }
  }
  seen.devices[kShared]["ib1:ib1:0063"].healthy = false;
  seen.devices[kRdma]["ib0:ib0:0000"] = Healthy({0});
  const v1alpha1::NodeReportStatus report = Report(seen);
  ASSERT_EQ(report.resources_size(), 2);
  EXPECT_EQ(report.resources(0).name(), kRdma);
  EXPECT_EQ(report.resources(0).groups(0).endpoint(), "ib0:ib0");
  const v1alpha1::Resource& shared = report.resources(1);
  ASSERT_EQ(shared.groups_size(), 3);
  EXPECT_EQ(shared.groups(0).endpoint(), "ib0:ib0");
  EXPECT_EQ(shared.groups(0).count(), 64);
  EXPECT_THAT(shared.groups(0).numa_nodes(), ElementsAre(0));
  EXPECT_EQ(shared.groups(1).count(), 63);
  EXPECT_TRUE(shared.groups(2).unhealthy());
  EXPECT_EQ(report.summary().endpoints(), "128/128");
}

TEST(Assemble, WhatPluginsTellIsKeptApart) {
  Observations seen;
  seen.devices["amd.com/gpu"]["0000:19:00.0"] = Healthy({-1});
  seen.devices["amd.com/gpu"]["0000:1a:00.0"] = Healthy({});
  seen.devices["amd.com/gpu"]["0000:1b:00.0"] = WithoutTopology();
  seen.devices["amd.com/gpu"]["0000:1c:00.0"] = Healthy({0, 3, 10});
  seen.devices["amd.com/gpu"]["0000:1d:00.0"] = Healthy({0});
  seen.devices["empty.example.com/x"] = {};
  const v1alpha1::NodeReportStatus report = Report(seen);
  const v1alpha1::Resource& gpus = report.resources(0);
  ASSERT_EQ(gpus.groups_size(), 5);
  EXPECT_THAT(gpus.groups(0).numa_nodes(), ElementsAre(-1));
  EXPECT_THAT(gpus.groups(1).numa_nodes(), IsEmpty());
  EXPECT_FALSE(gpus.groups(1).no_topology());
  EXPECT_TRUE(gpus.groups(2).no_topology());
  EXPECT_THAT(gpus.groups(3).numa_nodes(), ElementsAre(0, 3, 10));
  EXPECT_THAT(gpus.groups(4).numa_nodes(), ElementsAre(0));
  EXPECT_EQ(report.resources(1).name(), "empty.example.com/x");
  EXPECT_EQ(report.resources(1).groups_size(), 0);
}

// Pools whose tokens name nothing, and resources that are neither side, do not fill the report.
TEST(Assemble, ThousandsOfNamelessTokensAreOneRow) {
  Observations seen;
  for (int i = 0; i < 1000; ++i) {
    seen.devices["rdma/hca_shared_devices_a"][std::to_string(i)] = WithoutTopology();
    seen.devices["devices.kubevirt.io/kvm"][fmt::format("kvm{}", i)] = WithoutTopology();
  }
  const v1alpha1::NodeReportStatus report =
      Report(seen, {{"rdma/hca_shared_devices_a", "*", {}, {}, {}, {1}}});
  ASSERT_EQ(report.resources(0).groups_size(), 1);
  EXPECT_EQ(report.resources(0).groups(0).endpoint(), "");
  ASSERT_EQ(report.resources(1).groups_size(), 1);
  EXPECT_EQ(report.resources(1).groups(0).endpoint(), "rdma/hca_shared_devices_a");
  EXPECT_EQ(report.resources(1).groups(0).count(), 1000);
  EXPECT_THAT(report.resources(1).groups(0).actual_numa_nodes(), ElementsAre(1));
}

Observations PodWithInitContainer() {
  Observations seen;
  for (int i = 0; i < 4; ++i) seen.devices[kGpu][fmt::format("GPU-{}", i)] = Healthy({i / 2});
  seen.pods = {{"team", "train", {Main({{kGpu, {{"GPU-0", {true, {0}}}}}})}, {}, {}}};
  DeviceCheckpoint checkpoint;
  checkpoint.entries = {{"uid-1", "main", kGpu, {{"GPU-0", {0}}}},
                        {"uid-1", "warm-up", kGpu, {{"GPU-0", {0}}, {"GPU-1", {0}}}}};
  seen.checkpoint = checkpoint;
  return seen;
}

TEST(Assemble, InitContainersLeftoversStayTakenAndCountOnce) {
  const v1alpha1::NodeReportStatus report = Report(PodWithInitContainer());
  ASSERT_EQ(report.pods_size(), 1);
  const v1alpha1::Pod& pod = report.pods(0);
  EXPECT_EQ(pod.uid(), "uid-1");
  EXPECT_EQ(pod.namespace_(), "team");
  ASSERT_EQ(pod.containers_size(), 2);
  EXPECT_EQ(pod.containers(0).name(), "warm-up");
  EXPECT_TRUE(pod.containers(0).init());
  EXPECT_EQ(pod.containers(0).devices_size(), 2);
  EXPECT_EQ(pod.containers(1).name(), "main");
  EXPECT_FALSE(pod.containers(1).init());
  // GPU-0 and GPU-1 are groups of their own: one of each.
  ASSERT_EQ(pod.devices_size(), 2);
  EXPECT_EQ(pod.devices(0).count(), 1);
  EXPECT_EQ(pod.devices(1).count(), 1);
  EXPECT_EQ(report.summary().accelerators(), "2/4");
}

TEST(Assemble, PodThatHasEndedIsLeftOutThoughTheCheckpointStillNamesIt) {
  Observations seen = PodWithInitContainer();
  seen.checkpoint->entries.push_back({"uid-0", "main", kGpu, {{"GPU-3", {1}}}});
  // Every listed Pod has its UID, so uid-0 is nobody's.
  EXPECT_EQ(Report(seen).pods_size(), 1);
  // With a Pod of unknown UID in the list it may be that one's...
  seen.pods->push_back({"team", "other", {}, {}, {}});
  EXPECT_EQ(Report(seen).pods_size(), 2);
  // ...unless its name is known and is not on the list,
  seen.pod_names["uid-0"] = {"team", "former"};
  EXPECT_EQ(Report(seen).pods_size(), 1);
  // or it is.
  seen.pod_names["uid-0"] = {"team", "other"};
  const v1alpha1::NodeReportStatus report = Report(seen);
  ASSERT_EQ(report.pods_size(), 2);
  EXPECT_EQ(report.pods(0).name(), "other");
  EXPECT_EQ(report.pods(0).uid(), "uid-0");
  EXPECT_TRUE(report.pods(0).containers(0).init());
}

// Readers refuse a report in which more devices are held than there are.
TEST(Assemble, DeviceOfAPodThatHasEndedIsItsNewHoldersAlone) {
  Observations seen = PodWithInitContainer();
  seen.pods->push_back({"team", "new", {Main({{kGpu, {{"GPU-3", {true, {1}}}}}})}, {}, {}});
  // The checkpoint is of before "new" was admitted; nobody says whose uid-0 is.
  seen.checkpoint->entries.push_back({"uid-0", "worker", kGpu, {{"GPU-3", {1}}}});
  seen.checkpoint->entries.push_back({"uid-9", "worker", kGpu, {{"GPU-2", {1}}}});
  seen.checkpoint->entries.push_back({"uid-8", "worker", kGpu, {{"GPU-2", {1}}}});
  const v1alpha1::NodeReportStatus report = Report(seen);
  std::map<int, int> held;
  for (const v1alpha1::Pod& pod : report.pods()) {
    for (const v1alpha1::HeldDevices& devices : pod.devices()) {
      held[devices.group()] += devices.count();
    }
  }
  for (const auto& [group, count] : held) EXPECT_EQ(count, 1) << "group " << group;
  EXPECT_EQ(held.size(), 4U);
  EXPECT_TRUE(api::CheckNodeReport(report).ok()) << api::CheckNodeReport(report);
}

TEST(Assemble, SameContainerNameInTwoPodsIsToldApartByTheDevices) {
  Observations seen = PodWithInitContainer();
  seen.pods->push_back({"team", "a", {Main({{kGpu, {{"GPU-2", {true, {1}}}}}})}, {}, {}});
  seen.checkpoint->entries.push_back({"uid-2", "main", kGpu, {{"GPU-2", {1}}}});
  const v1alpha1::NodeReportStatus report = Report(seen);
  ASSERT_EQ(report.pods_size(), 2);
  EXPECT_EQ(report.pods(0).name(), "a");
  EXPECT_EQ(report.pods(0).uid(), "uid-2");
  EXPECT_EQ(report.pods(1).uid(), "uid-1");
}

TEST(Assemble, PodsThatHoldOnlyCpusAreJoinedByThem) {
  Observations seen;
  CpuState cpus;
  cpus.policy = "static";
  cpus.default_cpus = {0, 1, 5};
  cpus.containers["uid-3"]["main"] = {2, 3};
  cpus.containers["uid-3"]["setup"] = {4};
  seen.cpus = cpus;
  ListedContainer main{"main", {}, {2, 3}, {{"memory", {0}, 1024}}};
  seen.pods = {{"ns", "p", {main}, {}, {}}, {"ns", "q", {{"main", {}, {}, {}}}, {}, {}}};
  const v1alpha1::NodeReportStatus report = Report(seen);
  ASSERT_EQ(report.pods_size(), 1) << "a Pod that holds nothing is not in the report";
  EXPECT_EQ(report.pods(0).uid(), "uid-3");
  ASSERT_EQ(report.pods(0).containers_size(), 2);
  EXPECT_EQ(report.pods(0).containers(0).name(), "setup");
  EXPECT_EQ(report.pods(0).containers(0).cpus(), "4");
  EXPECT_EQ(report.pods(0).containers(1).cpus(), "2-3");
  EXPECT_EQ(report.pods(0).containers(1).memory(0).bytes(), "1024");
  EXPECT_EQ(report.default_cpus(), "0-1,5");
  EXPECT_EQ(report.kubelet().cpu_manager_policy(), "static");
}

TEST(Assemble, WithoutAListEveryUidIsReported) {
  Observations seen = PodWithInitContainer();
  seen.pods.reset();
  seen.pod_names["uid-1"] = {"team", "train"};
  const v1alpha1::NodeReportStatus report = Report(seen);
  ASSERT_EQ(report.pods_size(), 1);
  EXPECT_EQ(report.pods(0).uid(), "uid-1");
  EXPECT_EQ(report.pods(0).name(), "train");
  EXPECT_FALSE(report.pods(0).containers(0).init()) << "nobody says which of them are";
}

struct Misalignment {
  std::string name;
  Device accelerator;
  std::string endpoint_resource;
  Device endpoint;
  int misaligned;
};

TEST(Assemble, CountsContainersWhoseSidesAreApart) {
  const std::vector<Misalignment> cases = {
      {"together", Healthy({0}), kRdma, Healthy({0}), 0},
      {"apart", Healthy({0}), kRdma, Healthy({1}), 1},
      {"one side on several", Healthy({0, 1}), kRdma, Healthy({1}), 0},
      {"nobody knows", Healthy({0}), kRdma, WithoutTopology(), 0},
      {"minus one is no place", Healthy({-1}), kRdma, Healthy({1}), 0},
      {"a pool whose adapters are elsewhere", Healthy({0}), "rdma/a", WithoutTopology(), 1},
      {"a pool that is near", Healthy({1}), "rdma/a", WithoutTopology(), 0},
  };
  for (const Misalignment& c : cases) {
    Observations seen;
    seen.devices[kGpu]["GPU-0"] = c.accelerator;
    seen.devices[c.endpoint_resource]["7"] = c.endpoint;
    seen.pods = {{"ns",
                  "p",
                  {Main({{kGpu, {{"GPU-0", c.accelerator.topology}}},
                         {c.endpoint_resource, {{"7", c.endpoint.topology}}}})},
                  {},
                  {}}};
    const v1alpha1::NodeReportStatus report = Report(seen, {{"rdma/a", "*", {}, {}, {}, {1}}});
    EXPECT_EQ(report.summary().misaligned_containers(), c.misaligned) << c.name;
  }
}

TEST(Assemble, PolicyOfAStateFileOutranksAFileOnDiskButNotTheKubelet) {
  Observations seen;
  seen.cpus = CpuState{"static", {}, {}, {}};
  seen.kubelet.emplace().set_cpu_manager_policy("none");
  EXPECT_EQ(Report(seen).kubelet().cpu_manager_policy(), "static");
  seen.kubelet->set_confirmed(true);
  EXPECT_EQ(Report(seen).kubelet().cpu_manager_policy(), "none");
}

Observations BigNode() {
  Observations seen;
  for (int i = 0; i < 8; ++i) {
    v1alpha1::RdmaDevice& device = seen.rdma_devices.emplace_back();
    device.set_name(fmt::format("mlx5_{}", i));
    device.set_netdev(fmt::format("ib{}", i));
    device.set_numa_node(i / 4);
    device.set_pci_address(fmt::format("0000:{:02x}:00.0", 0x18 + i));
    device.add_pci_path(fmt::format("0000:{:02x}:01.0", 0x16 + i));
    device.add_pci_path("0000:15:01.0");
    device.set_link("active");
    const std::string uuid = fmt::format("GPU-{:08x}-1111-2222-3333-{:012x}", i * 7919, i);
    for (int token = 0; token < 64; ++token) {
      seen.devices["nvidia.com/gpu.shared"][fmt::format("h100:{}:{:04}", uuid, token * 160000)] =
          Healthy({i / 4});
      seen.devices[kShared][fmt::format("ib{0}:ib{0}:{1:04}", i, token)] = Healthy({i / 4});
    }
    seen.devices[kRdma][fmt::format("ib{0}:ib{0}:0000", i)] = Healthy({i / 4});
  }
  seen.pods.emplace();
  seen.checkpoint.emplace();
  int next = 0;
  for (const auto& [id, device] : seen.devices["nvidia.com/gpu.shared"]) {
    if (next >= 16) break;
    const std::string token = fmt::format("ib{0}:ib{0}:{1:04}", next % 8, next / 8);
    seen.pods->push_back({"training",
                          fmt::format("worker-{}", next),
                          {Main({{"nvidia.com/gpu.shared", {{id, device.topology}}},
                                 {kShared, {{token, {true, {next % 8 / 4}}}}}})},
                          {},
                          {}});
    seen.checkpoint->entries.push_back({fmt::format("0b0f8f3e-6f3c-4a55-9d4e-{:012x}", next),
                                        "main",
                                        kShared,
                                        {{token, {next % 8 / 4}}}});
    ++next;
  }
  for (int numa = 0; numa < 2; ++numa) {
    v1alpha1::NumaNode& node = seen.numa_nodes.emplace_back();
    node.set_id(numa);
    node.set_memory("1081101176832");
    node.add_distances(numa == 0 ? 10 : 21);
    node.add_distances(numa == 0 ? 21 : 10);
    v1alpha1::Cores* cores = node.add_cores();
    cores->set_socket(numa);
    cores->set_uncore_cache(-1);
    cores->add_threads(numa == 0 ? "0-47" : "48-95");
    cores->add_threads(numa == 0 ? "96-143" : "144-191");
  }
  return seen;
}

// The promise of docs/agent.md: what grows with tokens is a number, not a list.
TEST(Assemble, ReportOfABigNodeStaysAFewKilobytes) {
  Observations seen = BigNode();
  const std::string with_pods = Json(Report(seen));
  EXPECT_LT(with_pods.size(), 12'000U);
  seen.pods->clear();
  const std::string empty = Json(Report(seen));
  EXPECT_LT(empty.size(), 5'000U);
  EXPECT_GT(empty.size(), 2'000U) << "did it lose its devices?";
  // 1,024 tokens more would make an unfolded report at least 30 KB larger.
  for (int token = 64; token < 192; ++token) {
    for (int i = 0; i < 8; ++i) {
      seen.devices[kShared][fmt::format("ib{0}:ib{0}:{1:04}", i, token)] = Healthy({i / 4});
    }
  }
  EXPECT_LT(Json(Report(seen)).size(), empty.size() + 50);
}

TEST(Assemble, OrderOfTheAnswersDoesNotMatter) {
  Observations seen = BigNode();
  const std::string expected = Fingerprint(Report(seen));
  std::minstd_rand random(7);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(seen.pods->begin(), seen.pods->end(), random);
    std::shuffle(seen.checkpoint->entries.begin(), seen.checkpoint->entries.end(), random);
    EXPECT_EQ(Fingerprint(Report(seen)), expected);
  }
}

TEST(Assemble, NothingReadIsAnEmptyReport) {
  const v1alpha1::NodeReportStatus report = Report({});
  EXPECT_EQ(report.pods_size() + report.resources_size() + report.numa_nodes_size(), 0);
  EXPECT_EQ(report.kubelet().topology_manager_policy(), "");
}

}  // namespace
}  // namespace numafit::agent
