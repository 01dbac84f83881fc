#include "agent/api_server_sink.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "api/node_report.h"
#include "api/node_report.pb.h"

namespace numafit::agent {
namespace {

// Holds one Node and one report.
class FakeClient : public kube::Client {
 public:
  absl::Status Bind(const kube::BindRequest&) override { return absl::UnimplementedError(""); }
  absl::Status AnnotatePod(const std::string&, const std::string&, const std::string&,
                           const std::string&, const std::string&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<api::Pod> GetPod(const std::string&, const std::string&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<api::Node> GetNode(const std::string&) override { return node; }
  absl::StatusOr<api::NodeReport> GetNodeReport(const std::string&) override {
    if (!report.has_value()) return absl::NotFoundError("no report");
    return *report;
  }
  absl::Status ApplyNodeReport(const api::NodeReport& applied) override {
    report = applied;
    return absl::OkStatus();
  }

  void MakeNode(const std::string& uid) {
    api::Node made;
    made.metadata.name = "n1";
    made.metadata.uid = uid;
    made.kubelet_version = "v1.36.3";
    node = made;
  }

  absl::StatusOr<api::Node> node = absl::NotFoundError("no Node");
  std::optional<api::NodeReport> report;
};

class ApiServerSinkTest : public ::testing::Test {
 protected:
  absl::Status Publish(std::int32_t generation) {
    v1alpha1::NodeReportStatus status;
    status.set_generation(generation);
    return sink_.Publish("n1", status);
  }
  [[nodiscard]] std::string OwnerUid() const {
    const auto& owners = client_.report->metadata.owners;
    if (owners.size() != 1 || owners[0].kind != "Node" || owners[0].name != "n1" ||
        owners[0].api_version != "v1") {
      return "no Node";
    }
    return owners[0].uid;
  }

  FakeClient client_;
  ApiServerSink sink_{client_};
};

TEST_F(ApiServerSinkTest, AReportBelongsToItsNode) {
  EXPECT_TRUE(absl::IsNotFound(Publish(1)));
  EXPECT_FALSE(client_.report.has_value());
  client_.MakeNode("uid-1");
  ASSERT_TRUE(Publish(1).ok());
  EXPECT_EQ(OwnerUid(), "uid-1");
  EXPECT_EQ(*sink_.Stands("n1", 1), true);
  // The Node is another one: that is seen when its kubelet is asked about, or at a look.
  client_.MakeNode("uid-2");
  EXPECT_EQ(*sink_.Stands("n1", 1), false);
  ASSERT_TRUE(Publish(2).ok());
  EXPECT_EQ(OwnerUid(), "uid-2");
  client_.MakeNode("uid-3");
  EXPECT_EQ(sink_.LookAtNode("n1")->kubelet_version, "v1.36.3");
  ASSERT_TRUE(Publish(3).ok());
  EXPECT_EQ(OwnerUid(), "uid-3");
}

TEST_F(ApiServerSinkTest, AReportThatIsGoneOrAnothersDoesNotStand) {
  client_.MakeNode("uid-1");
  ASSERT_TRUE(Publish(4).ok());
  EXPECT_EQ(*sink_.Stands("n1", 3), false);
  client_.report.reset();
  EXPECT_EQ(*sink_.Stands("n1", 4), false);
  // It went with its Node: nobody needs it.
  client_.node = absl::NotFoundError("no Node");
  EXPECT_EQ(*sink_.Stands("n1", 4), true);
  EXPECT_TRUE(absl::IsNotFound(Publish(5)));
}

TEST_F(ApiServerSinkTest, WithoutARightToLookAtNodesItHasNoOwner) {
  client_.node = absl::PermissionDeniedError("nodes is forbidden");
  ASSERT_TRUE(Publish(1).ok());
  EXPECT_TRUE(client_.report->metadata.owners.empty());
  EXPECT_EQ(*sink_.Stands("n1", 1), true);
  EXPECT_FALSE(sink_.LookAtNode("n1").ok());
}

}  // namespace
}  // namespace numafit::agent
