#include "agent/endpoint_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1alpha1::RdmaDevice Rdma(const std::string& name, const std::string& netdev, int numa) {
  v1alpha1::RdmaDevice device;
  device.set_name(name);
  device.set_netdev(netdev);
  device.set_numa_node(numa);
  device.set_pci_address("0000:" + name.substr(name.size() - 1) + "0:00.0");
  return device;
}

class EndpointMapTest : public ::testing::Test {
 protected:
  EndpointMap Map() const { return {rules_, devices_, pci_}; }

  std::vector<EndpointRule> rules_;
  std::vector<v1alpha1::RdmaDevice> devices_ = {Rdma("mlx5_0", "ens1f0np0", 0),
                                                Rdma("mlx5_1", "ens2f0np0", 1),
                                                Rdma("mlx5_2", "ib0", 1), Rdma("mlx5_3", "", -1)};
  std::map<std::string, int> pci_ = {{"0000:18:00.0", 0}, {"0000:9a:00.1", 1}};
};

TEST(Patterns, StarsStandForAnyRun) {
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("mlx5_*", "mlx5_12"));
  EXPECT_TRUE(MatchesPattern("*_12", "mlx5_12"));
  EXPECT_TRUE(MatchesPattern("a*b*c", "a12b3bc"));
  EXPECT_FALSE(MatchesPattern("a*b*c", "a12b3bcd"));
  EXPECT_FALSE(MatchesPattern("mlx5_1", "mlx5_12"));
  EXPECT_FALSE(MatchesPattern("ab*ba", "aba"));
}

TEST_F(EndpointMapTest, SharedPoolsSitWhereTheirAdaptersSit) {
  rules_ = {{"rdma/hca_a", "*", {"mlx5_0"}, {}, {}, {}},
            {"rdma/hca_b", "*", {}, {"ens*"}, {}, {}},
            {"rdma/hca_c", "*", {"mlx5_3"}, {}, {}, {}}};
  EXPECT_THAT(Map().NumaNodes("rdma/hca_a", "7"), ElementsAre(0));
  EXPECT_THAT(Map().NumaNodes("rdma/hca_b", "7"), ElementsAre(0, 1));
  EXPECT_THAT(Map().NumaNodes("rdma/hca_c", "7"), IsEmpty()) << "numa_node is -1";
  EXPECT_THAT(Map().NumaNodes("rdma/hca_d", "7"), IsEmpty()) << "nobody says";
}

TEST_F(EndpointMapTest, FirstRuleWinsAndDevicesMayBeNamed) {
  rules_ = {{"nvidia.com/gpu.partitioned", "h100:GPU-a*", {}, {}, {"0000:18:00.0"}, {}},
            {"nvidia.com/gpu.*", "*", {}, {}, {}, {1}}};
  EXPECT_THAT(Map().NumaNodes("nvidia.com/gpu.partitioned", "h100:GPU-abc:0000"), ElementsAre(0));
  EXPECT_THAT(Map().NumaNodes("nvidia.com/gpu.partitioned", "h100:GPU-b:0000"), ElementsAre(1));
}

TEST_F(EndpointMapTest, IdsThatNameHardwareNeedNoRule) {
  EXPECT_THAT(Map().NumaNodes("intel.com/sriov", "0000:9a:00.1"), ElementsAre(1));
  EXPECT_THAT(Map().NumaNodes("device.gpustack.ai/rdma", "ib0:ib0:0000"), ElementsAre(1));
  EXPECT_THAT(Map().NumaNodes("device.gpustack.ai/rdma.partitioned", "ib0:ib0v3:0000"),
              ElementsAre(1))
      << "a virtual function without a network device sits where its port sits";
  EXPECT_THAT(Map().NumaNodes("x.example.com/y", "mlx5_1"), ElementsAre(1));
  EXPECT_THAT(Map().NumaNodes("x.example.com/y", "mlx5_3"), IsEmpty());
  EXPECT_THAT(Map().NumaNodes("rdma/pool", "0"), IsEmpty());
}

TEST_F(EndpointMapTest, SlotsOfAllAdaptersAreOnAllTheirNumaNodes) {
  EXPECT_THAT(Map().NumaNodes("rdma.io/hca", "rdma-17"), ElementsAre(0, 1));
}

TEST_F(EndpointMapTest, NamesWhatTheConfigurationNamesAndIsNotThere) {
  rules_ = {{"rdma/a", "*", {"mlx5_0", "mlx5_9"}, {"eth7"}, {"0000:ff:00.0"}, {}}};
  const std::string unmatched = Map().Unmatched();
  EXPECT_THAT(unmatched, HasSubstr("rdma/a: no RDMA device \"mlx5_9\" here"));
  EXPECT_THAT(unmatched, HasSubstr("\"eth7\""));
  EXPECT_THAT(unmatched, HasSubstr("0000:ff:00.0"));
  EXPECT_THAT(unmatched, Not(HasSubstr("mlx5_0")));
}

}  // namespace
}  // namespace numafit::agent
