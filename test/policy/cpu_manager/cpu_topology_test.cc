#include "policy/cpu_manager/cpu_topology.h"

#include <gtest/gtest.h>

#include "test/policy/cpu_manager/cpu_machines.h"

namespace numafit::policy {
namespace {

using testing::Cpus;
using testing::HybridCores;
using testing::SocketOnTwoNumaNodes;
using testing::TopologyOf;
using testing::Uniform;

NumaMask MaskOf(std::initializer_list<int> ids) {
  NumaMask mask;
  for (const int id : ids) mask.add(id);
  return mask;
}

TEST(CpuTopology, CountsAsDiscoverDoes) {
  const CpuTopology topology = TopologyOf(Uniform(4, 3, 2, 2, 2));
  EXPECT_EQ(topology.cpu_count(), 24);
  EXPECT_EQ(topology.cores().size(), 12U);
  EXPECT_EQ(topology.numa_nodes().size(), 4U);
  EXPECT_EQ(topology.sockets().size(), 2U);
  EXPECT_EQ(topology.uncores().size(), 6U);
  EXPECT_EQ(topology.CpusPerCore(), 2);
  EXPECT_EQ(topology.CpusPerSocket(), 12);
  EXPECT_EQ(topology.CpusPerUncore(), 4);
  EXPECT_FALSE(topology.NumaFirst());
  EXPECT_EQ(FormatCpuSet(topology.InNuma(MaskOf({0, 3, 60}))), "0-2,9-14,21-23");
  EXPECT_EQ(FormatCpuSet(topology.InSocketsOf(MaskOf({1}))), "0-5,12-17");
  EXPECT_EQ(topology.socket_masks(), (std::vector<NumaMask>{MaskOf({0, 1}), MaskOf({2, 3})}));
}

TEST(CpuTopology, AveragesAreRoundedDown) {
  const CpuTopology topology = TopologyOf(HybridCores());
  EXPECT_EQ(topology.cores().size(), 6U);
  EXPECT_EQ(topology.CpusPerCore(), 1);
  EXPECT_EQ(topology.WidestCore(), 2);
}

TEST(CpuTopology, CoresOfTwoSocketsMayShareANumber) {
  // sysfs counts core_id per package.
  const CpuTopology topology = TopologyOf({{.cpu = 0, .core = 0, .socket = 0, .numa = 0},
                                           {.cpu = 1, .core = 0, .socket = 1, .numa = 1},
                                           {.cpu = 2, .core = 0, .socket = 0, .numa = 0},
                                           {.cpu = 3, .core = 0, .socket = 1, .numa = 1}});
  EXPECT_EQ(topology.cores().size(), 2U);
  EXPECT_EQ(topology.CpusPerCore(), 2);
  EXPECT_EQ(topology.core_of(2), 0);
  EXPECT_EQ(topology.core_of(3), 1);
}

TEST(CpuTopology, WithoutAnUncoreCacheTheSocketIsOne) {
  EXPECT_EQ(TopologyOf(Uniform(4, 2, 2, 2)).uncores().size(), 2U);
  // Ids of caches and of sockets are not told apart.
  EXPECT_EQ(TopologyOf({{.cpu = 0, .core = 0, .socket = 1, .uncore = -1},
                        {.cpu = 1, .core = 1, .socket = 0, .uncore = 1}})
                .uncores()
                .size(),
            1U);
}

TEST(CpuTopology, CpuLessNumaNodesDoNotExist) {
  const CpuTopology topology =
      TopologyOf({{.cpu = 0, .core = 0, .numa = 1}, {.cpu = 1, .core = 1, .numa = 33}});
  EXPECT_EQ(topology.numa_mask(), MaskOf({1, 33}));
  EXPECT_EQ(topology.numa_nodes().size(), 2U);
}

TEST(CpuTopology, ASocketOnTwoNumaNodes) {
  const CpuTopology topology = TopologyOf(SocketOnTwoNumaNodes());
  EXPECT_TRUE(topology.NumaFirst());
  EXPECT_EQ(topology.sockets_in_numa()[1].size(), 2U);
  EXPECT_EQ(topology.numa_in_sockets()[0].size(), 2U);
  EXPECT_EQ(FormatCpuSet(topology.sockets_in_numa()[1][0].cpus), "2-3");
}

TEST(CpuTopology, MinimalWidthCountsTheLargestNumaNodesFirst) {
  std::vector<CpuInfo> cpus = Uniform(3, 4, 1, 1);
  cpus.resize(9);  // 4, 4, 1
  const CpuTopology topology = TopologyOf(std::move(cpus));
  EXPECT_EQ(topology.MinimalWidth(INT64_MIN), 1);
  EXPECT_EQ(topology.MinimalWidth(4), 1);
  EXPECT_EQ(topology.MinimalWidth(5), 2);
  EXPECT_EQ(topology.MinimalWidth(8), 2);
  EXPECT_EQ(topology.MinimalWidth(9), 3);
  EXPECT_EQ(topology.MinimalWidth(INT64_MAX), 3);
}

TEST(CpuTopology, RefusesWhatIsNoMachine) {
  EXPECT_FALSE(CpuTopology::Create({}).ok());
  EXPECT_FALSE(CpuTopology::Create({{.cpu = -1}}).ok());
  EXPECT_FALSE(CpuTopology::Create({{.cpu = CpuSet::kMaxIds}}).ok());
  EXPECT_FALSE(CpuTopology::Create({{.cpu = 0, .numa = 64}}).ok());
  EXPECT_FALSE(CpuTopology::Create({{.cpu = 0, .numa = -1}}).ok());
  EXPECT_FALSE(CpuTopology::Create({{.cpu = 3}, {.cpu = 3, .core = 1}}).ok());
  EXPECT_TRUE(CpuTopology::Create({{.cpu = CpuSet::kMaxIds - 1, .numa = 63}}).ok());
}

}  // namespace
}  // namespace numafit::policy
