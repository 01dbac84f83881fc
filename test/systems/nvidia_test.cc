// NVIDIA's own device plugin: whole GPUs, MIG profiles, replicas; and the plugins that are like it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "test/systems/node.h"

namespace numafit::systems {
namespace {

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kRdma[] = "device.gpustack.ai/rdma";

std::string Gpu(int i) {
  return fmt::format("GPU-b1946ac9-2f1d-4c3a-a1b2-00000000000{}", i);
}
std::string Mig(int gpu, int instance) {
  return fmt::format("MIG-41b2a9d7-0c54-5e8f-9b6d-0000000000{}{}", gpu, instance);
}
std::string Replica(int gpu, int number) {
  return fmt::format("{}::{}", Gpu(gpu), number);
}
std::string Adapter(int i) {
  return fmt::format("ib{0}:ib{0}:0000", i);
}

// Two sockets with two GPUs and one adapter each.
std::unique_ptr<SystemNode> Host(std::string_view policy = "single-numa-node") {
  auto host = std::make_unique<SystemNode>(policy);
  host->Serve(kRdma, {{Adapter(0), {0}}, {Adapter(1), {1}}});
  return host;
}

std::vector<FakeDevice> Replicas(int each) {
  std::vector<FakeDevice> devices;
  for (int gpu = 0; gpu < 4; ++gpu) {
    for (int n = 0; n < each; ++n) devices.push_back({Replica(gpu, n), {gpu / 2}});
  }
  return devices;
}

std::vector<FakeDevice> Instances(int each) {
  std::vector<FakeDevice> devices;
  for (int gpu = 0; gpu < 4; ++gpu) {
    for (int n = 0; n < each; ++n) devices.push_back({Mig(gpu, n), {gpu / 2}});
  }
  return devices;
}

TEST(Nvidia, WholeGpus) {
  const std::vector<FakeDevice> gpus = {{Gpu(0), {0}}, {Gpu(1), {0}}, {Gpu(2), {1}}, {Gpu(3), {1}}};
  const Case cases[] = {
      {"two and their adapter", {}, {{{kGpu, 2}, {kRdma, 1}}, {}}, "fits, aligned: guaranteed", {}},
      {"the adapter of the free GPUs is taken",
       {{{kGpu, {Gpu(0), Gpu(1)}}}, {{kRdma, {Adapter(1)}}}},
       {{{kGpu, 1}, {kRdma, 1}}, {}},
       "numa-fragmented",
       {}},
      {"the last of each",
       {{{kGpu, {Gpu(0), Gpu(1), Gpu(2)}}, {kRdma, {Adapter(0)}}}},
       {{{kGpu, 1}, {kRdma, 1}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Gpu(3)}}, {kRdma, {Adapter(1)}}}},
      {"all of them at once", {}, {{{kGpu, 4}, {kRdma, 1}}, {}}, "never-fits", {}},
  };
  for (const Case& line : cases) {
    const auto host = Host();
    host->Serve(kGpu, gpus);
    Check(*host, line);
  }
}

TEST(Nvidia, MigProfilesAreResourcesOfTheirOwn) {
  constexpr char kSmall[] = "nvidia.com/mig-1g.10gb";
  constexpr char kLarge[] = "nvidia.com/mig-3g.40gb";
  const Case cases[] = {
      {"fourteen small ones are on one NUMA node",
       {},
       {{{kSmall, 14}, {kRdma, 1}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"fifteen are not", {}, {{{kSmall, 15}, {kRdma, 1}}, {}}, "never-fits", {}},
      {"the only large one, and the adapter beside it",
       {},
       {{{kLarge, 1}, {kRdma, 1}}, {}},
       "fits, aligned: guaranteed",
       {{kLarge, {"MIG-77777777-0c54-5e8f-9b6d-000000000000"}}, {kRdma, {Adapter(1)}}}},
      {"the only large one, and that adapter is taken",
       {{{kRdma, {Adapter(1)}}}},
       {{{kLarge, 1}, {kRdma, 1}}, {}},
       "numa-fragmented",
       {}},
      {"a profile that no card has",
       {},
       {{{"nvidia.com/mig-7g.80gb", 1}, {kRdma, 1}}, {}},
       "never-fits",
       {}},
  };
  for (const Case& line : cases) {
    const auto host = Host();
    host->Serve(kSmall, Instances(7));
    host->Serve(kLarge, {{"MIG-77777777-0c54-5e8f-9b6d-000000000000", {1}}});
    host->Serve(kGpu, {});
    Check(*host, line);
  }
}

TEST(Nvidia, MigOfOneKindIsCalledGpu) {
  const auto host = Host();
  host->Serve(kGpu, Instances(7));
  const Case line = {
      "instances count", {}, {{{kGpu, 10}, {kRdma, 1}}, {}}, "fits, aligned: guaranteed", {}};
  Check(*host, line);
}

TEST(Nvidia, ReplicasKeepTheNumaNodeOfTheirGpu) {
  for (const char* key : {"nvidia.com/gpu", "nvidia.com/gpu.shared"}) {
    const auto host = Host();
    host->Serve(key, Replicas(4));
    const Case line = {"five replicas are of two GPUs on one NUMA node",
                       {},
                       {{{key, 5}, {kRdma, 1}}, {}},
                       "fits, aligned: guaranteed",
                       {}};
    Check(*host, line);
    const v1alpha1::DeviceGroup* group = host->FindGroup(key, Gpu(2));
    ASSERT_NE(group, nullptr) << key;
    EXPECT_EQ(group->count(), 4);
    EXPECT_EQ(host->Filter({{{key, 9}, {kRdma, 1}}, {}}), "never-fits");
  }
}

TEST(Nvidia, ReplicasOfMigInstances) {
  constexpr char kKey[] = "nvidia.com/mig-1g.10gb.shared";
  const auto host = Host();
  std::vector<FakeDevice> devices;
  for (int n = 0; n < 4; ++n) devices.push_back({fmt::format("{}::{}", Mig(0, 0), n), {0}});
  host->Serve(kKey, devices);
  const Case line = {"all are of one instance",
                     {},
                     {{{kKey, 4}, {kRdma, 1}}, {}},
                     "fits, aligned: guaranteed",
                     {{kKey, {devices[0].id, devices[1].id, devices[2].id, devices[3].id}},
                      {kRdma, {Adapter(0)}}}};
  Check(*host, line);
  EXPECT_EQ(host->report().summary().misaligned_containers(), 0);
}

TEST(Nvidia, GpusOfAVirtualMachineHaveNoNumaNode) {
  const auto host = Host();
  host->Serve(kGpu, {{Gpu(0), {}, false}, {Gpu(1), {}, false}});
  const Case line = {"the kubelet aligns the adapters alone",
                     {},
                     {{{kGpu, 2}, {kRdma, 1}}, {}},
                     "fits, aligned: possible",
                     {}};
  Check(*host, line);
  const auto other = Host();
  other->Serve(kGpu, {{Gpu(0), {}, false}, {Gpu(1), {}, false}});
  const Case sure = {"who must be sure is refused",
                     {},
                     Guaranteed({{{kGpu, 2}, {kRdma, 1}}, {}}),
                     "not-guaranteed",
                     {}};
  Check(*other, sure);
}

TEST(LikeNvidia, SharesOfHamiAndGke) {
  for (const auto& [first, second, card] :
       {std::tuple{Gpu(0) + "-0", Gpu(0) + "-1", Gpu(0)},
        std::tuple{std::string("nvidia0/vgpu0"), std::string("nvidia0/vgpu1"),
                   std::string("nvidia0")}}) {
    const auto host = Host();
    host->Serve(kGpu, {{first, {0}}, {second, {0}}});
    const Case line = {"two shares of one card",
                       {},
                       {{{kGpu, 2}, {kRdma, 1}}, {}},
                       "fits, aligned: guaranteed",
                       {{kGpu, {first, second}}, {kRdma, {Adapter(0)}}}};
    Check(*host, line);
    ASSERT_NE(host->FindGroup(kGpu, card), nullptr) << card;
    EXPECT_EQ(host->FindGroup(kGpu, card)->count(), 2);
  }
}

TEST(LikeNvidia, APluginThatPublishesMinusOne) {
  // ROCm where sysfs does not know: the kubelet aligns the resource and finds it nowhere.
  const std::vector<FakeDevice> gpus = {{"0000:19:00.0", {-1}}, {"0000:3f:00.0", {-1}}};
  const Case cases[] = {
      {"a kubelet that enforces refuses",
       {},
       {{{"amd.com/gpu", 1}, {kRdma, 1}}, {}},
       "kubelet-refuses",
       {}},
      {"also without an adapter", {}, {{{"amd.com/gpu", 1}}, {}}, "kubelet-refuses", {}},
  };
  for (const Case& line : cases) {
    const auto host = Host();
    host->Serve("amd.com/gpu", gpus);
    Check(*host, line);
  }
  const auto relaxed = Host("best-effort");
  relaxed->Serve("amd.com/gpu", gpus);
  const Case line = {"one that does not enforce does not",
                     {},
                     {{{"amd.com/gpu", 1}, {kRdma, 1}}, {}},
                     "fits, aligned: possible",
                     {}};
  Check(*relaxed, line);
}

}  // namespace
}  // namespace numafit::systems
