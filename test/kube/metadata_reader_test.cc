#include "kube/metadata_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "test/kube/fake_api_server.h"

namespace numafit::kube {
namespace {

using ::testing::HasSubstr;

constexpr char kBatch[] =
    R"({"kind": "APIResourceList", "groupVersion": "batch/v1", "resources": [
        {"name": "jobs", "namespaced": true, "kind": "Job"},
        {"name": "jobs/status", "namespaced": true, "kind": "Job"}]})";
constexpr char kTrainings[] =
    R"({"kind": "APIResourceList", "groupVersion": "lab/v1", "resources": [
        {"name": "trainings", "namespaced": true, "kind": "Training"},
        {"name": "fleets", "namespaced": false, "kind": "Fleet"}]})";
constexpr char kJob[] =
    R"({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {
        "name": "j", "namespace": "team-a", "uid": "u1", "ownerReferences": [
          {"apiVersion": "lab/v1", "kind": "Training", "name": "t", "uid": "u2",
           "controller": true}]}})";

class MetadataReaderTest : public ::testing::Test {
 protected:
  MetadataReaderTest() {
    server_.PutDocument("/apis/batch/v1", kBatch);
    server_.PutDocument("/apis/lab/v1", kTrainings);
    server_.PutDocument("/apis/batch/v1/namespaces/team-a/jobs/j", kJob);
    Credentials credentials;
    credentials.server = server_.url();
    client_ = Client::Create(credentials, {}).value();
    reader_ = std::make_unique<MetadataReader>(*client_);
  }
  absl::StatusOr<api::ObjectMeta> Read(const std::string& api_version, const std::string& kind,
                                       const std::string& name) {
    return reader_->Read(
        {.api_version = api_version, .kind = kind, .namespace_ = "team-a", .name = name});
  }

  kube_testing::FakeApiServer server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<MetadataReader> reader_;
};

TEST_F(MetadataReaderTest, OfAnObjectThatIsNamedByItsKind) {
  const absl::StatusOr<api::ObjectMeta> job = Read("batch/v1", "Job", "j");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->uid, "u1");
  ASSERT_EQ(job->owners.size(), 1U);
  const api::OwnerReference training{
      .kind = "Training", .name = "t", .uid = "u2", .controller = true, .api_version = "lab/v1"};
  EXPECT_EQ(job->owners.front(), training);
  EXPECT_THAT(server_.requests().back().accept,
              HasSubstr("as=PartialObjectMetadata;g=meta.k8s.io;v=v1"));
  // Where a kind is served is asked once.
  EXPECT_TRUE(Read("batch/v1", "Job", "j").ok());
  EXPECT_EQ(server_.requests().size(), 3U);
}

TEST_F(MetadataReaderTest, OfTheCoreGroupAndOfClusterScopedKinds) {
  server_.PutDocument("/api/v1", R"({"resources": [
      {"name": "replicationcontrollers", "namespaced": true, "kind": "ReplicationController"}]})");
  server_.PutDocument("/api/v1/namespaces/team-a/replicationcontrollers/r",
                      R"({"metadata": {"name": "r", "uid": "u3"}})");
  server_.PutDocument("/apis/lab/v1/fleets/f", R"({"metadata": {"name": "f", "uid": "u4"}})");
  EXPECT_EQ(Read("v1", "ReplicationController", "r")->uid, "u3");
  EXPECT_EQ(Read("lab/v1", "Fleet", "f")->uid, "u4");
}

TEST_F(MetadataReaderTest, SaysWhyNot) {
  EXPECT_TRUE(absl::IsNotFound(Read("batch/v1", "Job", "gone").status()));
  EXPECT_TRUE(absl::IsNotFound(Read("no.such/v1", "Job", "j").status()));
  const absl::Status kind = Read("batch/v1", "CronJob", "j").status();
  EXPECT_TRUE(absl::IsNotFound(kind));
  EXPECT_THAT(std::string(kind.message()), HasSubstr("batch/v1 has no kind CronJob"));
  server_.PutDocument("/apis/lab/v1/namespaces/team-a/trainings/t", "no right", 403);
  EXPECT_TRUE(absl::IsPermissionDenied(Read("lab/v1", "Training", "t").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Read("batch/v1", "Job", "").status()));
  for (const char* odd : {"", "/v1", "batch/", "a/b/c"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Read(odd, "Job", "j").status())) << odd;
  }
  // A kind that is defined later is found.
  server_.PutDocument("/apis/batch/v1", R"({"resources": [
      {"name": "cronjobs", "namespaced": true, "kind": "CronJob"}]})");
  server_.PutDocument("/apis/batch/v1/namespaces/team-a/cronjobs/j",
                      R"({"metadata": {"name": "j", "uid": "u5"}})");
  EXPECT_EQ(Read("batch/v1", "CronJob", "j")->uid, "u5");
}

TEST_F(MetadataReaderTest, AnswersThatAreNoneAndNamesThatAreNoPaths) {
  server_.PutDocument("/apis/batch/v1/namespaces/team-a/jobs/text", "text");
  EXPECT_TRUE(absl::IsDataLoss(Read("batch/v1", "Job", "text").status()));
  server_.PutDocument("/apis/batch/v1/namespaces/team-a/jobs/odd", R"({"metadata": {"uid": 7}})");
  EXPECT_TRUE(absl::IsDataLoss(Read("batch/v1", "Job", "odd").status()));
  server_.PutDocument("/apis/odd/v1", R"({"resources": [{"name": 7}]})");
  EXPECT_TRUE(absl::IsDataLoss(Read("odd/v1", "Job", "j").status()));
  // Whoever writes an owner cannot choose what is read.
  for (const char* name : {"../../secrets/s", "..", "a%2fb"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Read("batch/v1", "Job", name).status())) << name;
  }
  EXPECT_EQ(server_.CountRequests("GET", "secrets"), 0);
}

}  // namespace
}  // namespace numafit::kube
