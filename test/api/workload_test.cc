#include "api/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace numafit::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWorkload[] = R"({
  "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
  "metadata": {"name": "job-a-1f2e3", "namespace": "team-a", "uid": "u",
    "creationTimestamp": "2026-11-30T09:00:00Z",
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "j",
      "controller": true}]},
  "spec": {"queueName": "team-a", "priority": -5, "podSets": [
    {"name": "main", "count": 3, "template": {"metadata": {"annotations": {"k": "v"}},
      "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}},
    {}]},
  "status": {
    "admission": {"clusterQueue": "gpus", "podSetAssignments": [
      {"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "h100"}, "topologyAssignment": %s}]},
    "conditions": [
      {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved",
        "lastTransitionTime": "2026-11-30T09:00:01Z"},
      {"type": "Admitted", "status": "Unknown"}],
    "admissionChecks": [{"name": "capacity", "state": "Pending", "message": "waits",
      "lastTransitionTime": "2026-11-30T09:00:02Z"}],
    "reclaimablePods": [{"name": "main", "count": 1}],
    "unhealthyNodes": [{"name": "n"}],
    "clusterName": "worker"}})";

std::string With(const std::string& topology) {
  std::string text = kWorkload;
  return text.replace(text.find("%s"), 2, topology);
}

TEST(WorkloadTest, TheFieldsThatWeRead) {
  const absl::StatusOr<Workload> read = WorkloadFromJson(With("null"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->FullName(), "team-a/job-a-1f2e3");
  ASSERT_EQ(read->metadata.owners.size(), 1U);
  EXPECT_EQ(read->metadata.owners[0], (OwnerReference{"Job", "a", "j", true, "batch/v1"}));
  EXPECT_EQ(read->queue_name, "team-a");
  EXPECT_EQ(read->priority, -5);
  EXPECT_TRUE(read->active) << "absent is true";
  ASSERT_EQ(read->pod_sets.size(), 2U);
  EXPECT_EQ(read->pod_sets[0].count, 3);
  EXPECT_EQ(read->pod_sets[0].pod.containers[0].resources.limits.at("nvidia.com/gpu").value(), 4);
  EXPECT_EQ(read->pod_sets[0].pod.metadata.annotations.at("k"), "v");
  EXPECT_EQ(read->pod_sets[1].name, "main");
  EXPECT_EQ(read->pod_sets[1].count, 1);
  EXPECT_EQ(read->cluster_queue, "gpus");
  EXPECT_EQ(read->assignments[0].count, 2);
  EXPECT_EQ(read->assignments[0].flavors.at("nvidia.com/gpu"), "h100");
  EXPECT_FALSE(read->assignments[0].has_topology);
  EXPECT_TRUE(read->Is("QuotaReserved"));
  EXPECT_EQ(read->Find("QuotaReserved")->since, 1796029201);
  EXPECT_FALSE(read->Is("Admitted"));
  EXPECT_FALSE(read->Is("Finished"));
  EXPECT_EQ(read->checks[0].state, "Pending");
  EXPECT_EQ(read->reclaimable.at("main"), 1);
  EXPECT_TRUE(read->has_unhealthy_nodes);
  EXPECT_EQ(read->cluster_name, "worker");
}

TEST(WorkloadTest, BothEncodingsOfATopologyAssignment) {
  const auto domains = [](const std::string& topology) {
    const absl::StatusOr<Workload> read = WorkloadFromJson(With(topology));
    EXPECT_TRUE(read.ok()) << read.status();
    std::vector<std::string> texts;
    if (!read.ok()) return texts;
    EXPECT_TRUE(read->assignments[0].has_topology);
    for (const TopologyDomain& domain : read->assignments[0].domains) {
      std::string text;
      for (const std::string& value : domain.values) text += value + "/";
      texts.push_back(text + std::to_string(domain.count));
    }
    return texts;
  };
  EXPECT_THAT(domains(R"({"levels": ["block", "host"], "domains": [
                          {"values": ["b1", "n1"], "count": 1}, {"values": ["b1", "n2"], "count": 2}]})"),
              ElementsAre("b1/n1/1", "b1/n2/2"));
  EXPECT_THAT(domains(R"({"levels": ["block", "host"], "slices": [
                          {"domainCount": 2, "valuesPerLevel": [{"universal": "b1"},
                             {"individual": {"prefix": "n-", "suffix": ".x", "roots": ["1", "2"]}}],
                           "podCounts": {"individual": [1, 2]}},
                          {"domainCount": 1, "valuesPerLevel": [{"universal": "b2"},
                             {"universal": "n-3"}], "podCounts": {"universal": 4}}]})"),
              ElementsAre("b1/n-1.x/1", "b1/n-2.x/2", "b2/n-3/4"));
}

TEST(WorkloadTest, WhatCannotBeIsNamed) {
  const auto error = [](const std::string& topology) {
    return std::string(WorkloadFromJson(With(topology)).status().message());
  };
  EXPECT_THAT(error(R"({"slices": [{"domainCount": 2000000000, "valuesPerLevel": [],
                        "podCounts": {"universal": 1}}]})"),
              HasSubstr("slices[0].domainCount: is 2000000000: more than 100000 domains"));
  EXPECT_THAT(error(R"({"slices": [{"domainCount": 60000, "podCounts": {"universal": 1}},
                                   {"domainCount": 60000, "podCounts": {"universal": 1}}]})"),
              HasSubstr("slices[1].domainCount"));
  EXPECT_THAT(error(R"({"slices": [{"domainCount": 2, "valuesPerLevel": [
                        {"individual": {"roots": ["1"]}}], "podCounts": {"universal": 1}}]})"),
              HasSubstr("expected 2 values"));
  EXPECT_THAT(error(R"({"slices": [{"domainCount": 2, "podCounts": {"individual": [1]}}]})"),
              HasSubstr("expected 2 counts"));
  EXPECT_THAT(error(R"({"domains": [{"values": ["a"], "count": -1}]})"), HasSubstr("count"));
  EXPECT_THAT(error(R"("text")"), HasSubstr("topologyAssignment"));
  EXPECT_FALSE(WorkloadFromJson("[]").ok());
  EXPECT_FALSE(WorkloadFromJson("{").ok());
}

TEST(WorkloadTest, OneThatCannotBeReadDoesNotHideTheOthers) {
  const auto value = nlohmann::json::parse(
      R"({"metadata": {"name": "a", "uid": "u"}, "spec": {"podSets": "none"}})");
  const absl::StatusOr<Workload> read = ReadWorkload(value);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->metadata.uid, "u");
  EXPECT_THAT(std::string(read->problem.message()), HasSubstr("spec.podSets"));
  EXPECT_FALSE(ReadWorkload(nlohmann::json::parse(R"({"metadata": 7})")).ok());
}

}  // namespace
}  // namespace numafit::api
