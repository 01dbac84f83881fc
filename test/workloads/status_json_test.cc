#include "workloads/status_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace numafit::workloads {
namespace {

TEST(StatusJson, FlagsWithTheirNumbersAndTheRestOnDemand) {
  WorkloadStatus waits;
  waits.namespace_ = "team-a";
  waits.name = "job-llm";
  waits.uid = "1";
  waits.cluster_queue = "gpus";
  waits.phase = Phase::kAdmitted;
  waits.admitted_since = 1'800'000'000;
  waits.expected = 8;
  waits.pods[static_cast<std::size_t>(PodState::kPlaced)] = 6;
  waits.pods[static_cast<std::size_t>(PodState::kUnschedulable)] = 2;
  waits.accelerators = 32;
  waits.pods_scheduled = false;
  WorkloadStatus runs = waits;
  runs.name = "fine";
  runs.uid = "2";
  Flag flag;
  flag.workload = waits;
  flag.finding.cause = Cause::kEndpointsExhausted;
  flag.finding.resources = {{.resource = "device.gpustack.ai/rdma",
                             .endpoint = true,
                             .wanted = 4,
                             .free = 11,
                             .best_numa_free = 3,
                             .best_numa_node = "gpu-a-002",
                             .best_numa = 1}};
  flag.why = "wants 4 rdma";
  flag.since = flag.raised = 1'800'000'010;

  const auto json = nlohmann::json::parse(ToJson({runs, waits}, {flag}, false, ""));
  EXPECT_EQ(json["unplaceable"], 1);
  EXPECT_EQ(json["acceleratorsHeld"], 32);
  ASSERT_EQ(json["workloads"].size(), 1U);
  const auto& one = json["workloads"][0];
  EXPECT_EQ(one["name"], "job-llm");
  EXPECT_EQ(one["cause"], "endpoints-exhausted");
  EXPECT_EQ(one["pods"], (nlohmann::json{{"placed", 6}, {"unschedulable", 2}}));
  EXPECT_EQ(one["since"], "2027-01-15T08:00:10Z");
  EXPECT_EQ(one["podsScheduled"], false);
  EXPECT_EQ(one["resources"][0]["bestNuma"],
            (nlohmann::json{{"node", "gpu-a-002"}, {"numa", 1}, {"free", 3}}));
  EXPECT_EQ(nlohmann::json::parse(ToJson({runs, waits}, {flag}, true, ""))["workloads"].size(), 2U);
  const auto fine = nlohmann::json::parse(ToJson({runs, waits}, {flag}, false, "team-a/fine"));
  ASSERT_EQ(fine["workloads"].size(), 1U);
  EXPECT_FALSE(fine["workloads"][0].contains("cause"));
}

}  // namespace
}  // namespace numafit::workloads
