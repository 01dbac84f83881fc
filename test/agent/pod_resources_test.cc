// The client against a server that answers as the kubelet does (kubelets have one entry per device
// and NUMA node, entries without a topology, NUMA id 0, which proto3 does not send).
#include "agent/kubelet/pod_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/podresources.pb.h"
#include "test/agent/fake_kubelet.h"
#include "test/agent/made_up_host.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::milliseconds kTimeout{5'000};

class PodResourcesTest : public ::testing::Test {
 protected:
  MadeUpHost host_;
  std::string socket_ = host_.Path("/kubelet.sock");
  FakeKubelet kubelet_{socket_};
};

TEST_F(PodResourcesTest, EntriesOfOneDeviceAreMerged) {
  kubelet_.SetAllocatable({{"gpu", {{"a", {0}}, {"b", {10, 0, 3}}, {"c", {}, false}}},
                           {"amd", {{"d", {-1}}}},
                           {"odd", {{"e", {}, true}}}});
  kubelet_.Start();
  PodResourcesClient client(socket_, kTimeout);
  const auto devices = client.Allocatable();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->at("gpu").at("a"), (DeviceTopology{true, {0}}));
  EXPECT_EQ(devices->at("gpu").at("b"), (DeviceTopology{true, {0, 3, 10}}));
  EXPECT_EQ(devices->at("gpu").at("c"), (DeviceTopology{false, {}}));
  EXPECT_EQ(devices->at("amd").at("d"), (DeviceTopology{true, {-1}}));
  EXPECT_EQ(devices->at("odd").at("e"), (DeviceTopology{true, {}}));
}

TEST_F(PodResourcesTest, PodsInOrderWithWhatTheyHold) {
  kubelet_.SetPods({{"z", "p", {{"main", {{"gpu", {{"a", {0, 1}}}}}, {5, 2, 3}}}},
                    {"a", "q", {}},
                    {"", "", {}}});
  kubelet_.Start();
  PodResourcesClient client(socket_, kTimeout);
  const auto pods = client.List();
  ASSERT_TRUE(pods.ok()) << pods.status();
  ASSERT_EQ(pods->size(), 2U);
  EXPECT_EQ((*pods)[0].name, "q");
  EXPECT_EQ((*pods)[1].containers[0].devices.at("gpu").at("a"), (DeviceTopology{true, {0, 1}}));
  EXPECT_EQ(policy::FormatCpuSet((*pods)[1].containers[0].cpus), "2-3,5");
}

TEST_F(PodResourcesTest, KubeletThatComesGoesAndComesBack) {
  PodResourcesClient client(socket_, kTimeout);
  absl::Status status = client.List().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("kubelet.sock: List"));
  for (int round = 0; round < 3; ++round) {
    kubelet_.Start();
    EXPECT_TRUE(client.List().ok());
    EXPECT_TRUE(client.Allocatable().ok());
    kubelet_.Stop();
    EXPECT_FALSE(client.List().ok());
  }
}

// Whether the end of the connection is told within the time.
bool IsTold(const PodResourcesClient& client, int timeout_ms) {
  pollfd ended = {client.ended_fd(), POLLIN, 0};
  return ::poll(&ended, 1, timeout_ms) == 1;
}

TEST_F(PodResourcesTest, TheEndOfTheKubeletIsTold) {
  PodResourcesClient client(socket_, kTimeout);
  EXPECT_FALSE(client.List().ok());
  for (int round = 0; round < 3; ++round) {
    kubelet_.Start();
    EXPECT_TRUE(client.List().ok());
    EXPECT_TRUE(client.List().ok());
    EXPECT_FALSE(IsTold(client, 50));
    kubelet_.Stop();
    ASSERT_TRUE(IsTold(client, 20'000));
    client.TakeEnd();
    EXPECT_FALSE(IsTold(client, 0));
    EXPECT_FALSE(client.List().ok());
  }
}

TEST_F(PodResourcesTest, AClientThatGoesFirstDoesNotWaitForTheKubelet) {
  kubelet_.Start();
  for (int round = 0; round < 20; ++round) {
    PodResourcesClient client(socket_, kTimeout);
    EXPECT_TRUE(client.List().ok());
  }
}

TEST_F(PodResourcesTest, WhetherSomebodyListens) {
  EXPECT_TRUE(NobodyListens(socket_)) << "no such file";
  kubelet_.Start();
  EXPECT_FALSE(NobodyListens(socket_));
  kubelet_.Stop();
  // As one that was killed leaves it.
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket_.size(), sizeof address.sun_path);
  socket_.copy(address.sun_path, socket_.size());
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(left);
  EXPECT_TRUE(NobodyListens(socket_));
  EXPECT_FALSE(NobodyListens(std::string(500, 'x'))) << "no socket can have this name";
}

TEST_F(PodResourcesTest, ErrorsOfTheKubeletAreItsOwn) {
  kubelet_.Start();
  kubelet_.SetError("rejected by rate limit");
  PodResourcesClient client(socket_, kTimeout);
  const absl::Status status = client.Allocatable().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rejected by rate limit"));
  kubelet_.SetError("");
  EXPECT_TRUE(client.Allocatable().ok());
}

TEST_F(PodResourcesTest, AnswersOfSeveralMegabytes) {
  std::vector<FakeDevice> devices;
  for (int i = 0; i < 60'000; ++i) {
    devices.push_back({"a-rather-long-device-id-of-some-plugin-" + std::to_string(i), {0}});
  }
  kubelet_.SetAllocatable({{"x.example.com/a-rather-long-resource-name", devices}});
  kubelet_.Start();
  PodResourcesClient client(socket_, kTimeout);
  const auto read = client.Allocatable();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->begin()->second.size(), 60'000U);
}

TEST(PodResources, NumbersThatAreNoneAreLeftOut) {
  v1::ListPodResourcesResponse response;
  v1::PodResources* pod = response.add_pod_resources();
  pod->set_name("p");
  v1::ContainerResources* container = pod->add_containers();
  container->add_cpu_ids(-1);
  container->add_cpu_ids(INT64_MAX);
  container->add_cpu_ids(4);
  v1::ContainerDevices* device = container->add_devices();
  device->set_resource_name("r");
  device->add_device_ids("a");
  device->mutable_topology()->add_nodes()->set_id(INT64_MAX);
  device->mutable_topology()->add_nodes()->set_id(INT64_MIN);
  const std::vector<ListedPod> pods = ReadList(response);
  EXPECT_EQ(policy::FormatCpuSet(pods[0].containers[0].cpus), "4");
  EXPECT_THAT(pods[0].containers[0].devices.at("r").at("a").numa_nodes, IsEmpty());
}

}  // namespace
}  // namespace numafit::agent
