// The service with Kueue, against an API server on loopback: from a Workload that is admitted to
// what people are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "extender/app.h"
#include "nlohmann/json.hpp"
#include "test/extender/http/http_client.h"
#include "test/extender/support.h"
#include "test/kube/fake_api_server.h"

namespace numafit::extender {
namespace {

using http::RawClient;
using nlohmann::json;
using ::testing::HasSubstr;

class WorkloadsTest : public ::testing::Test {
 protected:
  // One node with 4 + 4 GPUs and 4 + 4 endpoints.
  void Start() {
    Config config;
    config.listen = "127.0.0.1:0";
    config.read_listen = "127.0.0.1:0";
    config.log_level = LogLevel::kOff;
    config.workers = 2;
    kube::Credentials credentials;
    credentials.server = server_.url();
    App::Overrides overrides;
    overrides.fleet = &fleet_;
    overrides.client = kube::Client::Create(credentials, {}).value();
    overrides.watch_client = true;
    absl::StatusOr<std::unique_ptr<App>> app = App::Start(config, std::move(overrides));
    ASSERT_TRUE(app.ok()) << app.status();
    app_ = *std::move(app);
    ASSERT_TRUE(Soon([this] { return app_->ready(); }));
  }

  static bool Soon(const std::function<bool()>& check) {
    for (int i = 0; i < 1'500; ++i) {
      if (check()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  void PutWorkload(const std::string& name, bool evicted = false) {
    const json limits = {{"nvidia.com/gpu", "2"}, {"device.gpustack.ai/rdma", "2"}};
    const json pod = {
        {"spec",
         {{"containers", json::array({{{"name", "main"}, {"resources", {{"limits", limits}}}}})}}}};
    json conditions = json::array();
    for (const char* type : {"QuotaReserved", "Admitted"}) {
      conditions.push_back(
          {{"type", type}, {"status", "True"}, {"lastTransitionTime", "2026-11-30T09:00:00Z"}});
    }
    if (evicted) conditions.push_back({{"type", "Evicted"}, {"status", "True"}});
    server_.PutWorkload(json{
        {"metadata",
         {{"name", name},
          {"namespace", "default"},
          {"uid", "uid-of-" + name},
          {"ownerReferences", json::array({{{"kind", "Job"}, {"uid", "job"}}})}}},
        {"spec",
         {{"queueName", "q"},
          {"podSets", json::array({{{"name", "main"}, {"count", 1}, {"template", pod}}})}}},
        {"status",
         {{"admission",
           {{"clusterQueue", "gpus"},
            {"podSetAssignments", json::array({{{"name", "main"}, {"count", 1}}})}}},
          {"conditions",
           conditions}}}}.dump());
  }

  // Takes all endpoints of the node.
  void FillEndpoints() {
    for (const char* name : {"a", "b"}) {
      api::Pod pod = ParsePod(name, 0, 4);
      pod.node_name = "node-0000";
      pod.status.phase = "Running";
      pod.status.container_statuses = 1;
      server_.PutPod(pod);
    }
  }
  static api::Pod ParsePod(const std::string& name, int gpus, int endpoints) {
    api::Pod pod;
    pod.metadata.name = name;
    pod.metadata.namespace_ = "default";
    pod.metadata.uid = "uid-" + name;
    pod.metadata.creation_time = 1796029201;
    api::Container& container = pod.containers.emplace_back();
    container.name = "main";
    if (gpus > 0) container.resources.limits["nvidia.com/gpu"] = api::Quantity::FromInt(gpus);
    container.resources.limits["device.gpustack.ai/rdma"] = api::Quantity::FromInt(endpoints);
    pod.status.phase = "Pending";
    return pod;
  }
  void PutWaiting() {
    api::Pod pod = ParsePod("w", 2, 2);
    pod.metadata.annotations["kueue.x-k8s.io/workload"] = "job-a";
    PutTried(std::move(pod));
  }
  // Of a ReplicaSet-like object that belongs to the Workload's owner.
  void PutWaitingOfChild() {
    api::Pod pod = ParsePod("w", 2, 2);
    pod.metadata.owners.push_back({.kind = "Child",
                                   .name = "c",
                                   .uid = "child",
                                   .controller = true,
                                   .api_version = "lab/v1"});
    PutTried(std::move(pod));
  }
  void PutTried(api::Pod pod) {
    pod.status.conditions = {{.type = "PodScheduled",
                              .status = "False",
                              .reason = "Unschedulable",
                              .message = "0/1 nodes are available: 1 Insufficient rdma."}};
    server_.PutPod(pod);
  }

  json Workloads(const std::string& query = "") {
    return json::parse(RawClient(app_->read_port()).Get("/v1/workloads" + query).body);
  }
  std::string Metrics() { return RawClient(app_->read_port()).Get("/metrics").body; }

  kube_testing::FakeApiServer server_;
  cache::FleetFile fleet_ = TestFleet(1);
  std::unique_ptr<App> app_;
};

TEST_F(WorkloadsTest, FromAdmittedToFlaggedToPlaced) {
  server_.ServeKueue({"v1beta1", "v1beta2"});
  FillEndpoints();
  PutWorkload("job-a");
  PutWaiting();
  Start();
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 1; }));
  EXPECT_GT(server_.CountRequests("GET", "v1beta2/workloads"), 0);
  EXPECT_EQ(server_.CountRequests("GET", "v1beta1/workloads"), 0);
  const json one = Workloads()["workloads"][0];
  EXPECT_EQ(one["cause"], "endpoints-exhausted");
  EXPECT_EQ(one["why"], "wants 2 rdma; none is free");
  EXPECT_EQ(one["accelerators"], 2);
  EXPECT_THAT(Metrics(), HasSubstr("numafit_workloads_unplaceable{cause=\"endpoints-exhausted\","
                                   "cluster_queue=\"gpus\"} 1"));
  EXPECT_THAT(Metrics(),
              HasSubstr("numafit_workloads_unplaceable_accelerators{cluster_queue=\"gpus\"} 2"));
  EXPECT_THAT(Metrics(), HasSubstr("numafit_workload_pods{state=\"unschedulable\"} 1"));
  EXPECT_THAT(Metrics(), HasSubstr("numafit_workload_flag_seconds_count 1"));
  ASSERT_TRUE(Soon([this] { return server_.events().size() == 1; }));
  const json event = json::parse(server_.events()[0]);
  EXPECT_EQ(event["reason"], "Unplaceable");
  EXPECT_EQ(event["regarding"]["kind"], "Workload");
  EXPECT_EQ(event["regarding"]["apiVersion"], "kueue.x-k8s.io/v1beta2");
  EXPECT_THAT(event["note"].get<std::string>(),
              HasSubstr("endpoints-exhausted: wants 2 rdma; none is free; 2 accelerators of "
                        "ClusterQueue gpus are held meanwhile"));
  EXPECT_EQ(Workloads("?name=default/job-a")["workloads"].size(), 1U);
  EXPECT_EQ(RawClient(app_->read_port()).Get("/v1/workloads?name=default/none").status, 404);

  // After a restart of ours it is flagged, and not told again.
  app_.reset();
  Start();
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 1; }));
  // Endpoints are given back, and the Pod finds its place.
  server_.DeletePod("default", "a");
  api::Pod placed = ParsePod("w", 2, 2);
  placed.metadata.annotations["kueue.x-k8s.io/workload"] = "job-a";
  placed.node_name = "node-0000";
  server_.PutPod(placed);
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 0; }));
  EXPECT_EQ(server_.events().size(), 1U);
}

constexpr char kLabKinds[] =
    R"({"resources": [{"name": "children", "namespaced": true, "kind": "Child"}]})";
constexpr char kChildPath[] = "/apis/lab/v1/namespaces/default/children/c";

TEST_F(WorkloadsTest, ThePodsOfAnOwnersOwnerAreFound) {
  server_.ServeKueue({"v1beta2"});
  server_.PutDocument("/apis/lab/v1", kLabKinds);
  server_.PutDocument(kChildPath, R"({"metadata": {"name": "c", "uid": "child", "ownerReferences": [
      {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "job", "controller": true}]}})");
  FillEndpoints();
  PutWorkload("job-a");
  PutWaitingOfChild();
  Start();
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 1; }));
  EXPECT_EQ(Workloads()["workloads"][0]["cause"], "endpoints-exhausted");
  EXPECT_EQ(server_.CountRequests("GET", kChildPath), 1);
  EXPECT_EQ(server_.CountRequests("GET", "/jobs/"), 0) << "the Workload's owner is known";
}

TEST_F(WorkloadsTest, AnOwnerThatMustNotBeReadIsAskedForOnce) {
  server_.ServeKueue({"v1beta2"});
  server_.PutDocument("/apis/lab/v1", kLabKinds);
  server_.PutDocument(kChildPath, "no right", 403);
  FillEndpoints();
  PutWorkload("job-a");
  PutWaitingOfChild();
  Start();
  ASSERT_TRUE(Soon([this] { return server_.CountRequests("GET", kChildPath) == 1; }));
  // The Workload lacks its Pod, so there are rounds; these Pods are nobody's.
  PutWorkload("job-b");
  ASSERT_TRUE(Soon([this] { return Workloads("?all=true")["workloads"].size() == 2U; }));
  server_.DeleteWorkload("default", "job-b");
  ASSERT_TRUE(Soon([this] { return Workloads("?all=true")["workloads"].size() == 1U; }));
  EXPECT_EQ(server_.CountRequests("GET", kChildPath), 1);
  EXPECT_EQ(Workloads("?all=true")["workloads"][0]["missing"], 1);
}

TEST_F(WorkloadsTest, AnApiServerThatFailsIsAskedAgainForAnOwner) {
  server_.ServeKueue({"v1beta2"});
  server_.PutDocument("/apis/lab/v1", kLabKinds);
  server_.PutDocument(kChildPath, "too busy", 503);
  FillEndpoints();
  PutWorkload("job-a");
  PutWaitingOfChild();
  Start();
  ASSERT_TRUE(Soon([this] { return server_.CountRequests("GET", kChildPath) >= 1; }));
  server_.PutDocument(kChildPath, R"({"metadata": {"name": "c", "uid": "child", "ownerReferences": [
      {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "job", "controller": true}]}})");
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 1; }));
}

TEST_F(WorkloadsTest, AnEvictedWorkloadIsNotFlagged) {
  server_.ServeKueue({"v1beta1"});
  FillEndpoints();
  PutWorkload("job-a");
  PutWaiting();
  Start();
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 1; }));
  EXPECT_GT(server_.CountRequests("GET", "v1beta1/workloads"), 0) << "all that this Kueue has";
  PutWorkload("job-a", /*evicted=*/true);
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 0; }));
  EXPECT_EQ(Workloads("?all=true")["workloads"][0]["phase"], "evicted");
  server_.DeleteWorkload("default", "job-a");
  ASSERT_TRUE(Soon([this] { return Workloads("?all=true")["workloads"].empty(); }));
}

TEST_F(WorkloadsTest, AnObjectThatCannotBeReadHidesNoOther) {
  server_.ServeKueue({"v1beta2"});
  FillEndpoints();
  server_.PutWorkload(
      R"({"metadata": {"name": "odd", "namespace": "default", "uid": "o"}, "spec": 7})");
  PutWorkload("job-a");
  PutWaiting();
  Start();
  ASSERT_TRUE(Soon([this] { return Workloads()["unplaceable"] == 1; }));
  EXPECT_EQ(Workloads("?all=true")["workloads"].size(), 1U);
}

TEST_F(WorkloadsTest, WithoutKueueNothingIsMissing) {
  FillEndpoints();
  Start();
  EXPECT_EQ(Workloads()["unplaceable"], 0);
  ASSERT_TRUE(Soon([this] { return server_.CountRequests("GET", "/apis/kueue.x-k8s.io") >= 1; }));
  EXPECT_EQ(server_.CountRequests("GET", "/workloads"), 0);
}

}  // namespace
}  // namespace numafit::extender
