// Endpoints of other systems: EFA, SR-IOV functions, the shared pools of Mellanox's plugin, and
// slots that stand for all adapters.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/systems/node.h"

namespace numafit::systems {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGpu[] = "nvidia.com/gpu";

std::string Gpu(int i) {
  return fmt::format("GPU-0d3e6f10-77aa-4b55-8c1e-00000000000{}", i);
}

// Two sockets with four GPUs each, and adapters mlx5_0 to mlx5_3 on ens0f0np0 to ens3f0np0, two on
// each.
std::unique_ptr<SystemNode> Host(std::string_view policy = "single-numa-node") {
  auto host = std::make_unique<SystemNode>(policy);
  std::vector<FakeDevice> gpus;
  for (int i = 0; i < 8; ++i) gpus.push_back({Gpu(i), {i / 4}});
  host->Serve(kGpu, gpus);
  for (int i = 0; i < 4; ++i) {
    host->host().AddRdmaDevice(fmt::format("mlx5_{}", i),
                               fmt::format("pci0000:{0}0/0000:{0}a:00.0", i + 1), i / 2,
                               fmt::format("ens{}f0np0", i));
  }
  return host;
}

// All GPUs of a NUMA node.
Ids GpusOf(int numa) {
  return {{kGpu, {Gpu(4 * numa), Gpu(4 * numa + 1), Gpu(4 * numa + 2), Gpu(4 * numa + 3)}}};
}

std::vector<FakeDevice> Slots(int count, const char* prefix) {
  std::vector<FakeDevice> devices;
  for (int i = 0; i < count; ++i) devices.push_back({fmt::format("{}{}", prefix, i), {}, false});
  return devices;
}

// p5.48xlarge: sixteen EFA devices beside four GPUs on each socket.
constexpr char kEfa[] = "vpc.amazonaws.com/efa";

std::string Efa(int i) {
  return fmt::format("rdmap{}s{}", 79 + i / 4, i % 4);
}

std::unique_ptr<SystemNode> P5(bool topology) {
  auto host = std::make_unique<SystemNode>("single-numa-node");
  std::vector<FakeDevice> gpus;
  for (int i = 0; i < 8; ++i) gpus.push_back({Gpu(i), {i / 4}});
  host->Serve(kGpu, gpus);
  std::vector<FakeDevice> efa;
  for (int i = 0; i < 32; ++i) {
    host->host().AddRdmaDevice(Efa(i), fmt::format("pci0000:{0:x}/0000:{0:x}:00.0", 0x50 + i),
                               i / 16);
    efa.push_back({Efa(i), topology ? std::vector<int>{i / 16} : std::vector<int>{}, topology});
  }
  host->Serve(kEfa, efa);
  return host;
}

TEST(Efa, FourForEachGpu) {
  std::vector<std::string> twelve;
  for (int i = 0; i < 12; ++i) twelve.push_back(Efa(i));
  const Case cases[] = {
      {"half of the host", {}, {{{kGpu, 4}, {kEfa, 16}}, {}}, "fits, aligned: guaranteed", {}},
      {"all are endpoints of their own",
       {},
       Distinct({{{kGpu, 1}, {kEfa, 4}}, {}}),
       "fits, aligned: guaranteed, distinct: guaranteed",
       {}},
      {"seventeen are on no NUMA node", {}, {{{kGpu, 1}, {kEfa, 17}}, {}}, "never-fits", {}},
      {"GPUs are free on both NUMA nodes, two on each",
       {{{kGpu, {Gpu(0), Gpu(1)}}}, {{kGpu, {Gpu(4), Gpu(5)}}}},
       {{{kGpu, 4}, {kEfa, 16}}, {}},
       "numa-fragmented",
       {}},
      {"the devices beside the last GPU",
       {{{kGpu, {Gpu(0), Gpu(1), Gpu(2)}}, {kEfa, twelve}}, GpusOf(1)},
       {{{kGpu, 1}, {kEfa, 4}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Gpu(3)}}, {kEfa, {Efa(12), Efa(13), Efa(14), Efa(15)}}}},
  };
  for (const Case& line : cases) Check(*P5(true), line);
}

TEST(Efa, WithoutTopologyTheAgentKnowsWhereTheyAre) {
  const auto host = P5(false);
  const Case line = {"the kubelet picks any four",
                     {},
                     {{{kGpu, 1}, {kEfa, 4}}, {}},
                     "fits, aligned: possible",
                     {}};
  Check(*host, line);
  const v1alpha1::DeviceGroup* group = host->FindGroup(kEfa, Efa(20));
  ASSERT_NE(group, nullptr);
  EXPECT_THAT(group->actual_numa_nodes(), ElementsAre(1));
  const Case sure = {"who must be sure is refused",
                     {},
                     Guaranteed({{{kGpu, 1}, {kEfa, 4}}, {}}),
                     "not-guaranteed",
                     {}};
  Check(*P5(false), sure);
}

TEST(Sriov, FunctionsHaveTheNumaNodeOfTheirPort) {
  constexpr char kPool[] = "openshift.io/mlxrdma";
  const auto vf = [](int port, int n) { return fmt::format("0000:{}a:00.{}", port + 1, n + 2); };
  std::vector<FakeDevice> functions;
  for (int port = 0; port < 4; ++port) {
    for (int n = 0; n < 2; ++n) functions.push_back({vf(port, n), {port / 2}});
  }
  const Case cases[] = {
      {"four on one NUMA node", {}, {{{kGpu, 2}, {kPool, 4}}, {}}, "fits, aligned: guaranteed", {}},
      {"five are not", {}, {{{kGpu, 2}, {kPool, 5}}, {}}, "never-fits", {}},
      {"the functions beside the free GPUs are taken",
       {GpusOf(0), {{kPool, {vf(2, 0), vf(2, 1), vf(3, 0), vf(3, 1)}}}},
       {{{kGpu, 1}, {kPool, 1}}, {}},
       "numa-fragmented",
       {}},
      {"the last one",
       {GpusOf(0), {{kPool, {vf(2, 0), vf(2, 1), vf(3, 0)}}}},
       {{{kGpu, 1}, {kPool, 1}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Gpu(6)}}, {kPool, {vf(3, 1)}}}},
  };
  for (const Case& line : cases) {
    const auto host = Host();
    host->Serve(kPool, functions);
    Check(*host, line);
  }
}

TEST(Sriov, APoolThatExcludesTopology) {
  constexpr char kPool[] = "mellanox.com/sriov_rdma";
  const auto host = [&] {
    auto made = Host();
    // Functions that sysfs knows.
    for (const auto& [address, numa] : {std::pair{"0000:1a:00.2", 0}, {"0000:3a:00.2", 1}}) {
      made->host().Write(fmt::format("/sys/devices/pci0000:00/{}/numa_node", address),
                         fmt::format("{}\n", numa));
      made->host().Link(fmt::format("/sys/bus/pci/devices/{}", address),
                        fmt::format("../../../devices/pci0000:00/{}", address));
    }
    made->Serve(kPool, {{"0000:1a:00.2", {}, false}, {"0000:3a:00.2", {}, false}});
    return made;
  };
  const Case cases[] = {
      {"either one may be picked",
       {},
       {{{kGpu, 1}, {kPool, 1}}, {}},
       "fits, aligned: possible",
       {}},
      {"the free one is on the GPUs' NUMA node",
       {GpusOf(0), {{kPool, {"0000:1a:00.2"}}}},
       {{{kGpu, 1}, {kPool, 1}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Gpu(4)}}, {kPool, {"0000:3a:00.2"}}}},
      {"the free one is far from every free GPU",
       {GpusOf(0), {{kPool, {"0000:3a:00.2"}}}},
       {{{kGpu, 1}, {kPool, 1}}, {}},
       "numa-fragmented",
       {}},
  };
  for (const Case& line : cases) Check(*host(), line);
}

// Mellanox's plugin: tokens 0, 1, 2, … of a pool, and every grant gives all adapters of the pool.
constexpr char kPoolA[] = "rdma/hca_shared_devices_a";
constexpr char kPoolB[] = "rdma/hca_shared_devices_b";

// With the ConfigMap of the plugin: pool a has the adapters of NUMA node 0, pool b all.
std::unique_ptr<SystemNode> WithPools(bool with_map = true) {
  auto host = Host();
  host->Serve(kPoolA, Slots(1000, ""));
  host->Serve(kPoolB, Slots(63, ""));
  host->host().Write("/etc/rdma-pools/config.json", R"({
    "periodicUpdateInterval": 300,
    "configList": [{
      "resourceName": "hca_shared_devices_a",
      "rdmaHcaMax": 1000,
      "selectors": {"vendors": ["15b3"], "ifNames": ["ens0f0np0", "ens1f0np0"]}
    }, {
      "resourceName": "hca_shared_devices_b",
      "resourcePrefix": "rdma",
      "rdmaHcaMax": 63,
      "devices": ["ens0f0np0", "ens1f0np0", "ens2f0np0", "ens3f0np0"]
    }]
  })");
  if (with_map) {
    host->config().shared_pool_files = {host->host().Path("/etc/rdma-pools/config.json")};
  }
  return host;
}

TEST(SharedPools, WhereAPoolIsComesFromItsConfigMap) {
  const Case cases[] = {
      {"the kubelet takes a GPU of the first NUMA node, which is the pool's",
       {},
       {{{kGpu, 1}, {kPoolA, 1}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"only the pool's NUMA node has free GPUs",
       {GpusOf(1)},
       {{{kGpu, 1}, {kPoolA, 1}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Gpu(2)}}, {kPoolA, {"17"}}}},
      {"only the other NUMA node has free GPUs",
       {GpusOf(0)},
       {{{kGpu, 1}, {kPoolA, 1}}, {}},
       "numa-fragmented",
       {}},
      {"a Pod that only prefers alignment is let in",
       {GpusOf(0)},
       {{{kGpu, 1}, {kPoolA, 1}}, {{"numafit.io/alignment", "preferred"}}},
       "fits, aligned: impossible",
       {}},
      {"a pool of all adapters is near every GPU",
       {GpusOf(0)},
       {{{kGpu, 4}, {kPoolB, 1}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"two tokens of a pool are the same adapters",
       {},
       Distinct({{{kGpu, 1}, {kPoolB, 2}}, {}}),
       "endpoints-not-distinct",
       {}},
      {"more tokens than the pool has", {}, {{{kGpu, 1}, {kPoolB, 64}}, {}}, "never-fits", {}},
  };
  for (const Case& line : cases) Check(*WithPools(), line);
}

TEST(SharedPools, WithoutTheConfigMapNobodyKnows) {
  const auto host = WithPools(false);
  const Case line = {"not refused, not promised",
                     {GpusOf(0)},
                     {{{kGpu, 1}, {kPoolA, 1}}, {}},
                     "fits, aligned: possible",
                     {}};
  Check(*host, line);
  EXPECT_THAT(host->FindGroup(kPoolA, kPoolA)->actual_numa_nodes(), IsEmpty());
}

TEST(SharedPools, AThousandTokensAreOneRow) {
  const auto host = WithPools();
  host->Report();
  const v1alpha1::DeviceGroup* a = host->FindGroup(kPoolA, kPoolA);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->count(), 1000);
  EXPECT_THAT(a->actual_numa_nodes(), ElementsAre(0));
  EXPECT_THAT(host->FindGroup(kPoolB, kPoolB)->actual_numa_nodes(), ElementsAre(0, 1));
}

TEST(Slots, StandForEveryAdapterOfTheHost) {
  constexpr char kHca[] = "rdma.io/hca";
  const auto host = [&] {
    auto made = Host();
    made->Serve(kHca, Slots(100, "rdma-"));
    return made;
  };
  std::vector<std::string> all;
  for (int i = 0; i < 100; ++i) all.push_back(fmt::format("rdma-{}", i));
  const Case cases[] = {
      {"the container gets all adapters, so some are near",
       {},
       {{{kGpu, 4}, {kHca, 1}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"the GPUs are aligned by the kubelet", {}, {{{kGpu, 5}, {kHca, 1}}, {}}, "never-fits", {}},
      {"no slot is left", {{{kHca, all}}}, {{{kGpu, 1}, {kHca, 1}}, {}}, "kubelet-refuses", {}},
      {"slots are no endpoints of their own",
       {},
       Distinct({{{kGpu, 1}, {kHca, 2}}, {}}),
       "endpoints-not-distinct",
       {}},
  };
  for (const Case& line : cases) Check(*host(), line);
}

TEST(Slots, OnAHostWithAdaptersOnOneSocket) {
  constexpr char kHca[] = "rdma.io/hca";
  const auto host = [&] {
    auto made = std::make_unique<SystemNode>();
    made->Serve(kGpu, {{Gpu(0), {0}}, {Gpu(1), {1}}});
    made->host().AddRdmaDevice("mlx5_0", "pci0000:80/0000:81:00.0", 1);
    made->Serve(kHca, Slots(100, "rdma-"));
    return made;
  };
  const Case near = {"the GPU beside them is free",
                     {{{kGpu, {Gpu(0)}}}},
                     {{{kGpu, 1}, {kHca, 1}}, {}},
                     "fits, aligned: guaranteed",
                     {}};
  Check(*host(), near);
  // On the empty host, too, the kubelet would take the GPU of NUMA node 0: it does not see the
  // slots.
  const Case far = {"only the other one is free",
                    {{{kGpu, {Gpu(1)}}}},
                    {{{kGpu, 1}, {kHca, 1}}, {}},
                    "never-fits",
                    {}};
  Check(*host(), far);
}

}  // namespace
}  // namespace numafit::systems
