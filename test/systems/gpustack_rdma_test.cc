// GPUStack's RDMA families on one host: whole interfaces, shared tokens, virtual functions, and the
// pool of an earlier release.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "test/systems/node.h"

namespace numafit::systems {
namespace {

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kRdma[] = "device.gpustack.ai/rdma";
constexpr char kShared[] = "device.gpustack.ai/rdma.shared";
constexpr char kPartitioned[] = "device.gpustack.ai/rdma.partitioned";
constexpr char kSliced[] = "device.gpustack.ai/rdma.sliced";

// Two sockets with `cards` accelerators and `adapters` adapters each; interfaces ib0, ib1, …
class Host : public SystemNode {
 public:
  explicit Host(int cards = 4, int adapters = 4, std::string_view policy = "single-numa-node")
      : SystemNode(policy), adapters_(adapters) {
    for (int i = 0; i < 2 * adapters; ++i) {
      host().AddRdmaDevice(fmt::format("mlx5_{}", i),
                           fmt::format("pci0000:{0:x}/0000:{0:x}:00.0/0000:{1:x}:00.0",
                                       0x15 + 16 * i, 0x18 + 16 * i),
                           Numa(i), fmt::format("ib{}", i));
    }
    std::vector<FakeDevice> gpus;
    for (int i = 0; i < 2 * cards; ++i) gpus.push_back({Gpu(i), {i / cards}});
    Serve(kGpu, gpus);
  }

  static std::string Gpu(int i) {
    return fmt::format("h100-80gb-hbm3:GPU-5c1a7d2e-94b3-4f6e-8a57-0000000000{:02x}:0000", i);
  }
  static std::string Token(int adapter, int token = 0) {
    return fmt::format("ib{0}:ib{0}:{1:04}", adapter, token);
  }
  static std::string Vf(int port, int vf) { return fmt::format("ib{0}:ib{0}v{1}:0000", port, vf); }
  // All tokens of an adapter.
  static std::vector<std::string> AllOf(int adapter, int tokens = 64) {
    std::vector<std::string> ids;
    for (int t = 0; t < tokens; ++t) ids.push_back(Token(adapter, t));
    return ids;
  }

  Host& ServeTokens(const char* resource, int tokens, int first = 0, int step = 1) {
    std::vector<FakeDevice> devices;
    for (int i = 0; i < 2 * adapters_; ++i) {
      for (int t = 0; t < tokens; ++t) devices.push_back({Token(i, first + t * step), {Numa(i)}});
    }
    Serve(resource, devices);
    return *this;
  }
  // Two functions of every port.
  Host& ServeFunctions() {
    std::vector<FakeDevice> devices;
    for (int i = 0; i < 2 * adapters_; ++i) {
      for (int vf = 0; vf < 2; ++vf) devices.push_back({Vf(i, vf), {Numa(i)}});
    }
    Serve(kPartitioned, devices);
    // The plugin registers every family; the ports with functions are no whole interfaces.
    Serve(kRdma, {});
    Serve(kShared, {});
    return *this;
  }

 private:
  [[nodiscard]] int Numa(int adapter) const { return adapter / adapters_; }

  const int adapters_;
};

TEST(GpustackRdma, WholeInterfaces) {
  const Ids three_of_each = {{kGpu, {Host::Gpu(0), Host::Gpu(1), Host::Gpu(2)}},
                             {kRdma, {Host::Token(0), Host::Token(1), Host::Token(2)}}};
  const Case cases[] = {
      {"four of each fit on one NUMA node",
       {},
       {{{kGpu, 4}, {kRdma, 4}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"five adapters are on no NUMA node", {}, {{{kGpu, 1}, {kRdma, 5}}, {}}, "never-fits", {}},
      {"where one NUMA node is busy the other one is determined",
       {three_of_each},
       {{{kGpu, 2}, {kRdma, 2}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Host::Gpu(4), Host::Gpu(6)}}, {kRdma, {Host::Token(5), Host::Token(7)}}}},
      {"cards are free on one NUMA node and adapters on the other",
       {{{kGpu, {Host::Gpu(0), Host::Gpu(1), Host::Gpu(2), Host::Gpu(3)}}},
        {{kRdma, {Host::Token(4), Host::Token(5), Host::Token(6), Host::Token(7)}}}},
       {{{kGpu, 1}, {kRdma, 1}}, {}},
       "numa-fragmented",
       {}},
      {"a whole interface is an endpoint of its own",
       {},
       Distinct({{{kGpu, 2}, {kRdma, 2}}, {}}),
       "fits, aligned: guaranteed, distinct: guaranteed",
       {}},
      {"a family that is not registered", {}, {{{kGpu, 1}, {kShared, 1}}, {}}, "never-fits", {}},
  };
  for (const Case& line : cases) Check(Host().ServeTokens(kRdma, 1), line);
}

TEST(GpustackRdma, EightAndEightNeedTheWholeHost) {
  const auto host = [](const char* policy) { return std::make_unique<Host>(4, 4, policy); };
  const Case both = {
      "eight of each", {}, {{{kGpu, 8}, {kRdma, 8}}, {}}, "fits, aligned: guaranteed", {}};
  Check(host("restricted")->ServeTokens(kRdma, 1), both);
  // One adapter is on one NUMA node, eight cards are on two: no common set is smallest for both.
  const Case one = {
      "eight cards and one adapter", {}, {{{kGpu, 8}, {kRdma, 1}}, {}}, "kubelet-refuses", {}};
  Check(host("restricted")->ServeTokens(kRdma, 1), one);
  const Case shared = {
      "the same with a shared token", {}, {{{kGpu, 8}, {kShared, 1}}, {}}, "kubelet-refuses", {}};
  Check(host("restricted")->ServeTokens(kShared, 64), shared);
}

TEST(GpustackRdma, SharedTokens) {
  const Case cases[] = {
      {"eight tokens are on one NUMA node",
       {},
       {{{kGpu, 2}, {kShared, 8}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"two tokens may be one adapter: marked",
       {},
       Distinct({{{kGpu, 2}, {kShared, 2}}, {}}),
       "fits, aligned: guaranteed, distinct: possible",
       {}},
      {"one token is one adapter",
       {},
       Distinct({{{kGpu, 1}, {kShared, 1}}, {}}),
       "fits, aligned: guaranteed, distinct: guaranteed",
       {}},
      {"more tokens than adapters are never distinct",
       {},
       Distinct({{{kGpu, 1}, {kShared, 5}}, {}}),
       "endpoints-not-distinct",
       {}},
      {"tokens are free on one NUMA node and cards on the other",
       {{{kShared, Host::AllOf(0)}},
        {{kShared, Host::AllOf(1)}},
        {{kShared, Host::AllOf(2)}},
        {{kShared, Host::AllOf(3)}},
        {{kGpu, {Host::Gpu(4), Host::Gpu(5), Host::Gpu(6), Host::Gpu(7)}}}},
       {{{kGpu, 1}, {kShared, 1}}, {}},
       "numa-fragmented",
       {}},
  };
  for (const Case& line : cases) Check(Host().ServeTokens(kShared, 64), line);
}

TEST(GpustackRdma, TwoSharedTokensOfTheOnlyAdapterAreRefused) {
  const Case distinct = {"one adapter on each NUMA node",
                         {},
                         Distinct({{{kGpu, 2}, {kShared, 2}}, {}}),
                         "endpoints-not-distinct",
                         {}};
  Check(Host(4, 1).ServeTokens(kShared, 64), distinct);
  const Case alike = {"whoever does not ask is let in",
                      {},
                      {{{kGpu, 2}, {kShared, 2}}, {}},
                      "fits, aligned: guaranteed",
                      {}};
  Check(Host(4, 1).ServeTokens(kShared, 64), alike);
}

TEST(GpustackRdma, SixtyFourTokensOfAnAdapterAreOneRow) {
  Host host;
  host.ServeTokens(kShared, 64).ServeTokens(kRdma, 1);
  host.Run("a", {{kShared, {Host::Token(3, 7)}}, {kGpu, {Host::Gpu(0)}}});
  host.Report();
  const v1alpha1::DeviceGroup* group = host.FindGroup(kShared, "ib3:ib3");
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->count(), 64);
  EXPECT_EQ(group->numa_nodes(0), 0);
  // A shared holder does not take the whole interface: the kubelet counts by name.
  EXPECT_EQ(host.Filter({{{kGpu, 3}, {kRdma, 4}}, {}}), "fits, aligned: guaranteed");
}

TEST(GpustackRdma, WholeAndSharedTokensMayBeTheSameAdapter) {
  const Case only = {"one adapter on each NUMA node",
                     {},
                     Distinct({{{kGpu, 1}, {kRdma, 1}, {kShared, 1}}, {}}),
                     "endpoints-not-distinct",
                     {}};
  Check(Host(4, 1).ServeTokens(kShared, 64).ServeTokens(kRdma, 1), only);
  const Case several = {"four adapters on each NUMA node",
                        {},
                        Distinct({{{kGpu, 1}, {kRdma, 1}, {kShared, 1}}, {}}),
                        "fits, aligned: guaranteed, distinct: possible",
                        {}};
  Check(Host().ServeTokens(kShared, 64).ServeTokens(kRdma, 1), several);
}

TEST(GpustackRdma, VirtualFunctions) {
  const Case cases[] = {
      {"eight functions are on one NUMA node",
       {},
       {{{kGpu, 4}, {kPartitioned, 8}}, {}},
       "fits, aligned: guaranteed",
       {}},
      {"nine are not", {}, {{{kGpu, 1}, {kPartitioned, 9}}, {}}, "never-fits", {}},
      {"a function is an endpoint of its own",
       {},
       Distinct({{{kGpu, 2}, {kPartitioned, 2}}, {}}),
       "fits, aligned: guaranteed, distinct: guaranteed",
       {}},
      {"whole interfaces are not served beside functions",
       {},
       {{{kGpu, 1}, {kRdma, 1}}, {}},
       "never-fits",
       {}},
      {"the last functions of the other NUMA node",
       {{{kPartitioned,
          {Host::Vf(0, 0), Host::Vf(0, 1), Host::Vf(1, 0), Host::Vf(1, 1), Host::Vf(2, 0),
           Host::Vf(2, 1), Host::Vf(3, 0)}}}},
       {{{kGpu, 1}, {kPartitioned, 2}}, {}},
       "fits, aligned: guaranteed",
       {{kGpu, {Host::Gpu(5)}}, {kPartitioned, {Host::Vf(6, 1), Host::Vf(7, 0)}}}},
  };
  for (const Case& line : cases) Check(Host().ServeFunctions(), line);
}

TEST(GpustackRdma, FunctionWithoutANetworkDevice) {
  // Its id has no name: "ib0::0000". Such functions of one port are one device to the kubelet.
  Host host;
  host.Serve(kPartitioned, {{"ib0::0000", {0}}, {"ib1:ib1v0:0000", {0}}});
  const Case two = {"both",
                    {},
                    {{{kGpu, 1}, {kPartitioned, 2}}, {}},
                    "fits, aligned: guaranteed",
                    {{kGpu, {Host::Gpu(0)}}, {kPartitioned, {"ib0::0000", "ib1:ib1v0:0000"}}}};
  Check(host, two);
  EXPECT_EQ(host.Filter({{{kPartitioned, 1}}, {}}), "kubelet-refuses") << "both are taken";
}

TEST(GpustackRdma, FunctionWhoseNumaNodeThePluginDoesNotKnow) {
  Host host;
  host.Serve(kPartitioned, {{"ib0:ib0v0:0000", {}, false}, {"ib4:ib4v0:0000", {}, false}});
  const Case line = {"nothing is aligned by the kubelet",
                     {},
                     {{{kGpu, 1}, {kPartitioned, 1}}, {}},
                     "fits, aligned: possible",
                     {}};
  Check(host, line);
  const v1alpha1::DeviceGroup* group = host.FindGroup(kPartitioned, "ib4:ib4v0");
  ASSERT_NE(group, nullptr);
  EXPECT_TRUE(group->no_topology());
  ASSERT_EQ(group->actual_numa_nodes_size(), 1) << "from the port, in sysfs";
  EXPECT_EQ(group->actual_numa_nodes(0), 1);
}

TEST(GpustackRdma, ThePoolOfAnEarlierRelease) {
  const auto host = [] { return std::make_unique<Host>(4, 1); };
  const Case line = {"one adapter on each NUMA node",
                     {},
                     {{{kGpu, 1}, {kSliced, 1}}, {}},
                     "fits, aligned: guaranteed",
                     {}};
  Check(host()->ServeTokens(kSliced, 10, 1, 2), line);
  const Case distinct = {"its tokens are shared ones",
                         {},
                         Distinct({{{kGpu, 1}, {kSliced, 2}}, {}}),
                         "endpoints-not-distinct",
                         {}};
  Check(host()->ServeTokens(kSliced, 10, 1, 2), distinct);
}

TEST(GpustackRdma, AFailedLinkTakesItsTokensAway) {
  Host host(4, 1);
  host.ServeTokens(kRdma, 1);
  host.Report();
  EXPECT_EQ(host.Filter({{{kGpu, 1}, {kRdma, 1}}, {}}), "fits, aligned: guaranteed");
  host.Fail(kRdma, Host::Token(0));
  host.Report();
  ASSERT_NE(host.FindGroup(kRdma, "ib0:ib0"), nullptr);
  EXPECT_TRUE(host.FindGroup(kRdma, "ib0:ib0")->unhealthy());
  EXPECT_EQ(host.Filter({{{kGpu, 1}, {kRdma, 1}}, {}}), "fits, aligned: guaranteed") << "NUMA 1";
  host.Run("a", {{kGpu, {Host::Gpu(4), Host::Gpu(5), Host::Gpu(6), Host::Gpu(7)}}});
  host.Report();
  EXPECT_EQ(host.Filter({{{kGpu, 1}, {kRdma, 1}}, {}}), "numa-fragmented");
  host.Fail(kRdma, Host::Token(1));
  host.Report();
  EXPECT_EQ(host.Filter({{{kGpu, 1}, {kRdma, 1}}, {}}), "never-fits") << "all links are down";
}

TEST(GpustackRdma, AHostWithoutRdmaRegistersTheKeysAllTheSame) {
  SystemNode host;
  host.Serve(kGpu, {{Host::Gpu(0), {0}}});
  host.Serve(kRdma, {});
  host.Serve(kShared, {});
  host.Serve(kPartitioned, {});
  const Case line = {"no device", {}, {{{kGpu, 1}, {kRdma, 1}}, {}}, "never-fits", {}};
  Check(host, line);
  EXPECT_EQ(host.report().resources_size(), 4);
}

}  // namespace
}  // namespace numafit::systems
