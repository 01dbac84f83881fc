#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kube/client.h"
#include "test/kube/fake_api_server.h"
#include "test/kube/recorder.h"

namespace numafit::kube {
namespace {

using kube_testing::FakeApiServer;
using kube_testing::Recorder;
using nlohmann::json;
using ::testing::HasSubstr;

class KueueTest : public ::testing::Test {
 protected:
  KueueTest() {
    Credentials credentials;
    credentials.server = server_.url();
    client_ = *Client::Create(credentials, {});
    server_.ServeKueue({"v1beta2"});
    server_.PutWorkload(R"({"metadata": {"name": "job-a", "namespace": "team", "uid": "u"},
      "status": {"admissionChecks": [{"name": "other", "state": "Pending", "message": "theirs"},
                                     {"name": "topology", "state": "Pending", "message": ""}]}})");
  }
  json Stored(const std::string& plural, const std::string& name) {
    return json::parse(server_.FindKueueObject(plural, name).value_or("null"));
  }
  CheckStateRequest Request() {
    return {.version = "v1beta2",
            .workload_namespace = "team",
            .workload_name = "job-a",
            .workload_uid = "u",
            .resource_version = Stored("workloads", "team/job-a")["metadata"]["resourceVersion"],
            .check = "topology",
            .state = "Ready",
            .message = "every Pod finds a place",
            .since = 1'796'029'201};
  }

  FakeApiServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(KueueTest, AStateChangesItsOwnEntryOnly) {
  ASSERT_TRUE(ApplyCheckState(*client_, Request()).ok());
  const json checks = Stored("workloads", "team/job-a")["status"]["admissionChecks"];
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0]["state"], "Pending");
  EXPECT_EQ(checks[0]["message"], "theirs");
  EXPECT_EQ(checks[1]["state"], "Ready");
  EXPECT_EQ(checks[1]["message"], "every Pod finds a place");
  EXPECT_EQ(checks[1]["lastTransitionTime"], "2026-11-30T09:00:01Z");
  const FakeApiServer::Seen seen = server_.requests().back();
  EXPECT_EQ(seen.method, "PATCH");
  EXPECT_EQ(seen.path, "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/job-a/status");
  EXPECT_THAT(seen.query, HasSubstr("force=true"));
  const json body = json::parse(seen.body);
  EXPECT_EQ(body["status"]["admissionChecks"].size(), 1U) << "nobody else's is even named";
  EXPECT_EQ(body["kind"], "Workload");
  EXPECT_EQ(body["apiVersion"], "kueue.x-k8s.io/v1beta2");
}

TEST_F(KueueTest, AWorkloadThatHasChangedIsAConflict) {
  CheckStateRequest request = Request();
  ASSERT_TRUE(ApplyCheckState(*client_, request).ok());
  EXPECT_TRUE(absl::IsAborted(ApplyCheckState(*client_, request))) << "an old version";
  request = Request();
  request.workload_uid = "another";
  EXPECT_TRUE(absl::IsAborted(ApplyCheckState(*client_, request)));
  request.workload_name = "none";
  EXPECT_TRUE(absl::IsNotFound(ApplyCheckState(*client_, request)));
  server_.FailNext(1, 500);
  EXPECT_TRUE(absl::IsInternal(ApplyCheckState(*client_, Request())))
      << "as without Kueue's webhook";
}

TEST_F(KueueTest, AnIncompleteRequestIsNotSent) {
  const std::size_t before = server_.requests().size();
  for (std::string CheckStateRequest::*field :
       {&CheckStateRequest::version, &CheckStateRequest::workload_namespace,
        &CheckStateRequest::workload_name, &CheckStateRequest::workload_uid,
        &CheckStateRequest::resource_version, &CheckStateRequest::check}) {
    CheckStateRequest request = Request();
    (request.*field).clear();
    EXPECT_TRUE(absl::IsInvalidArgument(ApplyCheckState(*client_, request)));
  }
  EXPECT_EQ(server_.requests().size(), before);
}

TEST_F(KueueTest, ALongMessageIsCutBetweenCharacters) {
  CheckStateRequest request = Request();
  request.message = "x";
  while (request.message.size() < 40'000) request.message += "\u00e9";
  ASSERT_TRUE(ApplyCheckState(*client_, request).ok());
  const std::string stored =
      Stored("workloads", "team/job-a")["status"]["admissionChecks"][1]["message"];
  EXPECT_EQ(stored.size(), 32'767U);
  EXPECT_TRUE(request.message.starts_with(stored));
}

TEST_F(KueueTest, ActiveOfACheck) {
  server_.PutKueueObject("admissionchecks", R"({"metadata": {"name": "topology"}})");
  const CheckActiveRequest request{.version = "v1beta2",
                                   .name = "topology",
                                   .active = true,
                                   .reason = "Active",
                                   .message = "here",
                                   .observed_generation = 4,
                                   .since = 1'796'029'201};
  ASSERT_TRUE(ApplyCheckActive(*client_, request).ok());
  EXPECT_EQ(Stored("admissionchecks", "topology")["status"]["conditions"],
            json::parse(R"([{"type": "Active", "status": "True", "reason": "Active",
              "message": "here", "observedGeneration": 4,
              "lastTransitionTime": "2026-11-30T09:00:01Z"}])"));
}

TEST_F(KueueTest, WatchesOfItsOtherObjects) {
  server_.PutKueueObject("admissionchecks", R"({"metadata": {"name": "c1"}})");
  server_.PutKueueObject("resourceflavors", R"({"metadata": {"name": "f1"}})");
  server_.PutKueueObject("clusterqueues", R"({"metadata": {"name": "q1"}})");
  Recorder<api::AdmissionCheck> checks;
  Recorder<api::ResourceFlavor> flavors;
  Recorder<api::ClusterQueue> queues;
  const auto a = WatchAdmissionChecks(*client_, "v1beta2", {}, checks.Handlers());
  const auto b = WatchResourceFlavors(*client_, "v1beta2", {}, flavors.Handlers());
  const auto c = WatchClusterQueues(*client_, "v1beta2", {}, queues.Handlers());
  EXPECT_TRUE(checks.WaitFor("list c1"));
  EXPECT_TRUE(flavors.WaitFor("list f1"));
  EXPECT_TRUE(queues.WaitFor("list q1"));
  server_.PutKueueObject("clusterqueues", R"({"metadata": {"name": "q2"}})");
  server_.DeleteKueueObject("admissionchecks", "c1");
  EXPECT_TRUE(queues.WaitFor("put q2"));
  EXPECT_TRUE(checks.WaitFor("del c1"));
}

}  // namespace
}  // namespace numafit::kube
