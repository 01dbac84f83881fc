// An agent that starts again, with the API server's memory of the former one: a card that has
// failed still counts, as it does for the kubelet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/api_server_sink.h"
#include "agent/collector.h"
#include "agent/publisher.h"
#include "agent/report_loop.h"
#include "test/agent/fake_kubelet.h"
#include "test/agent/made_up_host.h"
#include "test/kube/fake_api_server.h"

namespace numafit::systems {
namespace {

using agent::AgentConfig;
using nlohmann::json;

constexpr char kNode[] = "gpu-a-012";
constexpr char kGpu[] = "nvidia.com/gpu";

class Restart : public ::testing::Test {
 protected:
  Restart() {
    host_.Write("/proc/sys/kernel/random/boot_id", "boot-1\n");
    host_.AddNumaNode(0, 2, "0-3", 0);
    host_.AddNumaNode(1, 2, "4-7", 1);
    host_.MakeFolder("/var/lib/kubelet/pod-resources");
    config_.root = host_.root();
    config_.settle = std::chrono::milliseconds(5);
    config_.min_interval = std::chrono::milliseconds(50);
    config_.pods_poll = std::chrono::milliseconds(50);
    config_.full_poll = std::chrono::milliseconds(1'000);
    api::Node node;
    node.metadata.name = kNode;
    server_.PutNode(std::move(node));
    kube::Credentials credentials;
    credentials.server = server_.url();
    client_ = kube::Client::Create(credentials, {}).value();
    Show({"GPU-0", "GPU-1"}, {"GPU-2", "GPU-3"});
    kubelet_.Start();
  }

  // GPUs that are healthy, on NUMA node 0 and on 1.
  void Show(const std::vector<std::string>& first, const std::vector<std::string>& second) {
    std::vector<agent::FakeDevice> devices;
    for (const std::string& id : first) devices.push_back({id, {0}});
    for (const std::string& id : second) devices.push_back({id, {1}});
    kubelet_.SetAllocatable({{kGpu, devices}});
    std::vector<std::string> ids = first;
    ids.insert(ids.end(), second.begin(), second.end());
    host_.Write("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
                agent::CheckpointText({}, {{kGpu, ids}}));
  }

  // Runs an agent until the stored report is as wanted and the agent knows that it is stored: the
  // server has it before its answer has arrived.
  void RunUntil(const std::function<bool(const json& status)>& wanted) {
    agent::ApiServerSink sink(*client_);
    agent::Collector collector(config_, [] { return absl::FromUnixSeconds(1'800'000'000); });
    agent::Publisher publisher(
        sink, kNode, [] { return absl::FromUnixSeconds(1'800'000'000); }, {}, 1);
    agent::Health health(std::chrono::seconds(60), std::chrono::steady_clock::now());
    const auto not_ready = [&] { return health.WhyNotReady(std::chrono::steady_clock::now()); };
    EXPECT_NE(not_ready(), "");
    const int stop = ::eventfd(0, EFD_CLOEXEC);
    std::thread loop([&] { RunReports(config_, collector, publisher, stop, &health); });
    bool seen = false;
    for (int i = 0; i < 2'000 && !seen; ++i) {
      seen = wanted(Stored()) && not_ready().empty();
      if (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(seen) << Stored().dump(1) << "\nnot ready: " << not_ready();
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(stop, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    loop.join();
    ::close(stop);
  }
  json Stored() {
    const json object = json::parse(server_.FindNodeReport(kNode).value_or("null"));
    return object.is_object() ? object["status"] : json::object();
  }
  static int Generation(const json& status) { return status.value("generation", 0); }
  // Healthy and unhealthy devices by NUMA node: "2+0,1+1".
  static std::string Devices(const json& status) {
    int count[2][2] = {};
    for (const json& resource : status.value("resources", json::array())) {
      for (const json& group : resource.value("groups", json::array())) {
        count[group["numaNodes"][0].get<int>()][group.value("unhealthy", false) ? 1 : 0] +=
            group["count"].get<int>();
      }
    }
    return std::to_string(count[0][0]) + "+" + std::to_string(count[0][1]) + "," +
           std::to_string(count[1][0]) + "+" + std::to_string(count[1][1]);
  }
  auto DevicesAre(const std::string& text) {
    return [text](const json& status) { return Devices(status) == text; };
  }

  agent::MadeUpHost host_;
  agent::FakeKubelet kubelet_{host_.Path("/var/lib/kubelet/pod-resources/kubelet.sock")};
  AgentConfig config_;
  kube_testing::FakeApiServer server_;
  std::unique_ptr<kube::Client> client_;
};

TEST_F(Restart, AFailedCardIsNotForgotten) {
  RunUntil(DevicesAre("2+0,2+0"));
  EXPECT_EQ(Stored()["nodeName"], kNode);
  Show({"GPU-0", "GPU-1"}, {"GPU-2"});
  RunUntil(DevicesAre("2+0,1+1"));
  // Another one fails while no agent runs.
  Show({"GPU-1"}, {"GPU-2"});
  const int generation = Generation(Stored());
  RunUntil(DevicesAre("1+1,1+1"));
  EXPECT_EQ(Generation(Stored()), generation + 1) << "it is in the first report already";
  Show({"GPU-0", "GPU-1"}, {"GPU-2"});
  RunUntil(DevicesAre("2+0,1+1"));
  Show({"GPU-0", "GPU-1"}, {"GPU-2", "GPU-3"});
  RunUntil(DevicesAre("2+0,2+0"));
}

TEST_F(Restart, AfterARebootCountingBeginsAnew) {
  RunUntil(DevicesAre("2+0,2+0"));
  host_.Write("/proc/sys/kernel/random/boot_id", "boot-2\n");
  Show({"GPU-0", "GPU-1"}, {"GPU-2"});
  RunUntil(DevicesAre("2+0,1+0"));
}

}  // namespace
}  // namespace numafit::systems
