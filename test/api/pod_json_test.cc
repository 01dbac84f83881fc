#include "api/pod_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace numafit::api {
namespace {

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// As kube-scheduler 1.36 sends it, with the fields that only some Pods have.
constexpr char kPod[] = R"({
  "metadata": {"name": "train", "namespace": "team-a", "uid": "640de90c", "resourceVersion": "495",
    "generation": 1, "creationTimestamp": "2026-11-29T22:25:50Z",
    "deletionTimestamp": "2026-11-29T22:26:50Z",
    "labels": {"app": "llm"}, "annotations": {"note": "a\u003cb \u0026 c"},
    "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}]},
  "spec": {
    "initContainers": [
      {"name": "sidecar", "restartPolicy": "Always", "resources": {"limits": {"cpu": "100m"}}},
      {"name": "setup"}],
    "containers": [
      {"name": "main", "image": "registry.example/app:1", "resources": {
        "limits": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": 2},
        "requests": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
        "claims": [{"name": "net"}]}}],
    "nodeName": "n1", "schedulerName": "numafit", "priority": -5,
    "resources": {"requests": {"cpu": "9"}},
    "resourceClaims": [{"name": "net", "resourceClaimName": "c1"}]},
  "status": {"phase": "Running", "reason": "r", "message": "m", "qosClass": "Guaranteed",
    "nominatedNodeName": "n2", "startTime": "2026-11-29T22:25:51Z",
    "conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": "ignored"}],
    "containerStatuses": [{"name": "main"}],
    "initContainerStatuses": [{"name": "sidecar"}, {"name": "setup"}]}})";

void ExpectThePod(const Pod& pod) {
  EXPECT_EQ(pod.FullName(), "team-a/train");
  EXPECT_EQ(pod.metadata.uid, "640de90c");
  EXPECT_EQ(pod.metadata.resource_version, "495");
  EXPECT_EQ(pod.metadata.creation_time, 1795991150);
  EXPECT_EQ(pod.metadata.deletion_time, 1795991210);
  EXPECT_EQ(pod.metadata.labels.at("app"), "llm");
  EXPECT_EQ(pod.metadata.annotations.at("note"), "a<b & c");
  ASSERT_EQ(pod.init_containers.size(), 2U);
  EXPECT_TRUE(pod.init_containers[0].restart_always);
  EXPECT_EQ(pod.init_containers[0].resources.limits.at("cpu").milli(), 100);
  EXPECT_FALSE(pod.init_containers[1].restart_always);
  ASSERT_EQ(pod.containers.size(), 1U);
  const ResourceRequirements& resources = pod.containers[0].resources;
  EXPECT_EQ(resources.limits.at("nvidia.com/gpu").value(), 2);
  EXPECT_EQ(resources.requests.at("memory").value(), 17179869184);
  EXPECT_EQ(resources.claims, std::vector<std::string>{"net"});
  EXPECT_EQ(pod.node_name, "n1");
  EXPECT_EQ(pod.scheduler_name, "numafit");
  EXPECT_EQ(pod.priority, -5);
  ASSERT_TRUE(pod.resources.has_value());
  EXPECT_EQ(pod.resources->requests.at("cpu").value(), 9);
  EXPECT_EQ(pod.resource_claims, std::vector<std::string>{"net"});
  EXPECT_EQ(pod.status.phase, "Running");
  EXPECT_EQ(pod.status.reason, "r");
  EXPECT_EQ(pod.status.message, "m");
  EXPECT_EQ(pod.status.qos_class, "Guaranteed");
  EXPECT_EQ(pod.status.nominated_node_name, "n2");
  EXPECT_EQ(pod.status.start_time, "2026-11-29T22:25:51Z");
  EXPECT_EQ(pod.status.container_statuses, 3);
  ASSERT_EQ(pod.status.conditions.size(), 1U);
  EXPECT_EQ(pod.status.conditions[0].type, "Ready");
  EXPECT_EQ(pod.status.conditions[0].reason, "x");
}

TEST(PodJsonTest, ReadsEveryField) {
  const auto pod = PodFromJson(kPod);
  ASSERT_TRUE(pod.ok()) << pod.status();
  ExpectThePod(*pod);
}

TEST(PodJsonTest, WritesWhatItReads) {
  const auto pod = PodFromJson(PodToJson(*PodFromJson(kPod)));
  ASSERT_TRUE(pod.ok()) << pod.status();
  ExpectThePod(*pod);
}

TEST(PodJsonTest, AnEmptyPodWritesNoEmptyFields) {
  EXPECT_EQ(PodToJson(Pod()), R"({"metadata":{},"spec":{"containers":[]}})");
}

TEST(PodJsonTest, NullIsTheSameAsAbsentEverywhere) {
  for (const char* text : {
           "null",
           "{}",
           R"({"metadata": null, "spec": null, "status": null})",
           R"({"metadata": {"name": null, "labels": null, "creationTimestamp": null},
               "spec": {"containers": null, "initContainers": null, "priority": null,
                        "resources": null, "resourceClaims": null},
               "status": {"conditions": null, "containerStatuses": null}})",
       }) {
    const auto pod = PodFromJson(text);
    ASSERT_TRUE(pod.ok()) << text << pod.status();
    EXPECT_EQ(PodToJson(*pod), PodToJson(Pod())) << text;
  }
  const auto pod = PodFromJson(
      R"({"spec": {"containers": [null, {"resources": {"limits": {"a/b": null}, "claims": [null]}}]}})");
  ASSERT_TRUE(pod.ok()) << pod.status();
  ASSERT_EQ(pod->containers.size(), 2U);
  EXPECT_TRUE(pod->containers[1].resources.limits.at("a/b").IsZero());
}

TEST(PodJsonTest, KeysMatchWithoutCaseButExactlyFirst) {
  const auto pod = PodFromJson(
      R"({"METADATA": {"Name": "x", "NAME": "y", "name": "z"}, "Spec": {"NODENAME": "n"}})");
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->metadata.name, "z");
  EXPECT_EQ(pod->node_name, "n");
}

TEST(PodJsonTest, ResourceNamesKeepTheirCase) {
  const auto pod = PodFromJson(
      R"({"spec": {"containers": [{"resources": {"limits": {"huawei.com/Ascend910": " 8 "}}}]}})");
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->containers[0].resources.limits.at("huawei.com/Ascend910").value(), 8);
}

TEST(PodJsonTest, BareNumbersAreQuantities) {
  const auto pod = PodFromJson(
      R"({"spec": {"containers": [{"resources": {"limits": {"a": 0.1, "b": 1e3, "c": 3}}}]}})");
  ASSERT_TRUE(pod.ok()) << pod.status();
  const ResourceList& limits = pod->containers[0].resources.limits;
  EXPECT_EQ(limits.at("a").milli(), 100);
  EXPECT_EQ(limits.at("b").value(), 1000);
  EXPECT_EQ(limits.at("c").value(), 3);
}

struct BadCase {
  const char* text;
  const char* message;
};

TEST(PodJsonTest, WrongTypesNameTheirPath) {
  constexpr BadCase kCases[] = {
      {"[]", "document: expected an object, got array"},
      {R"({"spec": 1})", "spec: expected an object, got number"},
      {R"({"spec": {"containers": {}}})", "spec.containers: expected a list, got object"},
      {R"({"spec": {"containers": [{}, {"name": 5}]}})",
       "spec.containers[1].name: expected a string, got number"},
      {R"({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "four"}}}]}})",
       "spec.containers[0].resources.limits.nvidia.com/gpu: \"four\" is not a quantity"},
      {R"({"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}})",
       "spec.containers[0].resources.limits.cpu: expected a string, got array"},
      {R"({"spec": {"priority": 5.0}})", "spec.priority: expected an integer, got 5.0"},
      {R"({"spec": {"priority": "5"}})", "spec.priority: expected an integer, got string"},
      {R"({"spec": {"priority": 3000000000}})", "spec.priority: 3000000000 is outside of"},
      {R"({"spec": {"priority": 18446744073709551615}})", "is outside of"},
      {R"({"metadata": {"labels": {"a": 1}}})", "metadata.labels.a: expected a string, got number"},
      {R"({"metadata": {"creationTimestamp": "yesterday"}})",
       "metadata.creationTimestamp: \"yesterday\" is not an RFC 3339 time"},
      {R"({"status": {"containerStatuses": "x"}})",
       "status.containerStatuses: expected a list, got string"},
  };
  for (const BadCase& c : kCases) {
    const auto pod = PodFromJson(c.text);
    ASSERT_FALSE(pod.ok()) << c.text;
    EXPECT_EQ(pod.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(Message(pod.status()).find(c.message), std::string::npos) << pod.status();
  }
}

TEST(PodJsonTest, MalformedJsonNamesTheByte) {
  constexpr BadCase kCases[] = {
      {"", "Pod: malformed JSON at byte 1:"},
      {R"({"spec": x})", "Pod: malformed JSON at byte 10:"},
      {R"({"spec": {)", "Pod: malformed JSON at byte 11:"},
      {R"({} {})", "Pod: malformed JSON at byte 4:"},
      {R"({"spec": 1e999})", "Pod: malformed JSON at byte 14:"},
      {"{\"a\": \"\xff\"}", "Pod: malformed JSON at byte 8:"},
  };
  for (const BadCase& c : kCases) {
    const auto pod = PodFromJson(c.text);
    ASSERT_FALSE(pod.ok()) << c.text;
    EXPECT_NE(Message(pod.status()).find(c.message), std::string::npos) << pod.status();
    EXPECT_LT(Message(pod.status()).size(), 400U);
  }
}

TEST(PodJsonTest, DeepNestingIsHarmless) {
  const std::string deep(200'000, '[');
  EXPECT_FALSE(PodFromJson(deep).ok());
  EXPECT_TRUE(PodFromJson("{\"x\":" + deep + std::string(200'000, ']') + "}").ok());
}

TEST(PodJsonTest, InvalidUtf8IsReplacedInWriting) {
  Pod pod;
  pod.metadata.name = "a\xff";
  EXPECT_TRUE(PodFromJson(PodToJson(pod)).ok());
}

TEST(NodeJsonTest, ReadsEveryFieldAndWritesItBack) {
  const char* text = R"({
    "metadata": {"name": "n1", "labels": {"a": "b"}},
    "spec": {"unschedulable": true},
    "status": {"capacity": {"cpu": "64"}, "allocatable": {"cpu": "63", "nvidia.com/gpu": "8"},
      "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null}],
      "nodeInfo": {"kubeletVersion": "v1.36.3", "machineID": ""}}})";
  auto node = NodeFromJson(text);
  ASSERT_TRUE(node.ok()) << node.status();
  node = NodeFromJson(NodeToJson(*node));
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->metadata.name, "n1");
  EXPECT_TRUE(node->unschedulable);
  EXPECT_EQ(node->capacity.at("cpu").value(), 64);
  EXPECT_EQ(node->allocatable.at("nvidia.com/gpu").value(), 8);
  ASSERT_EQ(node->conditions.size(), 1U);
  EXPECT_EQ(node->conditions[0].type, "Ready");
  EXPECT_EQ(node->conditions[0].status, "True");
  EXPECT_EQ(node->kubelet_version, "v1.36.3");
}

TEST(NodeJsonTest, WrongTypesNameTheirPath) {
  const auto node = NodeFromJson(R"({"spec": {"unschedulable": "yes"}})");
  EXPECT_EQ(Message(node.status()), "spec.unschedulable: expected true or false, got string");
}

}  // namespace
}  // namespace numafit::api
