#include "agent/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHead[] = "apiVersion: numafit.io/v1alpha1\nkind: AgentConfiguration\n";

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(AgentConfiguration, EveryKey) {
  AgentConfig config;
  const absl::Status status = ApplyConfigText(std::string(kHead) + R"(
nodeName: gpu-7
paths: {root: /host, sys: /made/up, proc: /p, kubelet: /k, podLogs: /l}
kubelet: {url: "https://127.0.0.1:10250", caFile: /ca, serverName: gpu-7, tokenFile: /t}
resourceClasses:
- {pattern: example.com/*, kind: accelerator}
endpointMap:
- {resource: rdma/a, rdmaDevices: [mlx5_0], numaNodes: [0, 1]}
- {resource: rdma/b, devices: "7*", netdevs: [ens1], pciAddresses: ["0000:18:00.0"]}
sharedPoolFiles: [/etc/rdma/config.json]
healthAddress: ":8089"
settleMilliseconds: 1
minIntervalMilliseconds: 50
podsPollMilliseconds: 60
fullPollMilliseconds: 1000
)",
                                              "agent.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.node_name, "gpu-7");
  EXPECT_EQ(config.kubelet_server_name, "gpu-7");
  ASSERT_EQ(config.endpoint_map.size(), 2U);
  EXPECT_THAT(config.endpoint_map[0].rdma_devices, ElementsAre("mlx5_0"));
  EXPECT_THAT(config.endpoint_map[0].numa_nodes, ElementsAre(0, 1));
  EXPECT_EQ(config.endpoint_map[0].devices, "*");
  EXPECT_THAT(config.endpoint_map[1].netdevs, ElementsAre("ens1"));
  EXPECT_THAT(config.shared_pool_files, ElementsAre("/etc/rdma/config.json"));
  EXPECT_EQ(config.health_address, ":8089");
  EXPECT_EQ(config.full_poll.count(), 1000);
  const HostPaths paths = PathsOf(config);
  EXPECT_EQ(paths.sys, "/made/up");
  EXPECT_EQ(paths.root, "/host");
}

TEST(AgentConfiguration, ErrorsNameFileLineAndPath) {
  struct Bad {
    std::string text;
    std::string message;
  };
  const std::vector<Bad> cases = {
      {"kind: AgentConfiguration\n", "apiVersion: is missing"},
      {"apiVersion: numafit.io/v1alpha1\nkind: ExtenderConfiguration\n",
       "f.yaml:2: kind: \"ExtenderConfiguration\", expected AgentConfiguration"},
      {std::string(kHead) + "pollMilliseconds: 5\n", "f.yaml:3: pollMilliseconds: unknown key"},
      {std::string(kHead) + "paths: {sysfs: /x}\n", "paths.sysfs: unknown key"},
      {std::string(kHead) + "kubelet: 7\n", "kubelet: is text"},
      {std::string(kHead) + "fullPollMilliseconds: 1\n", "fullPollMilliseconds"},
      {std::string(kHead) + "resourceClasses: [{pattern: a, kind: card}]\n",
       "resourceClasses[0].kind: \"card\" is not one of"},
      {std::string(kHead) + "endpointMap: [{rdmaDevices: [a]}]\n",
       "endpointMap[0].resource: is missing"},
      {std::string(kHead) + "endpointMap: [{resource: a}]\n", "endpointMap[0]: says nothing"},
      {std::string(kHead) + "endpointMap: [{resource: a, numaNodes: [-1]}]\n", "numaNodes"},
      {std::string(kHead) + "---\na: 1\n", "expected one document"},
  };
  for (const Bad& bad : cases) {
    AgentConfig config;
    EXPECT_THAT(Message(ApplyConfigText(bad.text, "f.yaml", &config)), HasSubstr(bad.message));
  }
}

TEST(AgentConfiguration, DefaultsAreTheHostsOwnFolders) {
  AgentConfig config;
  EXPECT_EQ(PathsOf(config).kubelet, "/var/lib/kubelet");
  config.root = "/host/";
  EXPECT_EQ(PathsOf(config).proc, "/host/proc");
}

TEST(CommandLine, FlagsOverrideAndBadOnesAreNamed) {
  const auto line =
      ParseCommandLine({"--print", "--root=/host", "--node-name", "n", "--sys", "/s"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->print);
  EXPECT_EQ(line->config.root, "/host");
  EXPECT_EQ(line->config.node_name, "n");
  EXPECT_EQ(line->config.sys, "/s");
  EXPECT_THAT(Message(ParseCommandLine({"--rot=/"}).status()), HasSubstr("unknown flag --rot"));
  EXPECT_THAT(Message(ParseCommandLine({"--root"}).status()), HasSubstr("--root needs a value"));
  EXPECT_THAT(Message(ParseCommandLine({"--print=1"}).status()), HasSubstr("takes no value"));
  EXPECT_THAT(Message(ParseCommandLine({"x"}).status()), HasSubstr("unexpected argument \"x\""));
  EXPECT_THAT(Message(ParseCommandLine({"--watch"}).status()), HasSubstr("needs --print"));
  EXPECT_THAT(Message(ParseCommandLine({"--config=/no/file"}).status()), HasSubstr("/no/file"));
}

}  // namespace
}  // namespace numafit::agent
