// The accelerator keys of GPUStack's nine vendors with every ownership mode, beside its RDMA keys.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

#include "test/systems/node.h"

namespace numafit::systems {
namespace {

constexpr char kRdma[] = "device.gpustack.ai/rdma";
constexpr char kShared[] = "device.gpustack.ai/rdma.shared";

struct Vendor {
  const char* name;
  const char* key;
  const char* group;   // of the cards: the sanitized product name
  const char* prefix;  // of a card's id
  int slices;          // per card; 0: the vendor has no such family
};

// The name of the test, instead of the bytes of its pointers.
void PrintTo(const Vendor& vendor, std::ostream* out) {
  *out << vendor.key;
}

constexpr Vendor kVendors[] = {
    {"Nvidia", "nvidia.com/gpu", "h100-80gb-hbm3", "GPU-", 128},
    {"Amd", "amd.com/gpu", "mi300x-192g", "", 0},
    {"Ascend", "huawei.com/npu", "ascend-910b3-64g", "", 63},
    {"Cambricon", "cambricon.com/mlu", "mlu590-m9", "", 16},
    {"Hygon", "hygon.com/dcu", "k100-ai-64g", "", 4},
    {"Iluvatar", "iluvatar.com/gpu", "bi-v150-32g", "", 0},
    {"MetaX", "metax-tech.com/gpu", "c500-64g", "", 16},
    {"MooreThreads", "mthreads.com/gpu", "s4000-48g", "", 16},
    {"Thead", "alibabacloud.com/ppu", "zw810e-96g", "", 0},
};

// Two sockets with two cards and two adapters each, all families of the vendor.
class Host : public SystemNode {
 public:
  explicit Host(const Vendor& vendor, std::string_view policy = "single-numa-node")
      : SystemNode(policy), vendor_(vendor) {
    std::vector<FakeDevice> whole;
    std::vector<FakeDevice> shared;
    std::vector<FakeDevice> sliced;
    std::vector<FakeDevice> partitioned;
    for (int card = 0; card < 4; ++card) {
      const std::vector<int> numa = {card / 2};
      whole.push_back({Token(card, 0), numa});
      for (int t = 0; t < 10; ++t) shared.push_back({Token(card, t * 160'000), numa});
      for (int t = 0; t < vendor.slices; ++t) sliced.push_back({Token(card, t), numa});
      for (int t = 0; t < 7; ++t) partitioned.push_back({Token(card, t), {}, false});
    }
    Serve(Key(), whole);
    Serve(Key(".shared"), shared);
    if (vendor.slices > 0) Serve(Key(".sliced"), sliced);
    Serve(Key(".partitioned"), partitioned);
    std::vector<FakeDevice> adapters;
    std::vector<FakeDevice> tokens;
    for (int i = 0; i < 4; ++i) {
      const std::string netdev = fmt::format("ens{}f0np0", i);
      host().AddRdmaDevice(fmt::format("mlx5_{}", i), fmt::format("pci0000:{0}0/0000:{0}1:00.0", i),
                           i / 2, netdev);
      adapters.push_back({fmt::format("{0}:{0}:0000", netdev), {i / 2}});
      for (int t = 0; t < 64; ++t) {
        tokens.push_back({fmt::format("{0}:{0}:{1:04}", netdev, t), {i / 2}});
      }
    }
    Serve(kRdma, adapters);
    Serve(kShared, tokens);
  }

  [[nodiscard]] std::string Key(const char* family = "") const {
    return std::string(vendor_.key) + family;
  }
  [[nodiscard]] std::string Card(int card) const {
    return fmt::format("{}:{}8f1c02d4-6a7b-4e3c-9d10-00000000000{}", vendor_.group, vendor_.prefix,
                       card);
  }
  [[nodiscard]] std::string Token(int card, int index) const {
    return fmt::format("{}:{:04}", Card(card), index);
  }

 private:
  const Vendor vendor_;
};

class GpustackAccelerators : public ::testing::TestWithParam<Vendor> {};

INSTANTIATE_TEST_SUITE_P(, GpustackAccelerators, ::testing::ValuesIn(kVendors),
                         [](const auto& each) { return each.param.name; });

TEST_P(GpustackAccelerators, WholeCards) {
  Host names(GetParam());
  const std::string key = names.Key();
  const Case cases[] = {
      {"two cards and two adapters",
       {},
       {{{key, 2}, {kRdma, 2}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"three are on no NUMA node", {}, {{{key, 3}, {kRdma, 1}}, {}}, "never-fits", {}},
      {"one is free on each NUMA node",
       {{{key, {names.Token(0, 0)}}}, {{key, {names.Token(2, 0)}}}},
       {{{key, 2}, {kRdma, 1}}, {}},
       "numa-fragmented",
       {}},
      {"the last card and its neighbour",
       {{{key, {names.Token(0, 0), names.Token(1, 0), names.Token(2, 0)}}}},
       {{{key, 1}, {kRdma, 1}}, {}},
       "fits, aligned: guaranteed",
       {{key, {names.Token(3, 0)}}, {kRdma, {"ens2f0np0:ens2f0np0:0000"}}}},
  };
  for (const Case& line : cases) {
    Host host(GetParam());
    Check(host, line);
  }
}

TEST_P(GpustackAccelerators, SharedCards) {
  Host host(GetParam());
  const std::string key = host.Key(".shared");
  const Case line = {"two shares and a shared adapter",
                     {},
                     {{{key, 2}, {kShared, 1}}, {}},
                     "fits, aligned: guaranteed",
                     {}};
  Check(host, line);
  const v1alpha1::DeviceGroup* group = host.FindGroup(key, host.Card(1));
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->count(), 10) << "ten tokens of one card are one row";
  // Ten tokens of each of two cards are on a NUMA node, and the plugin gives no card twice.
  EXPECT_EQ(host.Filter({{{key, 3}, {kShared, 1}}, {}}), "kubelet-refuses");
  EXPECT_EQ(host.Filter({{{key, 21}, {kShared, 1}}, {}}), "never-fits");
}

TEST_P(GpustackAccelerators, SlicedCards) {
  Host host(GetParam());
  const std::string key = host.Key(".sliced");
  const bool served = GetParam().slices > 0;
  const Case line = {"a slice and a shared adapter",
                     {},
                     {{{key, 1}, {kShared, 1}}, {}},
                     served ? "fits, aligned: guaranteed" : "never-fits",
                     {}};
  Check(host, line);
  // The size of the slice is a number in the node's status, no device: not ours to judge.
  const Wish sized = {{{key, 1},
                       {host.Key(".sliced.units"), 400'000},
                       {host.Key(".sliced.memory-mib"), 20'480},
                       {kShared, 1}},
                      {}};
  EXPECT_EQ(host.Filter(sized), line.answer);
}

TEST_P(GpustackAccelerators, PartitionedCards) {
  const Host names(GetParam());
  const std::string key = names.Key(".partitioned");
  const std::string profile = names.Key(".partitioned.mig-3g.40gb");
  const Wish wish = {{{key, 1}, {profile, 1}, {kRdma, 1}}, {}};
  // Which card it is the plugin decides after the kubelet has admitted the Pod.
  const Case cases[] = {
      {"nobody aligns the partition", {}, wish, "fits, aligned: possible", {}},
      {"who must be sure is refused", {}, Guaranteed(wish), "not-guaranteed", {}},
      {"the adapters alone are aligned", {}, {{{key, 1}, {kRdma, 3}}, {}}, "never-fits", {}},
  };
  for (const Case& line : cases) {
    Host host(GetParam());
    Check(host, line);
  }
}

TEST_P(GpustackAccelerators, OneCardIsOneEndpointInEveryFamily) {
  Host host(GetParam());
  host.Report();
  for (const char* family : {"", ".shared", ".partitioned"}) {
    EXPECT_NE(host.FindGroup(host.Key(family), host.Card(3)), nullptr) << family;
  }
}

TEST_P(GpustackAccelerators, ACardHeldInOneModeLeavesTheOtherFamilies) {
  Host host(GetParam());
  host.Report();
  // Card 0 went to somebody as a whole: the plugin tells that its shares are unhealthy.
  host.Run("whole", {{host.Key(), {host.Token(0, 0)}}});
  for (int t = 0; t < 10; ++t) host.Fail(host.Key(".shared"), host.Token(0, t * 160'000));
  host.Report();
  const Wish one = {{{host.Key(".shared"), 1}, {kShared, 1}}, {}};
  const Wish two = {{{host.Key(".shared"), 2}, {kShared, 1}}, {}};
  EXPECT_EQ(host.Filter(one), "fits, aligned: guaranteed");
  // NUMA node 0 has ten tokens, so the kubelet goes there; they are all of one card, and the plugin
  // refuses.
  EXPECT_EQ(host.Filter(two), "kubelet-refuses");
  for (int t = 0; t < 10; ++t) host.Fail(host.Key(".shared"), host.Token(1, t * 160'000));
  host.Report();
  EXPECT_EQ(host.Filter(two), "fits, aligned: guaranteed") << "on NUMA node 1";
}

TEST(GpustackAccelerator, TheOwnersCardForASidecarIsNoPlacement) {
  Host host(kVendors[0]);
  std::vector<FakeDevice> views;
  for (int card = 0; card < 4; ++card) {
    for (int t = 0; t < 512; ++t) views.push_back({host.Token(card, t), {card / 2}});
  }
  host.Serve("device.gpustack.ai/nvidia.visibility", views);
  const Case line = {
      "beside the card itself",
      {},
      {{{"device.gpustack.ai/nvidia.visibility", 1}, {"nvidia.com/gpu", 1}, {kRdma, 1}}, {}},
      "fits, aligned: guaranteed",
      {}};
  Check(host, line);
}

TEST(GpustackAccelerator, ACardOnSeveralNumaNodes) {
  // "0-1": the device manager names every NUMA node near the card.
  SystemNode host("restricted");
  host.Serve("huawei.com/npu", {{"a:n0:0000", {0, 1}}, {"a:n1:0000", {0, 1}}});
  host.Serve(kRdma, {{"ib0:ib0:0000", {0}}, {"ib1:ib1:0000", {1}}});
  const Case line = {"it is near either adapter",
                     {},
                     {{{"huawei.com/npu", 2}, {kRdma, 1}}, {}},
                     "fits, aligned: guaranteed",
                     {}};
  Check(host, line);
  ASSERT_NE(host.FindGroup("huawei.com/npu", "a:n1"), nullptr);
  EXPECT_EQ(host.FindGroup("huawei.com/npu", "a:n1")->numa_nodes_size(), 2);
}

}  // namespace
}  // namespace numafit::systems
