// The service with NodeResourceTopology objects as its second source, against an API server on
// loopback.
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
using Names = std::vector<std::string>;

class TopologySyncTest : public ::testing::Test {
 protected:
  void Start(bool with_counts = true) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.read_listen = "127.0.0.1:0";
    config.log_level = LogLevel::kOff;
    config.workers = 2;
    config.inventory_from_reports = true;
    config.node_resource_topology = with_counts;
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

  void PutNode(const std::string& name) {
    api::Node node;
    node.metadata.name = name;
    node.kubelet_version = "v1.36.3";
    node.allocatable[test::kGpu] = api::Quantity::FromInt(8);
    server_.PutNode(node);
  }
  // Free GPUs of two NUMA nodes with four each.
  void PutCounts(const std::string& name, int numa0, int numa1) {
    json zones = json::array();
    for (const int free : {numa0, numa1}) {
      const json gpus = {{"name", test::kGpu},
                         {"capacity", "4"},
                         {"allocatable", "4"},
                         {"available", std::to_string(free)}};
      zones.push_back({{"name", "node-" + std::to_string(zones.size())},
                       {"type", "Node"},
                       {"resources", json::array({gpus})}});
    }
    const json policy = {{"name", "topologyManagerPolicy"}, {"value", "single-numa-node"}};
    const json scope = {{"name", "topologyManagerScope"}, {"value", "pod"}};
    const json object = {{"metadata", {{"name", name}}},
                         {"attributes", json::array({policy, scope})},
                         {"zones", zones}};
    server_.ServeNodeResourceTopologies(true);
    server_.PutNodeResourceTopology(object.dump());
  }
  Names Fitting(int gpus, const Names& names) {
    const auto response =
        RawClient(app_->port()).Post("/filter", ArgsJson(PodJson("asks", gpus, 0), names));
    return json::parse(response.body)["NodeNames"].get<Names>();
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
  std::unique_ptr<App> app_;
};

TEST_F(TopologySyncTest, WithoutTheDefinitionItIsReadyAllTheSame) {
  Start();
  EXPECT_GE(server_.CountRequests("GET", "noderesourcetopologies"), 1);
  EXPECT_THAT(Metrics(), HasSubstr("numafit_watch_interruptions_total 0"));
}

TEST_F(TopologySyncTest, NobodyAsksForThemUnlessTold) {
  PutCounts("a", 4, 4);
  Start(/*with_counts=*/false);
  EXPECT_EQ(server_.CountRequests("GET", "noderesourcetopologies"), 0);
  EXPECT_EQ(server_.CountRequests("GET", "/api/v1/nodes?"), 0);
}

TEST_F(TopologySyncTest, CountsJudgeUntilAReportComes) {
  PutNode("a");
  PutCounts("a", 1, 3);
  Start();
  EXPECT_EQ(Fitting(3, {"a"}), Names{"a"});
  EXPECT_EQ(Fitting(4, {"a"}), Names{});
  EXPECT_THAT(Metrics(), HasSubstr("numafit_fleet_nodes_by_source{source=\"counts\"} 1"));
  PutCounts("a", 1, 4);
  EXPECT_TRUE(Soon([this] { return Fitting(4, {"a"}) == Names{"a"}; }));
  PutCounts("a", 0, 0);
  EXPECT_TRUE(Soon([this] { return Fitting(1, {"a"}).empty(); }));
  api::NodeReport report;
  report.metadata.name = "a";
  report.status =
      std::make_shared<v1alpha1::NodeReportStatus>(test::ReportOf(test::SpecOf(test::kEven)));
  server_.PutNodeReport(api::NodeReportToJson(report));
  EXPECT_TRUE(Soon([this] { return Fitting(4, {"a"}) == Names{"a"}; }));
  EXPECT_THAT(Metrics(), HasSubstr("numafit_fleet_nodes_by_source{source=\"reports\"} 1"));
  server_.DeleteNodeReport("a");
  EXPECT_TRUE(Soon([this] { return Fitting(1, {"a"}).empty(); }));
  server_.DeleteNodeResourceTopology("a");
  // Nothing is known of it, and no Pod is there: it is none.
  EXPECT_TRUE(Soon([this] {
    return Metrics().find("numafit_fleet_nodes_by_source{source=\"counts\"} 0") !=
           std::string::npos;
  }));
  for (const char* sample :
       {"numafit_fleet_nodes 0\n", "numafit_fleet_nodes_by_source{source=\"none\"} 0\n",
        "numafit_watch_broken_seconds{watch=\"nodes\"} 0\n",
        "numafit_watch_broken_seconds{watch=\"pods\"} 0\n",
        "numafit_watch_broken_seconds{watch=\"reports\"} 0\n",
        "numafit_watch_broken_seconds{watch=\"node-resource-topologies\"} 0\n"}) {
    EXPECT_THAT(Metrics(), HasSubstr(sample));
  }
}

TEST_F(TopologySyncTest, AnObjectCountsOnceItsNodeIsKnown) {
  PutCounts("a", 4, 4);
  Start();
  EXPECT_EQ(Fitting(1, {"a"}), Names{});
  PutNode("a");
  EXPECT_TRUE(Soon([this] { return Fitting(4, {"a"}) == Names{"a"}; }));
  const auto applied = [this] {
    return Metrics().find("numafit_node_resource_topologies_total{result=\"applied\"} 1") !=
           std::string::npos;
  };
  PutNode("a");  // nothing that matters has changed
  PutNode("b");
  EXPECT_TRUE(applied());
}

TEST_F(TopologySyncTest, WhatCannotBeRightIsCountedAndChangesNothing) {
  PutNode("a");
  PutCounts("a", 4, 4);
  Start();
  server_.PutNodeResourceTopology(R"({"metadata": {"name": "a"}, "zones": []})");
  EXPECT_TRUE(Soon([this] {
    return Metrics().find("numafit_node_resource_topologies_total{result=\"invalid\"} 1") !=
           std::string::npos;
  }));
  EXPECT_EQ(Fitting(4, {"a"}), Names{"a"});
}

}  // namespace
}  // namespace numafit::extender
