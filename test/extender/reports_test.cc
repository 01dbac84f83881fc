// The service with an inventory from NodeReports, against an API server on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/node_report.h"
#include "extender/app.h"
#include "nlohmann/json.hpp"
#include "test/cache/machines.h"
#include "test/cache/reports.h"
#include "test/extender/http/http_client.h"
#include "test/extender/support.h"
#include "test/kube/fake_api_server.h"

namespace numafit::extender {
namespace {

using http::RawClient;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Reports : public ::testing::Test {
 protected:
  void Start(const std::function<void(Config&)>& change = nullptr) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.read_listen = "127.0.0.1:0";
    config.log_level = LogLevel::kOff;
    config.workers = 2;
    config.inventory_from_reports = true;
    if (change) change(config);
    kube::Credentials credentials;
    credentials.server = server_.url();
    App::Overrides overrides;
    overrides.client = kube::Client::Create(credentials, {}).value();
    overrides.watch_client = true;
    absl::StatusOr<std::unique_ptr<App>> app = App::Start(config, std::move(overrides));
    ASSERT_TRUE(app.ok()) << app.status();
    app_ = *std::move(app);
    ASSERT_TRUE(Soon([this] { return app_->ready(); }));
  }

  // A report of an even machine with these Pods on it: name, and GPUs on NUMA 0 and on NUMA 1.
  struct Line {
    std::string name;
    int numa0 = 0;
    int numa1 = 0;
  };
  void Report(const std::string& node, const std::vector<Line>& lines, bool spoil = false,
              int misaligned = 0) {
    auto status =
        std::make_shared<v1alpha1::NodeReportStatus>(test::ReportOf(test::SpecOf(test::kEven)));
    status->set_generation(++generation_);
    const auto topology = test::Make(test::kEven);
    const int pool = topology->FindPool(test::kGpu);
    test::ReportedPods pods(*topology, *status);
    for (const Line& line : lines) {
      policy::Holding held;
      const int first = topology->FindDevice(pool, "g0-0").class_index;
      const int second = topology->FindDevice(pool, "g1-0").class_index;
      if (line.numa0 > 0) held.devices.push_back({first, line.numa0});
      if (line.numa1 > 0) held.devices.push_back({second, line.numa1});
      pods.Add(line.name, "uid-" + line.name, held);
    }
    status->mutable_summary()->set_misaligned_containers(misaligned);
    if (spoil) status->mutable_resources(0)->mutable_groups(0)->set_count(-1);
    api::NodeReport report;
    report.metadata.name = node;
    report.status = std::move(status);
    server_.PutNodeReport(api::NodeReportToJson(report));
  }

  // The nodes that filter lets through for a Pod with so many GPUs.
  std::vector<std::string> Fitting(int gpus, const std::vector<std::string>& names) {
    const auto response =
        RawClient(app_->port()).Post("/filter", ArgsJson(PodJson("asks", gpus, 0), names));
    return json::parse(response.body)["NodeNames"].get<std::vector<std::string>>();
  }
  std::string Metrics() { return RawClient(app_->read_port()).Get("/metrics").body; }

  static bool Soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 500; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  kube_testing::FakeApiServer server_;
  int generation_ = 0;
  std::unique_ptr<App> app_;
};

TEST_F(Reports, TheInventoryFollowsTheReports) {
  Report("a", {});
  Start();
  EXPECT_EQ(Fitting(4, {"a", "b"}), std::vector<std::string>{"a"});
  Report("b", {});  // a node that nobody knew when the service started
  EXPECT_TRUE(Soon([this] { return Fitting(4, {"a", "b"}).size() == 2; }));
  Report("a", {{"x", 1, 0}, {"y", 0, 1}});
  EXPECT_TRUE(Soon([this] { return Fitting(4, {"a", "b"}) == std::vector<std::string>{"b"}; }));
  server_.DeleteNodeReport("b");
  EXPECT_TRUE(Soon([this] { return Fitting(4, {"a", "b"}).empty(); }));
  EXPECT_THAT(Metrics(), HasSubstr("numafit_reports_total{result=\"applied\"} 3"));
}

TEST_F(Reports, MisalignedContainersAreCounted) {
  Report("a", {{"x", 1, 1}}, /*spoil=*/false, /*misaligned=*/1);
  Report("b", {{"y", 1, 1}}, /*spoil=*/false, /*misaligned=*/2);
  Start();
  EXPECT_THAT(Metrics(), HasSubstr("numafit_misaligned_containers 3"));
  server_.DeleteNodeReport("b");
  EXPECT_TRUE(Soon(
      [this] { return Metrics().find("numafit_misaligned_containers 1") != std::string::npos; }));
}

TEST_F(Reports, AMisalignedPodIsToldOnce) {
  Report("a", {});
  Start();
  api::Pod pod;
  pod.metadata.name = "x";
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-x";
  pod.metadata.creation_time = 1'700'000'000;
  pod.node_name = "a";
  pod.status.phase = "Running";
  pod.status.container_statuses = 1;
  server_.PutPod(pod);
  EXPECT_TRUE(Soon([this] { return Metrics().find("numafit_fleet_pods 1") != std::string::npos; }));
  auto status =
      std::make_shared<v1alpha1::NodeReportStatus>(test::ReportOf(test::SpecOf(test::kEven)));
  v1alpha1::Pod* listed = status->add_pods();
  listed->set_namespace_("default");
  listed->set_name("x");
  listed->set_uid("uid-x");
  v1alpha1::Container* container = listed->add_containers();
  container->set_name("main");
  for (const auto& [resource, group] : {std::pair{test::kGpu, 0}, std::pair{test::kRdma, 7}}) {
    for (v1alpha1::HeldDevices* held : {listed->add_devices(), container->add_devices()}) {
      held->set_resource(resource);
      held->set_group(group);
      held->set_count(1);
    }
  }
  for (int i = 0; i < 2; ++i) {
    status->set_generation(++generation_);
    api::NodeReport report;
    report.metadata.name = "a";
    report.status = status;
    server_.PutNodeReport(api::NodeReportToJson(report));
    EXPECT_TRUE(Soon([&] {
      return Metrics().find("numafit_reports_total{result=\"applied\"} " + std::to_string(i + 2)) !=
             std::string::npos;
    }));
  }
  EXPECT_TRUE(Soon([this] { return !server_.events().empty(); }));
  ASSERT_EQ(server_.events().size(), 1U);
  const json event = json::parse(server_.events().front());
  EXPECT_EQ(event["reason"], "DevicesMisaligned");
  EXPECT_EQ(event["regarding"]["name"], "x");
  EXPECT_THAT(event["note"].get<std::string>(),
              HasSubstr("container main: nvidia.com/gpu on NUMA 0, device.gpustack.ai/rdma on "
                        "NUMA 1"));
  const json pods =
      json::parse(RawClient(app_->read_port()).Get("/v1/pods?misaligned=true").body)["pods"];
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0]["state"], "observed");
  EXPECT_EQ(pods[0]["alignment"], "misaligned");
}

TEST_F(Reports, AReportThatCannotBeRightChangesNothing) {
  Report("a", {{"x", 1, 0}, {"y", 0, 1}});
  Start();
  Report("a", {}, /*spoil=*/true);
  EXPECT_TRUE(Soon([this] {
    return Metrics().find("numafit_reports_total{result=\"invalid\"} 1") != std::string::npos;
  }));
  EXPECT_THAT(Fitting(4, {"a"}), IsEmpty());
}

TEST_F(Reports, RoomIsKeptForThePodThatASchedulerHasNominated) {
  Report("a", {{"x", 4, 0}});
  api::Pod pod;
  pod.metadata.name = "x";
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-x";
  api::Container container;
  container.name = "main";
  container.resources.limits[test::kGpu] = api::Quantity::FromInt(4);
  pod.containers.push_back(container);
  api::Pod runs = pod;
  runs.node_name = "a";
  runs.status.phase = "Running";
  runs.status.container_statuses = 1;
  server_.PutPod(runs);
  pod.metadata.name = "nominee";
  pod.metadata.uid = "uid-nominee";
  pod.priority = 10;
  pod.status.phase = "Pending";
  pod.status.nominated_node_name = "a";
  server_.PutPod(pod);
  Start();  // it was there before
  const auto answer = [this] {
    const auto response =
        RawClient(app_->port()).Post("/filter", ArgsJson(PodJson("asks", 2, 0), {"a"}));
    return json::parse(response.body);
  };
  EXPECT_EQ(answer()["FailedAndUnresolvableNodes"]["a"],
            policy::ReasonText(policy::Reason::kKeptForNominee));
  const auto gate = RawClient(app_->port()).Post("/bind", BindJson("asks", "a"));
  EXPECT_EQ(json::parse(gate.body)["Error"], policy::ReasonText(policy::Reason::kKeptForNominee));
  const json nodes = json::parse(RawClient(app_->read_port()).Get("/v1/nodes").body)["nodes"];
  EXPECT_EQ(nodes[0]["states"], json::array({"kept-for-nominee"}));
  // The nominee itself, and those above it.
  std::string nominee = PodJson("nominee", 4, 0);
  EXPECT_EQ(
      json::parse(
          RawClient(app_->port()).Post("/filter", ArgsJson(nominee, {"a"})).body)["NodeNames"],
      json::array({"a"}));
  std::string above = PodJson("above", 2, 0);
  above.replace(above.find(R"("spec":{)"), 8, R"("spec":{"priority":11,)");
  EXPECT_EQ(json::parse(
                RawClient(app_->port()).Post("/filter", ArgsJson(above, {"a"})).body)["NodeNames"],
            json::array({"a"}));
  // It is taken back.
  pod.status.nominated_node_name.clear();
  server_.PutPod(pod);
  EXPECT_TRUE(Soon([&] { return answer()["NodeNames"] == json::array({"a"}); }));
  pod.status.nominated_node_name = "a";
  server_.PutPod(pod);
  EXPECT_TRUE(Soon([&] { return answer()["NodeNames"].empty(); }));
  server_.DeletePod("default", "nominee");
  EXPECT_TRUE(Soon([&] { return answer()["NodeNames"] == json::array({"a"}); }));
}

TEST_F(Reports, AKubeletsRefusalAfterOurOkIsCountedAndCooledDown) {
  Report("a", {});
  Start();
  api::Pod pod;
  pod.metadata.name = "p";
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-p";
  pod.metadata.annotations["numafit.io/placement"] = "{}";
  pod.node_name = "a";
  pod.status.phase = "Pending";
  api::Container container;
  container.name = "main";
  container.resources.limits[test::kGpu] = api::Quantity::FromInt(2);
  pod.containers = {container};
  server_.PutPod(pod);
  EXPECT_TRUE(Soon([this] { return Metrics().find("numafit_fleet_pods 1") != std::string::npos; }));
  pod.status.phase = "Failed";
  pod.status.reason = "TopologyAffinityError";
  server_.PutPod(pod);
  server_.PutPod(pod);
  EXPECT_TRUE(Soon([this] {
    return Metrics().find("numafit_kubelet_refusals_total{reason=\"TopologyAffinityError\"} 1") !=
           std::string::npos;
  }));
  EXPECT_THAT(Fitting(2, {"a"}), IsEmpty());
  EXPECT_EQ(Fitting(3, {"a"}).size(), 1U) << "only the shape that was refused";
}

TEST_F(Reports, WithoutItsAgentANodeCanBeRefused) {
  api::Pod agent;
  agent.metadata.name = "agent-a";
  agent.metadata.namespace_ = "numafit";
  agent.metadata.uid = "uid-agent";
  agent.metadata.labels["app.kubernetes.io/name"] = "numafit-agent";
  agent.node_name = "a";
  agent.status.phase = "Running";
  agent.status.conditions = {{"Ready", "True", ""}};
  server_.PutPod(agent);
  Report("a", {});
  Start([](Config& config) { config.refuse_stale_nodes = true; });
  EXPECT_EQ(Fitting(2, {"a"}).size(), 1U);
  agent.status.conditions = {{"Ready", "False", ""}};
  server_.PutPod(agent);
  EXPECT_TRUE(Soon([this] { return Fitting(2, {"a"}).empty(); }));
  EXPECT_THAT(Metrics(), HasSubstr("numafit_fleet_stale_nodes 1"));
  agent.status.conditions = {{"Ready", "True", ""}};
  server_.PutPod(agent);
  EXPECT_TRUE(Soon([this] { return !Fitting(2, {"a"}).empty(); }));
}

}  // namespace
}  // namespace numafit::extender
