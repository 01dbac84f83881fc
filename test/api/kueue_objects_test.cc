#include "api/kueue_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace numafit::api {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(KueueObjects, AdmissionCheck) {
  const json object = json::parse(R"({
    "metadata": {"name": "topology", "generation": 3},
    "spec": {"controllerName": "numafit.io/topology-capacity", "parameters": {"kind": "X"}},
    "status": {"conditions": [{"type": "Other", "status": "True"},
      {"type": "Active", "status": "False", "reason": "R", "message": "m",
       "observedGeneration": 2}]}})");
  const AdmissionCheck check = ReadAdmissionCheck(object).value();
  EXPECT_TRUE(check.problem.ok()) << check.problem;
  EXPECT_EQ(check.metadata.name, "topology");
  EXPECT_EQ(check.generation, 3);
  EXPECT_EQ(check.controller_name, "numafit.io/topology-capacity");
  EXPECT_TRUE(check.has_parameters);
  EXPECT_EQ(check.active.status, "False");
  EXPECT_EQ(check.active.reason, "R");
  EXPECT_EQ(check.active.message, "m");
  EXPECT_EQ(check.active.observed_generation, 2);
  const AdmissionCheck bare =
      ReadAdmissionCheck(json::parse(R"({"metadata": {"name": "a"}, "spec": {}})")).value();
  EXPECT_FALSE(bare.has_parameters);
  EXPECT_EQ(bare.active.status, "");
}

TEST(KueueObjects, ResourceFlavor) {
  const ResourceFlavor flavor = ReadResourceFlavor(json::parse(R"({
    "metadata": {"name": "h100"},
    "spec": {"nodeLabels": {"gpu": "h100", "zone": "a"}, "topologyName": "hosts"}})"))
                                    .value();
  EXPECT_EQ(flavor.node_labels, (StringMap{{"gpu", "h100"}, {"zone", "a"}}));
  EXPECT_EQ(flavor.topology_name, "hosts");
}

TEST(KueueObjects, ClusterQueue) {
  const ClusterQueue queue = ReadClusterQueue(json::parse(R"({
    "metadata": {"name": "gpus"},
    "spec": {"resourceGroups": [
      {"coveredResources": ["nvidia.com/gpu", "cpu"], "flavors": [
        {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "64"},
                                       {"name": "cpu", "nominalQuota": "500m"}]},
        {"name": "a100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}]}]}})"))
                                 .value();
  ASSERT_EQ(queue.quotas.size(), 3U);
  EXPECT_EQ(queue.quotas[0].flavor, "h100");
  EXPECT_EQ(queue.quotas[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(queue.quotas[0].nominal.value(), 64);
  EXPECT_EQ(queue.quotas[1].nominal.milli(), 500);
  EXPECT_EQ(queue.quotas[2].flavor, "a100");
  EXPECT_EQ(queue.quotas[2].nominal.value(), 8);
}

// One bad object hides no other: its name is known, and what is wrong with it.
TEST(KueueObjects, WhatCannotBeReadSaysSo) {
  const ClusterQueue queue = ReadClusterQueue(json::parse(R"({
    "metadata": {"name": "gpus"},
    "spec": {"resourceGroups": [{"flavors": [{"name": "h100",
      "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "many"}]}]}]}})"))
                                 .value();
  EXPECT_EQ(queue.metadata.name, "gpus");
  EXPECT_TRUE(queue.quotas.empty());
  EXPECT_THAT(queue.problem.message(),
              HasSubstr("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "));
  EXPECT_THAT(ReadAdmissionCheck(json::parse(R"({"metadata": {"name": "a"}, "spec": 7})"))
                  .value()
                  .problem.message(),
              HasSubstr("spec: expected an object, got number"));
  EXPECT_THAT(ReadResourceFlavor(json::parse(R"({"metadata": {"name": "a"},
                  "spec": {"nodeLabels": {"x": 1}}})"))
                  .value()
                  .problem.message(),
              HasSubstr("spec.nodeLabels.x: expected a string, got number"));
  EXPECT_FALSE(ReadResourceFlavor(json::parse(R"({"metadata": []})")).ok());
  EXPECT_FALSE(ReadResourceFlavor(json::parse("[]")).ok());
}

}  // namespace
}  // namespace numafit::api
