#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/machine/numa.h"
#include "agent/machine/rdma.h"
#include "test/agent/made_up_host.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<v1alpha1::NumaNode> Read(const MadeUpHost& host) {
  auto nodes = ReadNumaNodes(HostFiles(host.Path("/sys")));
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  return nodes.ok() ? *nodes : std::vector<v1alpha1::NumaNode>();
}

void AddCache(const MadeUpHost& host, int cpu, int id, const std::string& map) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index3";
  host.Write(folder + "/id", std::to_string(id) + "\n");
  host.Write(folder + "/level", "3\n");
  host.Write(folder + "/size", "32768K\n");
  host.Write(folder + "/shared_cpu_map", map + "\n");
}

TEST(Machine, CoresAreRowsOfThreads) {
  MadeUpHost host;
  host.AddNumaNode(0, 2, "0-3", 0, "8-11");
  host.AddNumaNode(1, 2, "4-7", 1, "12-15");
  const auto nodes = Read(host);
  ASSERT_THAT(nodes, SizeIs(2));
  ASSERT_EQ(nodes[1].cores_size(), 1);
  EXPECT_THAT(nodes[1].cores(0).threads(), ElementsAre("4-7", "12-15"));
  EXPECT_EQ(nodes[1].cores(0).socket(), 1);
  EXPECT_EQ(nodes[1].cores(0).uncore_cache(), -1);
  EXPECT_THAT(nodes[1].distances(), ElementsAre(20, 10));
  EXPECT_EQ(nodes[0].memory(), "17179869184");
}

TEST(Machine, NeighbouringThreadsAndOddOnes) {
  MadeUpHost host;
  // 0,1 | 2,3 are cores; 4 has lost its sibling.
  host.AddNumaNode(0, 1, "0,2,4", 0, "1,3");
  const auto nodes = Read(host);
  ASSERT_EQ(nodes[0].cores_size(), 2);
  EXPECT_THAT(nodes[0].cores(0).threads(), ElementsAre("0,2", "1,3"));
  EXPECT_THAT(nodes[0].cores(1).threads(), ElementsAre("4"));
}

// Core {0,9} before core {1,8}: as sets they would read as {0,8}, {1,9}.
TEST(Machine, CrossedThreadsAreNotFolded) {
  MadeUpHost host;
  host.AddNumaNode(0, 1, "0-1", 0, "8-9");
  host.Write("/sys/devices/system/cpu/cpu8/topology/core_id", "1\n");
  host.Write("/sys/devices/system/cpu/cpu9/topology/core_id", "0\n");
  const auto nodes = Read(host);
  ASSERT_EQ(nodes[0].cores_size(), 2);
  EXPECT_THAT(nodes[0].cores(0).threads(), ElementsAre("0", "9"));
  EXPECT_THAT(nodes[0].cores(1).threads(), ElementsAre("1", "8"));
}

TEST(Machine, LastLevelCachesAsCadvisorSeesThem) {
  MadeUpHost host;
  host.AddNumaNode(0, 1, "0-3", 0);
  for (int cpu = 0; cpu < 4; ++cpu) AddCache(host, cpu, cpu / 2, cpu < 2 ? "3" : "c");
  auto nodes = Read(host);
  ASSERT_EQ(nodes[0].cores_size(), 2);
  EXPECT_EQ(nodes[0].cores(0).uncore_cache(), 0);
  EXPECT_THAT(nodes[0].cores(0).threads(), ElementsAre("0-1"));
  EXPECT_EQ(nodes[0].cores(1).uncore_cache(), 1);
  // Shared by exactly the CPUs of the NUMA node: no uncore cache.
  for (int cpu = 0; cpu < 4; ++cpu) AddCache(host, cpu, 0, "00000000,0000000f");
  nodes = Read(host);
  ASSERT_EQ(nodes[0].cores_size(), 1);
  EXPECT_EQ(nodes[0].cores(0).uncore_cache(), -1);
  // Shared with another NUMA node (sub-NUMA clustering): it is one.
  for (int cpu = 0; cpu < 4; ++cpu) AddCache(host, cpu, 7, "ff");
  EXPECT_EQ(Read(host)[0].cores(0).uncore_cache(), 7);
  // Where one cannot be read, the later cores have none.
  host.Remove("/sys/devices/system/cpu/cpu2/cache/index3/id");
  nodes = Read(host);
  ASSERT_EQ(nodes[0].cores_size(), 2);
  EXPECT_EQ(nodes[0].cores(0).uncore_cache(), 7);
  EXPECT_EQ(nodes[0].cores(1).uncore_cache(), -1);
}

TEST(Machine, NumaNodesWithoutCpusAndWithGaps) {
  MadeUpHost host;
  host.AddNumaNode(0, 3, "0-1", 0);
  host.AddNumaNode(2, 3, "", 0, "", 98304);
  host.AddNumaNode(10, 3, "", 0, "", 0);
  host.Write("/sys/devices/system/node/node0/distance", "10 80  255\n");
  host.Write("/sys/devices/system/node/possible", "0-31\n");
  host.Write("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
  host.Write("/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
  const auto nodes = Read(host);
  ASSERT_THAT(nodes, SizeIs(3));
  EXPECT_EQ(nodes[2].id(), 10);
  EXPECT_THAT(nodes[0].distances(), ElementsAre(10, 0, 80, 0, 0, 0, 0, 0, 0, 0, 255));
  EXPECT_EQ(nodes[1].cores_size(), 0);
  EXPECT_EQ(nodes[1].memory(), "100663296");
  ASSERT_EQ(nodes[0].hugepages_size(), 2);
  EXPECT_EQ(nodes[0].hugepages(0).size(), "2Mi");
  EXPECT_EQ(nodes[0].hugepages(0).pages(), 512);
  EXPECT_EQ(nodes[0].hugepages(1).size(), "1Gi");
}

TEST(Machine, WhatCannotBeReadIsNamed) {
  MadeUpHost host;
  EXPECT_TRUE(absl::IsNotFound(ReadNumaNodes(HostFiles(host.Path("/sys"))).status()));
  host.AddNumaNode(0, 1, "0-1", 0);
  host.Write("/sys/devices/system/node/node0/distance", "ten\n");
  auto status = ReadNumaNodes(HostFiles(host.Path("/sys"))).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("node0/distance: \"ten\""));
  host.Write("/sys/devices/system/node/node0/cpulist", "0-\n");
  status = ReadNumaNodes(HostFiles(host.Path("/sys"))).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("node0/cpulist"));
}

TEST(Rdma, DevicesWithTheirPlaceAndLink) {
  MadeUpHost host;
  const std::string port = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0";
  host.AddRdmaDevice("mlx5_0", port, 1, "ens1f0np0");
  host.Write("/sys/devices/" + port + "/sriov_numvfs", "2\n");
  host.AddRdmaDevice("mlx5_1", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.2", -1, "ens1f0v0",
                     "1: DOWN");
  host.Link("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.2/physfn",
            "../0000:18:00.0");
  host.AddRdmaDevice("mlx5_2", "pci0000:20/0000:21:00.0", -1, "", "6: ACTIVE_DEFER");
  const auto devices = ReadRdmaDevices(HostFiles(host.Path("/sys")));
  ASSERT_THAT(devices, SizeIs(3));
  EXPECT_EQ(devices[0].netdev(), "ens1f0np0");
  EXPECT_EQ(devices[0].numa_node(), 1);
  EXPECT_EQ(devices[0].pci_address(), "0000:18:00.0");
  EXPECT_THAT(devices[0].pci_path(), ElementsAre("0000:16:00.0", "0000:15:01.0"));
  EXPECT_EQ(devices[0].link(), "active");
  EXPECT_EQ(devices[0].virtual_functions(), 2);
  EXPECT_EQ(devices[0].physical_function(), "");
  EXPECT_EQ(devices[1].physical_function(), "mlx5_0");
  EXPECT_EQ(devices[1].numa_node(), 1) << "that of its physical function";
  EXPECT_EQ(devices[1].link(), "down");
  EXPECT_EQ(devices[2].numa_node(), -1);
  EXPECT_EQ(devices[2].netdev(), "");
  EXPECT_EQ(devices[2].link(), "active_defer");
}

TEST(Rdma, ActivePortWithoutPhysicalLinkIsDown) {
  MadeUpHost host;
  host.AddRdmaDevice("mlx5_0", "pci0000:15/0000:18:00.0", 0);
  const std::string ports = "/sys/class/infiniband/mlx5_0/ports";
  host.Write(ports + "/1/phys_state", "2: Polling\n");
  EXPECT_EQ(ReadRdmaDevices(HostFiles(host.Path("/sys")))[0].link(), "down");
  host.Write(ports + "/2/state", "4: ACTIVE\n");
  EXPECT_EQ(ReadRdmaDevices(HostFiles(host.Path("/sys")))[0].link(), "active");
}

TEST(Rdma, HostWithoutAny) {
  MadeUpHost host;
  EXPECT_THAT(ReadRdmaDevices(HostFiles(host.Path("/sys"))), IsEmpty());
}

TEST(Rdma, PciFunctionsWithKnownNumaNodes) {
  MadeUpHost host;
  host.Write("/sys/bus/pci/devices/0000:18:00.0/numa_node", "1\n");
  host.Write("/sys/bus/pci/devices/0000:19:00.0/numa_node", "-1\n");
  EXPECT_THAT(ReadPciNumaNodes(HostFiles(host.Path("/sys"))),
              ElementsAre(::testing::Pair("0000:18:00.0", 1)));
}

TEST(Rdma, PciAddresses) {
  EXPECT_TRUE(IsPciAddress("0000:18:00.0"));
  EXPECT_TRUE(IsPciAddress("10000:e1:1f.7"));
  for (const char* text : {"", "pci0000:15", "18:00.0", "0000:18:00", "0000:18:00.0x", "mlx5_0"}) {
    EXPECT_FALSE(IsPciAddress(text)) << text;
  }
}

}  // namespace
}  // namespace numafit::agent
