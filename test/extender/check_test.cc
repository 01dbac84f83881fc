// The controller of the AdmissionCheck, against an API server on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "extender/app.h"
#include "test/extender/http/http_client.h"
#include "test/extender/support.h"
#include "test/kube/fake_api_server.h"

namespace numafit::extender {
namespace {

using http::RawClient;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kTime[] = "2026-11-30T09:00:00Z";

// One node, node-0000, with 4 + 4 GPUs and 4 + 4 endpoints.
class CheckTest : public ::testing::Test {
 protected:
  CheckTest() {
    server_.ServeKueue({"v1beta1", "v1beta2"});
    api::Node node;
    node.metadata.name = "node-0000";
    server_.PutNode(node);
    PutCheck("topology");
  }
  void Start(bool enabled = true) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.read_listen = "127.0.0.1:0";
    config.log_level = LogLevel::kOff;
    config.workers = 2;
    config.admission_check = enabled;
    kube::Credentials credentials;
    credentials.server = server_.url();
    App::Overrides overrides;
    overrides.fleet = &fleet_;
    overrides.client = kube::Client::Create(credentials, {}).value();
    overrides.watch_client = true;
    app_ = App::Start(config, std::move(overrides)).value();
    ASSERT_TRUE(Soon([this] { return app_->ready(); }));
  }
  static bool Soon(const std::function<bool()>& check) {
    for (int i = 0; i < 1'500; ++i) {
      if (check()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  void PutCheck(const std::string& name,
                const std::string& controller = "numafit.io/topology-capacity") {
    server_.PutKueueObject("admissionchecks",
                           json{{"metadata", {{"name", name}, {"generation", 1}}},
                                {"spec", {{"controllerName", controller}}}}
                               .dump());
  }
  // Holds quota, and waits for two checks.
  void PutWorkload(const std::string& name, int pods, const char* ours = "Pending",
                   bool admitted = false) {
    const json limits = {{"nvidia.com/gpu", "4"}, {"device.gpustack.ai/rdma", "4"}};
    const json pod = {
        {"spec",
         {{"containers", json::array({{{"name", "main"}, {"resources", {{"limits", limits}}}}})}}}};
    json conditions = json::array(
        {{{"type", "QuotaReserved"}, {"status", "True"}, {"lastTransitionTime", kTime}}});
    if (admitted) {
      conditions.push_back(
          {{"type", "Admitted"}, {"status", "True"}, {"lastTransitionTime", kTime}});
    }
    const auto entry = [](const char* check, const char* state) {
      return json{
          {"name", check}, {"state", state}, {"message", ""}, {"lastTransitionTime", kTime}};
    };
    server_.PutWorkload(
        json{{"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-of-" + name}}},
             {"spec",
              {{"queueName", "q"},
               {"podSets", json::array({{{"name", "main"}, {"count", pods}, {"template", pod}}})}}},
             {"status",
              {{"admission",
                {{"clusterQueue", "gpus"},
                 {"podSetAssignments", json::array({{{"name", "main"}, {"count", pods}}})}}},
               {"conditions", conditions},
               {"admissionChecks",
                json::array({entry("topology", ours), entry("somebody-elses", "Pending")})}}}}
            .dump());
  }
  json Entry(const std::string& workload, int index = 0) {
    const json object =
        json::parse(server_.FindKueueObject("workloads", "default/" + workload).value_or("{}"));
    return object.at("status").at("admissionChecks").at(static_cast<std::size_t>(index));
  }
  std::string StateOf(const std::string& workload) { return Entry(workload)["state"]; }
  std::string MessageOf(const std::string& workload) { return Entry(workload)["message"]; }
  json ActiveOf(const std::string& check) {
    const json object = json::parse(server_.FindKueueObject("admissionchecks", check).value());
    const json none = json::object();
    if (!object.contains("status")) return none;
    return object["status"]["conditions"].at(0);
  }
  void RunPod(const std::string& name, const std::string& workload) {
    api::Pod pod;
    pod.metadata.name = name;
    pod.metadata.namespace_ = "default";
    pod.metadata.uid = "uid-" + name;
    pod.metadata.creation_time = 1'796'029'201;
    pod.metadata.annotations["kueue.x-k8s.io/workload"] = workload;
    api::Container& container = pod.containers.emplace_back();
    container.name = "main";
    container.resources.limits["nvidia.com/gpu"] = api::Quantity::FromInt(4);
    container.resources.limits["device.gpustack.ai/rdma"] = api::Quantity::FromInt(4);
    pod.node_name = "node-0000";
    pod.status.phase = "Running";
    pod.status.container_statuses = 1;
    server_.PutPod(pod);
  }
  std::string Metrics() { return RawClient(app_->read_port()).Get("/metrics").body; }

  kube_testing::FakeApiServer server_;
  cache::FleetFile fleet_ = TestFleet(1);
  std::unique_ptr<App> app_;
};

TEST_F(CheckTest, OneOfTwoThatDoNotFitTogetherGoes) {
  PutWorkload("a", 2);
  PutWorkload("b", 1);
  Start();
  ASSERT_TRUE(Soon([this] { return ActiveOf("topology").value("status", "") == "True"; }));
  ASSERT_TRUE(Soon([this] { return StateOf("a") == "Ready" && !MessageOf("b").empty(); }));
  EXPECT_EQ(StateOf("b"), "Pending");
  EXPECT_THAT(MessageOf("b"), HasSubstr("0 of 1 Pods of PodSet main would find a place; 2 Pods of "
                                        "1 other Workloads are on their way"));
  EXPECT_EQ(Entry("a", 1)["state"], "Pending") << "not ours";
  EXPECT_EQ(Entry("a", 1)["message"], "");
  EXPECT_THAT(Metrics(), HasSubstr("numafit_admission_check_verdicts_total{result=\"ready\"} 1"));
  EXPECT_THAT(Metrics(), HasSubstr("numafit_admission_check_waiting_workloads 1"));

  // The extender is gone and comes back before a's Pods exist: a's Ready is still a promise.
  app_.reset();
  Start();
  PutWorkload("c", 1);
  ASSERT_TRUE(Soon([this] { return !MessageOf("c").empty(); }));
  EXPECT_EQ(StateOf("b"), "Pending");
  EXPECT_EQ(StateOf("c"), "Pending");

  // a is admitted, and its Pods run.
  PutWorkload("a", 2, "Ready", /*admitted=*/true);
  RunPod("a-0", "a");
  RunPod("a-1", "a");
  ASSERT_TRUE(Soon([this] {
    return MessageOf("b").find("accelerators-exhausted: wants 4 gpu; none is free") !=
           std::string::npos;
  })) << MessageOf("b");
  // It ends: there is room for both.
  server_.DeleteWorkload("default", "a");
  server_.DeletePod("default", "a-0");
  server_.DeletePod("default", "a-1");
  ASSERT_TRUE(Soon([this] { return StateOf("b") == "Ready" && StateOf("c") == "Ready"; }));
}

TEST_F(CheckTest, AnAnswerThatIsLostIsNotAPromiseForgotten) {
  PutWorkload("a", 2);
  Start();
  ASSERT_TRUE(Soon([this] { return StateOf("a") == "Ready"; }));
  // Kueue resets it; the next writes fail, without saying whether they were taken.
  server_.FailNext(3, 500);
  PutWorkload("a", 2);
  PutWorkload("b", 1);
  ASSERT_TRUE(Soon([this] { return StateOf("a") == "Ready"; }));
  EXPECT_EQ(StateOf("b"), "Pending");
}

TEST_F(CheckTest, ForeignChecksAndAdmittedWorkloadsAreNotTouched) {
  PutCheck("somebody-elses", "example.com/budget");
  PutWorkload("a", 9, "Pending", /*admitted=*/true);
  PutWorkload("b", 1, "Pending");
  Start();
  ASSERT_TRUE(Soon([this] { return !MessageOf("b").empty(); }));
  EXPECT_EQ(MessageOf("a"), "") << "its entry is as Kueue has left it";
  EXPECT_EQ(ActiveOf("somebody-elses"), json::object());
}

TEST_F(CheckTest, ActiveSaysWhatIsWrong) {
  json check = {{"metadata", {{"name", "topology"}, {"generation", 2}}},
                {"spec",
                 {{"controllerName", "numafit.io/topology-capacity"},
                  {"parameters", {{"kind", "X"}, {"name", "x"}}}}}};
  server_.PutKueueObject("admissionchecks", check.dump());
  Start();
  ASSERT_TRUE(Soon([this] { return ActiveOf("topology").value("status", "") == "False"; }));
  EXPECT_EQ(ActiveOf("topology")["reason"], "BadParametersRef");
  EXPECT_EQ(ActiveOf("topology")["observedGeneration"], 2);
  check["spec"].erase("parameters");
  check["metadata"]["generation"] = 3;
  server_.PutKueueObject("admissionchecks", check.dump());
  ASSERT_TRUE(Soon([this] { return ActiveOf("topology").value("status", "") == "True"; }));
  EXPECT_EQ(ActiveOf("topology")["observedGeneration"], 3);
}

TEST_F(CheckTest, OffByDefault) {
  PutWorkload("a", 1);
  Start(/*enabled=*/false);
  ASSERT_TRUE(Soon([this] { return server_.CountRequests("GET", "v1beta2/workloads") > 0; }));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(server_.CountRequests("PATCH", ""), 0);
  EXPECT_FALSE(Config().admission_check);
}

}  // namespace
}  // namespace numafit::extender
