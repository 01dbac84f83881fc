#include "api/node_report.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "api/node_report.pb.h"
#include "api/pod_json.h"
#include "test/api/node_reports.h"

namespace numafit::api {
namespace {

using api_testing::SampleReport;
using google::protobuf::util::MessageDifferencer;
using v1alpha1::NodeReportStatus;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

NodeReport Sample() {
  NodeReport report;
  report.metadata.name = "gpu-a-001";
  report.metadata.resource_version = "495";
  report.status = std::make_shared<NodeReportStatus>(SampleReport());
  return report;
}

// What reading a status with this JSON answers.
std::string ErrorOf(const std::string& status) {
  const auto report =
      NodeReportFromJson(R"({"metadata": {"name": "n"}, "status": )" + status + "}");
  return report.ok() ? "" : Message(report.status());
}

// The names of all messages and fields that `message` has set, "Pod.uid".
void CollectFields(const google::protobuf::Message& message, std::set<std::string>& names) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    names.insert(message.GetDescriptor()->name() + "." + field->name());
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      CollectFields(reflection.GetMessage(message, field), names);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      CollectFields(reflection.GetRepeatedMessage(message, field, i), names);
    }
  }
}

// So that every other test here is about every field.
TEST(NodeReportTest, TheSampleHasEveryField) {
  std::set<std::string> names;
  CollectFields(SampleReport(), names);
  const auto& file = *NodeReportStatus::descriptor()->file();
  for (int m = 0; m < file.message_type_count(); ++m) {
    const auto& message = *file.message_type(m);
    for (int f = 0; f < message.field_count(); ++f) {
      const std::string name = message.name() + "." + message.field(f)->name();
      // Zero, so not there: nobody's NUMA node but 0 is reserved for in the sample.
      if (name == "MemoryReservation.numa_node" || name == "MemoryBook.numa_node") continue;
      EXPECT_TRUE(names.contains(name)) << name;
    }
  }
}

TEST(NodeReportTest, WhatIsWrittenIsReadAgain) {
  const NodeReport report = Sample();
  const std::string text = NodeReportToJson(report);
  const auto again = NodeReportFromJson(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->metadata.name, "gpu-a-001");
  EXPECT_EQ(again->metadata.resource_version, "495");
  EXPECT_TRUE(MessageDifferencer::Equals(*again->status, *report.status));
  EXPECT_EQ(NodeReportToJson(*again), text);
}

TEST(NodeReportTest, TheJsonIsProto3s) {
  const auto object = nlohmann::json::parse(NodeReportToJson(Sample()));
  EXPECT_EQ(object["apiVersion"], "numafit.io/v1alpha1");
  EXPECT_EQ(object["kind"], "NodeReport");
  const auto& status = object["status"];
  EXPECT_EQ(status["generation"], 7);
  EXPECT_EQ(status["kubelet"]["topologyManagerPolicyOptions"]["prefer-closest-numa-nodes"], "true");
  EXPECT_EQ(status["kubelet"]["featureGates"]["CPUManagerPolicyAlphaOptions"], false);
  EXPECT_EQ(status["numaNodes"][1]["id"], 1);
  EXPECT_FALSE(status["numaNodes"][0].contains("id"));
  EXPECT_EQ(status["numaNodes"][0]["distances"], (nlohmann::json{10, 21}));
  EXPECT_EQ(status["pods"][0]["namespace"], "team-a");
  EXPECT_EQ(status["rdmaDevices"][0]["numaNode"], -1);
}

TEST(NodeReportTest, NullAndUnknownKeysAreNothing) {
  const auto report = NodeReportFromJson(
      R"({"metadata": {"name": "n"}, "spec": {"x": 1}, "status": {"bootId": null, "later": {"a": []},
          "pods": null, "numa_nodes": [{"id": 3}], "kubelet": {"featureGates": {"A": null}}}})");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->status->numa_nodes(0).id(), 3);
  EXPECT_EQ(report->status->kubelet().feature_gates_size(), 0);
}

TEST(NodeReportTest, AWrongTypeIsNamedWithItsPath) {
  EXPECT_EQ(ErrorOf(R"({"resources": [{}, {"groups": [{"count": "4"}]}]})"),
            "status.resources[1].groups[0].count: expected an integer, got string");
  EXPECT_EQ(ErrorOf(R"({"generation": 1.5})"), "status.generation: expected an integer, got 1.5");
  EXPECT_EQ(ErrorOf(R"({"generation": 2147483648})"),
            "status.generation: 2147483648 does not fit in 32 bits");
  EXPECT_EQ(ErrorOf(R"({"generation": -2147483649})"),
            "status.generation: -2147483649 does not fit in 32 bits");
  EXPECT_EQ(ErrorOf(R"({"generation": 18446744073709551615})"),
            "status.generation: 18446744073709551615 does not fit in 32 bits");
  EXPECT_EQ(ErrorOf(R"({"kubelet": {"topologyManagerPolicyOptions": {"a": 1}}})"),
            "status.kubelet.topologyManagerPolicyOptions.a: expected a string, got 1");
  EXPECT_EQ(ErrorOf(R"({"kubelet": {"featureGates": {"A": "true"}}})"),
            "status.kubelet.featureGates.A: expected true or false, got string");
  EXPECT_EQ(ErrorOf(R"({"kubelet": {"featureGates": []}})"),
            "status.kubelet.featureGates: expected an object, got array");
  EXPECT_EQ(ErrorOf(R"({"pods": {}})"), "status.pods: expected a list, got object");
  EXPECT_EQ(ErrorOf(R"({"pods": [null]})"), "status.pods[0]: expected an object, got null");
  EXPECT_EQ(ErrorOf("[]"), "status: expected an object, got array");
  EXPECT_EQ(ErrorOf("null"), "status: missing");
}

TEST(NodeReportTest, OtherObjectsAndNoObjectsAreRefused) {
  EXPECT_EQ(Message(NodeReportFromJson(R"({"kind": "Pod", "status": {}})").status()),
            R"(kind: expected "NodeReport", got "Pod")");
  EXPECT_EQ(
      Message(NodeReportFromJson(R"({"apiVersion": "numafit.io/v2", "status": {}})").status()),
      R"(apiVersion: expected "numafit.io/v1alpha1", got "numafit.io/v2")");
  for (const char* text : {"", "[]", "3", "null", "{", R"({"metadata": 1, "status": {}})"}) {
    EXPECT_EQ(NodeReportFromJson(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(NodeReportTest, TooMuchTextIsNotParsed) {
  const std::string text = R"({"status": {"bootId": ")" + std::string(kMaxNodeReportBytes, 'x');
  const auto report = NodeReportFromJson(text);
  EXPECT_EQ(Message(report.status()),
            "NodeReport: " + std::to_string(text.size()) + " bytes, more than 1048576");
}

TEST(NodeReportTest, BytesThatAreNoUtf8AreReplacedNotThrown) {
  NodeReportStatus status;
  status.mutable_summary()->set_endpoints("\xff");
  EXPECT_EQ(NodeReportStatusToJson(status), "{\"summary\":{\"endpoints\":\"\xef\xbf\xbd\"}}");
}

TEST(NodeReportTest, AFullHostIsAFewKilobytes) {
  NodeReport report;
  report.metadata.name = "gpu-a-001";
  const NodeReportStatus status = api_testing::LargeReport();
  ASSERT_TRUE(CheckNodeReport(status).ok()) << CheckNodeReport(status);
  report.status = std::make_shared<NodeReportStatus>(status);
  EXPECT_LT(NodeReportToJson(report).size(), 12'000U);
}

TEST(ReadNodeReportTest, WhatIsWrongIsAProblemNotAnError) {
  const auto read = [](const char* text) {
    return ReadNodeReport(*ParseJson(text, "test")).value();
  };
  NodeReport report = read(R"({"metadata": {"name": "n"}, "status": {"generation": "x"}})");
  EXPECT_EQ(report.metadata.name, "n");
  EXPECT_EQ(report.status, nullptr);
  EXPECT_EQ(Message(report.problem), "status.generation: expected an integer, got string");
  report = read(R"({"metadata": {"name": "n"}, "status": {"generation": -1}})");
  EXPECT_EQ(report.status, nullptr);
  EXPECT_EQ(Message(report.problem), "status.generation: -1 is outside of 0 to 2147483647");
  report = read(R"({"metadata": {"name": "n"}})");
  EXPECT_EQ(Message(report.problem), "status: missing");
  report = read(R"({"metadata": {"name": "n"}, "status": {"generation": 1}})");
  EXPECT_TRUE(report.problem.ok());
  ASSERT_NE(report.status, nullptr);
  EXPECT_EQ(report.status->generation(), 1);
  EXPECT_FALSE(ReadNodeReport(*ParseJson("[]", "test")).ok());
}

}  // namespace
}  // namespace numafit::api
