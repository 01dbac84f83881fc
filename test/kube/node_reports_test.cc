#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/node_report.pb.h"
#include "kube/client.h"
#include "test/api/node_reports.h"
#include "test/kube/fake_api_server.h"
#include "test/kube/recorder.h"

namespace numafit::kube {
namespace {

using kube_testing::FakeApiServer;
using kube_testing::Recorder;
using nlohmann::json;

api::NodeReport Report(int generation, const std::string& boot = "boot-1",
                       const std::string& name = "n1") {
  v1alpha1::NodeReportStatus status = api_testing::SampleReport();
  status.set_generation(generation);
  status.set_boot_id(boot);
  status.set_node_name(name);
  api::NodeReport report;
  report.metadata.name = name;
  report.status = std::make_shared<v1alpha1::NodeReportStatus>(status);
  return report;
}

class NodeReportsTest : public testing::Test {
 protected:
  NodeReportsTest() {
    Credentials credentials;
    credentials.server = server_.url();
    client_ = *Client::Create(credentials, {});
  }
  int Writes() { return server_.CountRequests("POST", "/") + server_.CountRequests("PUT", "/"); }
  json Stored(const std::string& name = "n1") {
    return json::parse(server_.FindNodeReport(name).value_or("null"));
  }
  // Until a stream is open, so that what follows reaches it as an event.
  void WaitForStream() {
    while (server_.open_watches() == 0) std::this_thread::yield();
  }
  void Start() {
    WatchOptions options;
    options.backoff_initial_ms = 5;
    options.backoff_max_ms = 40;
    options.page_size = 2;
    watch_ = WatchNodeReports(*client_, options, recorder_.Handlers());
  }

  FakeApiServer server_;
  std::unique_ptr<Client> client_;
  Recorder<api::NodeReport> recorder_;
  std::unique_ptr<Watch> watch_;
};

TEST_F(NodeReportsTest, TheFirstIsCreatedTheNextReplacesIt) {
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  EXPECT_EQ(server_.CountRequests("POST", "/nodereports?"), 1);
  EXPECT_EQ(Stored()["kind"], "NodeReport");
  const absl::Status status = client_->ApplyNodeReport(Report(2));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(server_.CountRequests("PUT", "/nodereports/n1?"), 1);
  EXPECT_EQ(Stored()["status"]["generation"], 2);
  const auto read = client_->GetNodeReport("n1");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(api::NodeReportStatusToJson(*read->status),
            api::NodeReportStatusToJson(*Report(2).status));
}

TEST_F(NodeReportsTest, TheSameAgainWritesNothing) {
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  EXPECT_EQ(Writes(), 1);
}

TEST_F(NodeReportsTest, WhatOthersPutIntoTheMetadataStays) {
  server_.PutNodeReport(R"({"metadata": {"name": "n1", "uid": "u1", "labels": {"team": "a"},
      "ownerReferences": [{"kind": "Node", "name": "n1"}]}, "status": {}})");
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  const json stored = Stored();
  EXPECT_EQ(stored["metadata"]["labels"]["team"], "a");
  EXPECT_EQ(stored["metadata"]["uid"], "u1");
  EXPECT_EQ(stored["metadata"]["ownerReferences"].size(), 1U);
  EXPECT_EQ(stored["status"]["generation"], 1);
}

TEST_F(NodeReportsTest, ItBelongsToTheNodeThatIsThereNow) {
  const auto owned = [](int generation, const std::string& uid) {
    api::NodeReport report = Report(generation);
    report.metadata.owners = {{.kind = "Node", .name = "n1", .uid = uid, .api_version = "v1"}};
    return report;
  };
  ASSERT_TRUE(client_->ApplyNodeReport(owned(1, "uid-1")).ok());
  EXPECT_EQ(Stored()["metadata"]["ownerReferences"],
            json::parse(R"([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}])"));
  ASSERT_TRUE(client_->ApplyNodeReport(owned(1, "uid-1")).ok());
  EXPECT_EQ(Writes(), 1);
  // The Node was made anew; what others have put there stays.
  json stored = Stored();
  stored["metadata"]["ownerReferences"].push_back(
      {{"apiVersion", "example.com/v1"}, {"kind", "Rack"}, {"name", "r"}, {"uid", "u"}});
  server_.PutNodeReport(stored.dump());
  ASSERT_TRUE(client_->ApplyNodeReport(owned(2, "uid-2")).ok());
  const json owners = Stored()["metadata"]["ownerReferences"];
  ASSERT_EQ(owners.size(), 2U) << owners;
  EXPECT_EQ(owners[0]["kind"], "Rack");
  EXPECT_EQ(owners[1]["uid"], "uid-2");
  // Without one nothing is taken away.
  ASSERT_TRUE(client_->ApplyNodeReport(Report(3)).ok());
  EXPECT_EQ(Stored()["metadata"]["ownerReferences"], owners);
}

TEST_F(NodeReportsTest, AnOlderOneDoesNotReplaceANewerOneOfTheSameBoot) {
  ASSERT_TRUE(client_->ApplyNodeReport(Report(7)).ok());
  const absl::Status status = client_->ApplyNodeReport(Report(6));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(
      std::string(status.message()),
      "nodereports \"n1\": generation 7 of this boot is stored, so generation 6 is not newer");
  // Two agents that count alike: the later one learns of it.
  api::NodeReport other = Report(7);
  auto changed = *other.status;
  changed.set_agent_version("another");
  other.status = std::make_shared<v1alpha1::NodeReportStatus>(changed);
  EXPECT_TRUE(absl::IsAborted(client_->ApplyNodeReport(other)));
  EXPECT_EQ(Stored()["status"]["generation"], 7);
  EXPECT_EQ(Writes(), 1);
  // After a reboot counting begins anew.
  EXPECT_TRUE(client_->ApplyNodeReport(Report(1, "boot-2")).ok());
  EXPECT_EQ(Stored()["status"]["bootId"], "boot-2");
}

TEST_F(NodeReportsTest, AnUnreadableOneIsReplaced) {
  server_.PutNodeReport(R"({"metadata": {"name": "n1"}, "status": {"generation": "x"}})");
  EXPECT_TRUE(absl::IsInvalidArgument(client_->GetNodeReport("n1").status()));
  EXPECT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  EXPECT_EQ(Stored()["status"]["generation"], 1);
}

TEST_F(NodeReportsTest, WhenAnotherWritesFirstItLooksAgain) {
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  int calls = 0;
  server_.BeforeWrite([&] {
    if (++calls == 1) {
      server_.PutNodeReport(R"({"metadata": {"name": "n1", "labels": {"a": "b"}},
          "status": {"bootId": "boot-1", "generation": 2}})");
    }
  });
  const absl::Status status = client_->ApplyNodeReport(Report(3));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(Stored()["status"]["generation"], 3);
  EXPECT_EQ(Stored()["metadata"]["labels"]["a"], "b");
  // Only the first look may be answered from memory.
  EXPECT_EQ(server_.CountRequests("GET", "/nodereports/n1?resourceVersion=0"), 2);
  EXPECT_EQ(server_.CountRequests("GET", "/nodereports/n1?"), 3);
}

TEST_F(NodeReportsTest, WhenItIsMadeOrGoneMeanwhileItLooksAgain) {
  int calls = 0;
  server_.BeforeWrite([&] {
    if (++calls == 1) server_.PutNodeReport(R"({"metadata": {"name": "n1"}, "status": {}})");
  });
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  EXPECT_EQ(Stored()["status"]["generation"], 1);
  calls = 0;
  server_.BeforeWrite([&] {
    if (++calls == 1) server_.DeleteNodeReport("n1");
  });
  ASSERT_TRUE(client_->ApplyNodeReport(Report(2)).ok());
  EXPECT_EQ(Stored()["status"]["generation"], 2);
}

TEST_F(NodeReportsTest, AnotherThatNeverRestsIsAnErrorAfterAWhile) {
  ASSERT_TRUE(client_->ApplyNodeReport(Report(1)).ok());
  int calls = 0;
  server_.BeforeWrite([&] {
    ++calls;
    server_.PutNodeReport(R"({"metadata": {"name": "n1"}, "status": {}})");
  });
  EXPECT_TRUE(absl::IsAborted(client_->ApplyNodeReport(Report(2))));
  EXPECT_EQ(calls, 4);
}

TEST_F(NodeReportsTest, ErrorsAreTheServers) {
  EXPECT_TRUE(absl::IsNotFound(client_->GetNodeReport("n1").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->GetNodeReport("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->ApplyNodeReport(Report(1, "b", ""))));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->ApplyNodeReport(api::NodeReport())));
  server_.FailNext(1, 503);
  EXPECT_TRUE(absl::IsUnavailable(client_->ApplyNodeReport(Report(1))));
  server_.FailNext(1, 403);
  EXPECT_TRUE(absl::IsPermissionDenied(client_->ApplyNodeReport(Report(1))));
  server_.ServeNodeReports(false);
  EXPECT_TRUE(absl::IsNotFound(client_->ApplyNodeReport(Report(1))));
}

TEST_F(NodeReportsTest, TheWatchListsThenFollows) {
  for (const char* name : {"n1", "n2", "n3"}) {
    server_.PutNodeReport(api::NodeReportToJson(Report(1, "boot-1", name)));
  }
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list n1,n2,n3"));
  WaitForStream();
  server_.PutNode({});
  server_.PutNodeReport(api::NodeReportToJson(Report(2)));
  server_.DeleteNodeReport("n2");
  ASSERT_TRUE(recorder_.WaitFor("del n2"));
  EXPECT_EQ(recorder_.events(), (std::vector<std::string>{"list n1,n2,n3", "put n1#2", "del n2"}));
  for (const auto& request : server_.requests()) {
    EXPECT_EQ(request.accept.find("protobuf"), std::string::npos) << request.accept;
  }
}

TEST_F(NodeReportsTest, ABadReportDoesNotHideTheOthers) {
  server_.PutNodeReport(R"({"metadata": {"name": "n1"}, "status": {"pods": 3}})");
  server_.PutNodeReport(api::NodeReportToJson(Report(1, "boot-1", "n2")));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list n1,n2"));
  WaitForStream();
  server_.PutNodeReport(R"({"metadata": {"name": "n2"}, "status": {"generation": -1}})");
  server_.PutNodeReport(R"({"metadata": {"name": "n3"}})");
  server_.PutNodeReport(api::NodeReportToJson(Report(2)));
  ASSERT_TRUE(recorder_.WaitFor("put n1#2"));
  EXPECT_EQ(recorder_.lines(),
            (std::vector<std::string>{"list n1,n2", "put n2!", "put n3!", "put n1#2"}));
}

TEST_F(NodeReportsTest, TheWatchResumesAndListsAgainAfterAGap) {
  server_.PutNodeReport(api::NodeReportToJson(Report(1)));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list n1"));
  WaitForStream();
  server_.PutNodeReport(api::NodeReportToJson(Report(2)));
  ASSERT_TRUE(recorder_.WaitFor("put n1#2"));
  server_.SendBookmark();
  server_.CutStreams(FakeApiServer::Cut::kDropped);
  server_.PutNodeReport(api::NodeReportToJson(Report(3)));
  ASSERT_TRUE(recorder_.WaitFor("put n1#3"));
  EXPECT_EQ(server_.CountRequests("GET", "nodereports?limit"), 1);
  server_.FailNext(1, 503, true);
  server_.CutStreams(FakeApiServer::Cut::kMidFrame);
  server_.PutNodeReport(api::NodeReportToJson(Report(4)));
  ASSERT_TRUE(recorder_.WaitFor("put n1#4"));
  WaitForStream();
  server_.SendError(410, "Expired");
  ASSERT_TRUE(recorder_.WaitFor("list n1", 2));
}

TEST_F(NodeReportsTest, TheWatchWaitsForTheDefinition) {
  server_.ServeNodeReports(false);
  Start();
  ASSERT_TRUE(recorder_.WaitFor("state NOT_FOUND"));
  EXPECT_FALSE(watch_->synced());
  server_.ServeNodeReports(true);
  ASSERT_TRUE(recorder_.WaitFor("list "));
  EXPECT_TRUE(recorder_.WaitFor("state OK"));
}

}  // namespace
}  // namespace numafit::kube
