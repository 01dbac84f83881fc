// Quotas of Kueue's ClusterQueues beside what could be placed: the service by itself, and against
// an API server on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "api/resource_class.h"
#include "extender/app.h"
#include "extender/quota_service.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "prometheus/metric_family.h"
#include "test/extender/http/http_client.h"
#include "test/extender/support.h"
#include "test/kube/fake_api_server.h"

namespace numafit::extender {
namespace {

using http::RawClient;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGpu[] = "nvidia.com/gpu";

// One node with 4 + 4 GPUs, and a ClusterQueue with a quota of 16.
class QuotaServiceTest : public ::testing::Test {
 protected:
  QuotaServiceTest() {
    fleet_ = cache::Fleet::FromFile(TestFleet(1), classes_, {}).value();
    api::Node node;
    node.metadata.name = "node-0000";
    setup_.nodes.Upsert(node);
    setup_.flavors["h100"] = {};
    SetQuota(16);
    QuotaService::Options options;
    options.now_ms = [this] { return now_ms_; };
    service_ = std::make_unique<QuotaService>(
        options,
        QuotaService::Source{[this] { return readable_; }, [this] { return setup_; },
                             [] { return std::vector<workloads::QuotaUse>(); }},
        *fleet_, classes_);
  }
  void SetQuota(int gpus) {
    setup_.queues["gpus"].quotas = {
        {.flavor = "h100", .resource = kGpu, .nominal = api::Quantity::FromInt(gpus)}};
  }
  [[nodiscard]] json Read() const { return json::parse(service_->ToJson()); }
  // Of numafit_cluster_queue_quota.
  [[nodiscard]] std::size_t Samples() const {
    std::vector<prometheus::MetricFamily> families;
    QuotaService::AddMetrics(service_.get(), &families);
    return families.at(0).metric.size();
  }

  api::ResourceClasses classes_;
  std::unique_ptr<cache::Fleet> fleet_;
  absl::Status readable_;
  KueueSetup::Snapshot setup_;
  std::int64_t now_ms_ = 1'000;
  std::unique_ptr<QuotaService> service_;
};

TEST_F(QuotaServiceTest, AdvisesEveryHalfMinute) {
  EXPECT_EQ(Read()["state"], "reading");
  EXPECT_EQ(Samples(), 0U);
  service_->Step();
  EXPECT_EQ(Read()["state"], "current");
  EXPECT_EQ(Read()["quotas"][0]["quota"], 16);
  EXPECT_EQ(Read()["quotas"][0]["placeable"], 8);
  EXPECT_EQ(Samples(), 1U);
  SetQuota(4);
  now_ms_ += 29'999;
  service_->Step();
  EXPECT_EQ(Read()["quotas"][0]["quota"], 16);
  now_ms_ += 1;
  service_->Step();
  EXPECT_EQ(Read()["quotas"][0]["quota"], 4);
}

TEST_F(QuotaServiceTest, SaysWhyNothingIsKnown) {
  service_->Step();
  readable_ = absl::PermissionDeniedError("clusterqueues is forbidden");
  service_->Step();
  EXPECT_EQ(Read()["state"], "unreadable");
  EXPECT_EQ(Read()["why"], "clusterqueues is forbidden");
  EXPECT_EQ(Samples(), 0U) << "old numbers are worse than none";
  readable_ = absl::NotFoundError("Kueue is not installed");
  service_->Step();
  EXPECT_EQ(Read()["state"], "no-kueue");
  readable_ = absl::UnavailableError("flavors have not been read yet");
  service_->Step();
  EXPECT_EQ(Read()["state"], "reading");
  // At once, not half a minute later.
  readable_ = absl::OkStatus();
  service_->Step();
  EXPECT_EQ(Read()["state"], "current");
  EXPECT_EQ(Samples(), 1U);
}

class ClusterQueuesTest : public ::testing::Test {
 protected:
  void Start(bool watch_workloads = true) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.read_listen = "127.0.0.1:0";
    config.log_level = LogLevel::kOff;
    config.workers = 2;
    config.watch_workloads = watch_workloads;
    kube::Credentials credentials;
    credentials.server = server_.url();
    App::Overrides overrides;
    overrides.fleet = &fleet_;
    overrides.client = kube::Client::Create(credentials, {}).value();
    overrides.watch_client = true;
    absl::StatusOr<std::unique_ptr<App>> app = App::Start(config, std::move(overrides));
    ASSERT_TRUE(app.ok()) << app.status();
    app_ = *std::move(app);
  }
  static bool Soon(const std::function<bool()>& check) {
    for (int i = 0; i < 1'500; ++i) {
      if (check()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  // Two of three nodes are of the flavor h100.
  void PutKueue() {
    server_.ServeKueue({"v1beta1", "v1beta2"});
    for (int i = 0; i < 3; ++i) {
      api::Node node;
      node.metadata.name = fmt::format("node-{:04}", i);
      node.metadata.labels = {{"kind", i == 0 ? "a100" : "h100"}};
      server_.PutNode(node);
    }
    server_.PutKueueObject("resourceflavors", R"({"metadata": {"name": "h100", "uid": "f"},
                                                  "spec": {"nodeLabels": {"kind": "h100"}}})");
    server_.PutKueueObject("clusterqueues", R"({"metadata": {"name": "gpus", "uid": "q"},
        "spec": {"resourceGroups": [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [
          {"name": "h100", "resources": [{"name": "cpu", "nominalQuota": "64"},
                                         {"name": "nvidia.com/gpu", "nominalQuota": 16}]}]}]}})");
  }
  // Its Pods take three of four devices of a NUMA node each.
  void PutWorkload() {
    const json limits = {{kGpu, "3"}, {"device.gpustack.ai/rdma", "3"}};
    const json pod = {
        {"spec",
         {{"containers", json::array({{{"name", "main"}, {"resources", {{"limits", limits}}}}})}}}};
    json conditions = json::array();
    for (const char* type : {"QuotaReserved", "Admitted"}) {
      conditions.push_back(
          {{"type", type}, {"status", "True"}, {"lastTransitionTime", "2026-11-30T09:00:00Z"}});
    }
    const json assignment = {
        {"name", "main"}, {"count", 2}, {"flavors", {{"cpu", "h100"}, {kGpu, "h100"}}}};
    server_.PutWorkload(json{
        {"metadata", {{"name", "job-a"}, {"namespace", "default"}, {"uid", "w"}}},
        {"spec",
         {{"queueName", "q"},
          {"podSets", json::array({{{"name", "main"}, {"count", 2}, {"template", pod}}})}}},
        {"status",
         {{"admission",
           {{"clusterQueue", "gpus"}, {"podSetAssignments", json::array({assignment})}}},
          {"conditions",
           conditions}}}}.dump());
  }

  json Queues() { return json::parse(RawClient(app_->read_port()).Get("/v1/cluster-queues").body); }
  std::string Metrics() { return RawClient(app_->read_port()).Get("/metrics").body; }

  kube_testing::FakeApiServer server_;
  cache::FleetFile fleet_ = TestFleet(3);
  std::unique_ptr<App> app_;
};

TEST_F(ClusterQueuesTest, QuotaAndWhatCouldBePlaced) {
  PutKueue();
  PutWorkload();
  Start();
  ASSERT_TRUE(Soon([this] { return Queues()["state"] == "current"; })) << Queues();
  const json answer = Queues();
  ASSERT_EQ(answer["quotas"].size(), 1U) << answer;
  const json& quota = answer["quotas"][0];
  EXPECT_EQ(quota["clusterQueue"], "gpus");
  EXPECT_EQ(quota["flavor"], "h100");
  EXPECT_EQ(quota["quota"], 16);
  EXPECT_EQ(quota["nodes"], 2);
  EXPECT_EQ(quota["devices"], 16);
  EXPECT_EQ(quota["placeable"], 12);
  EXPECT_EQ(quota["shapes"][0]["workload"], "default/job-a");
  EXPECT_EQ(quota["shapes"][0]["pods"], 2);
  const std::string labels = R"({cluster_queue="gpus",flavor="h100",resource="nvidia.com/gpu"})";
  EXPECT_THAT(Metrics(), AllOf(HasSubstr("numafit_cluster_queue_quota" + labels + " 16\n"),
                               HasSubstr("numafit_cluster_queue_placeable" + labels + " 12\n")));
}

TEST_F(ClusterQueuesTest, WithoutTheRightEverythingElseGoesOn) {
  PutKueue();
  PutWorkload();
  server_.Forbid({"/clusterqueues"});
  Start();
  ASSERT_TRUE(Soon([this] { return Queues()["state"] == "unreadable"; })) << Queues();
  EXPECT_THAT(Queues()["why"].get<std::string>(), HasSubstr("forbidden"));
  EXPECT_THAT(Metrics(), Not(HasSubstr("numafit_cluster_queue_quota{")));
  EXPECT_TRUE(app_->ready());
  EXPECT_TRUE(Soon([this] {
    return json::parse(RawClient(app_->read_port()).Get("/v1/workloads?all=true").body)["workloads"]
               .size() == 1;
  }));
  // The right is given.
  server_.Forbid({});
  EXPECT_TRUE(Soon([this] { return Queues()["state"] == "current"; })) << Queues();
}

TEST_F(ClusterQueuesTest, ChecksAreNotNeeded) {
  PutKueue();
  server_.Forbid({"/admissionchecks"});
  Start();
  EXPECT_TRUE(Soon([this] { return Queues()["state"] == "current"; })) << Queues();
  EXPECT_EQ(Queues()["quotas"][0]["placeable"], 16) << "nobody holds quota";
}

TEST_F(ClusterQueuesTest, WithoutKueueThereIsNothingToSay) {
  Start();
  ASSERT_TRUE(Soon([this] { return Queues()["state"] == "no-kueue"; })) << Queues();
  EXPECT_EQ(Queues()["quotas"], json::array());
  app_.reset();
  Start(/*watch_workloads=*/false);
  EXPECT_EQ(RawClient(app_->read_port()).Get("/v1/cluster-queues").status, 404);
}

}  // namespace
}  // namespace numafit::extender
