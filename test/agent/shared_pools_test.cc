#include "agent/shared_pools.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/machine/rdma.h"
#include "test/agent/made_up_host.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFile[] = "/etc/rdma/config.json";

SharedPool Only(const std::string& entry) {
  const auto pools = ParseSharedPools(R"({"configList": [)" + entry + "]}", kFile);
  EXPECT_TRUE(pools.ok()) << pools.status();
  return pools.ok() ? pools->front() : SharedPool();
}

TEST(SharedPools, ReadsThePluginsFile) {
  const auto pools = ParseSharedPools(R"({
    "periodicUpdateInterval": 300,
    "configList": [
      {"resourceName": "hca_a", "rdmaHcaMax": 1000, "devices": ["ib0", "ib1"]},
      {"resourceName": "hca_b", "resourcePrefix": "example.com", "rdmaHcaMax": 63,
       "selectors": {"vendors": ["15b3"], "deviceIDs": ["1017"], "drivers": ["mlx5_core"],
                     "ifNames": ["ib2"], "linkTypes": ["infiniband"]}}
    ]})",
                                      kFile);
  ASSERT_TRUE(pools.ok()) << pools.status();
  ASSERT_EQ(pools->size(), 2U);
  EXPECT_EQ((*pools)[0].resource, "rdma/hca_a");
  EXPECT_THAT((*pools)[0].netdevs, ElementsAre("ib0", "ib1"));
  EXPECT_EQ((*pools)[1].resource, "example.com/hca_b");
  EXPECT_THAT((*pools)[1].vendors, ElementsAre("15b3"));
  EXPECT_THAT((*pools)[1].devices, ElementsAre("1017"));
  EXPECT_THAT((*pools)[1].drivers, ElementsAre("mlx5_core"));
  EXPECT_THAT((*pools)[1].netdevs, ElementsAre("ib2"));
  EXPECT_THAT((*pools)[1].link_types, ElementsAre("infiniband"));
}

TEST(SharedPools, ErrorsNameFilePathAndValue) {
  struct Bad {
    const char* text;
    const char* message;
  };
  const Bad cases[] = {
      {"", "/etc/rdma/config.json"},
      {R"({"configList": [{"resourceName": "a")", "/etc/rdma/config.json"},
      {"[]", "/etc/rdma/config.json: "},
      {"{}", "/etc/rdma/config.json: configList: has no pool"},
      {R"({"configList": {}})", "configList"},
      {R"({"configList": [{"devices": ["ib0"]}]})",
       "configList[0].resourceName: \"\", expected letters, digits and underscores"},
      {R"({"configList": [{"resourceName": "a-b", "devices": ["ib0"]}]})",
       "configList[0].resourceName: \"a-b\", expected letters"},
      {R"({"configList": [{"resourceName": "a"}]})",
       "configList[0]: has neither selectors nor devices, expected either selectors or devices"},
      {R"({"configList": [{"resourceName": "a", "devices": ["x"], "selectors": {"vendors": ["1"]}}]})",
       "configList[0]: has both"},
      {R"({"configList": [{"resourceName": "a", "devices": "ib0"}]})", "configList[0].devices"},
      {R"({"configList": [{"resourceName": "a", "selectors": {"ifNames": [7]}}]})",
       "configList[0].selectors.ifNames[0]"},
      {R"({"configList": [{"resourceName": "a", "selectors": {"rootPorts": ["x"]}}]})",
       "configList[0].selectors.rootPorts: a selector that is not known"},
      {R"({"configList": [{"resourceName": "a", "devices": ["x"]},
                          {"resourceName": "a", "devices": ["y"]}]})",
       "configList[1].resourceName: \"rdma/a\" is there twice"},
  };
  for (const Bad& bad : cases) {
    const auto pools = ParseSharedPools(bad.text, kFile);
    ASSERT_FALSE(pools.ok()) << bad.text;
    EXPECT_THAT(std::string(pools.status().message()), HasSubstr(bad.message));
    EXPECT_THAT(std::string(pools.status().message()), HasSubstr(kFile));
  }
}

class SharedPoolsOnAHost : public ::testing::Test {
 protected:
  SharedPoolsOnAHost() {
    Add(0, "ens0f0np0", "0x1017", "1");
    Add(1, "ens1f0np0", "0x1021", "1");
    Add(2, "ib0", "0x1021", "32");
  }

  void Add(int number, const std::string& netdev, const std::string& device,
           const std::string& type) {
    const std::string name = fmt::format("mlx5_{}", number);
    const std::string folder = fmt::format("pci0000:{0}0/0000:{0}1:00.0", number);
    host_.AddRdmaDevice(name, folder, number % 2, netdev);
    const std::string hardware = "/sys/devices/" + folder;
    host_.Write(hardware + "/vendor", "0x15b3\n");
    host_.Write(hardware + "/device", device + "\n");
    host_.Write(hardware + "/net/" + netdev + "/type", type + "\n");
    host_.MakeFolder("/sys/bus/pci/drivers/mlx5_core");
    host_.Link(hardware + "/driver", "../../../bus/pci/drivers/mlx5_core");
  }
  std::vector<std::string> In(const std::string& selectors) {
    const HostFiles sys(host_.Path("/sys"));
    return RuleOf(Only(R"({"resourceName": "a", "selectors": )" + selectors + "}"),
                  ReadRdmaDevices(sys), sys)
        .rdma_devices;
  }

  MadeUpHost host_;
};

TEST_F(SharedPoolsOnAHost, EverySelectorNarrowsThePool) {
  EXPECT_THAT(In(R"({"vendors": ["15B3"]})"), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"));
  EXPECT_THAT(In(R"({"vendors": ["8086"]})"), IsEmpty());
  EXPECT_THAT(In(R"({"deviceIDs": ["1021", "1019"]})"), ElementsAre("mlx5_1", "mlx5_2"));
  EXPECT_THAT(In(R"({"drivers": ["mlx5_core"]})"), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"));
  EXPECT_THAT(In(R"({"drivers": ["mlx4_core"]})"), IsEmpty());
  EXPECT_THAT(In(R"({"ifNames": ["ib0", "ens0f0np0"]})"), ElementsAre("mlx5_0", "mlx5_2"));
  EXPECT_THAT(In(R"({"linkTypes": ["infiniband"]})"), ElementsAre("mlx5_2"));
  EXPECT_THAT(In(R"({"linkTypes": ["ether"], "deviceIDs": ["1021"]})"), ElementsAre("mlx5_1"));
  EXPECT_THAT(In(R"({"vendors": ["15b3"], "ifNames": ["eth9"]})"), IsEmpty())
      << "a pool of other nodes";
}

TEST_F(SharedPoolsOnAHost, DevicesAreNamesOfInterfaces) {
  const HostFiles sys(host_.Path("/sys"));
  const EndpointRule rule =
      RuleOf(Only(R"({"resourceName": "a", "devices": ["ens1f0np0"]})"), ReadRdmaDevices(sys), sys);
  EXPECT_EQ(rule.resource, "rdma/a");
  EXPECT_THAT(rule.rdma_devices, ElementsAre("mlx5_1"));
}

}  // namespace
}  // namespace numafit::agent
