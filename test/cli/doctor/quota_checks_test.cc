#include "cli/doctor/quota_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace numafit::cli::doctor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json Queue(int quota, int nodes, int devices, int placeable) {
  return {{"clusterQueue", "gpus"}, {"flavor", "h100"},       {"resource", "nvidia.com/gpu"},
          {"quota", quota},         {"nodes", nodes},         {"devices", devices},
          {"placeable", placeable}, {"shapes", json::array()}};
}

json WithShape(json queue) {
  queue["shapes"].push_back({{"perPod", {{"device.gpustack.ai/rdma", 1}, {"nvidia.com/gpu", 2}}},
                             {"pods", 3},
                             {"placeable", queue["placeable"]},
                             {"workload", "team-a/job-train-12345"}});
  return queue;
}

Findings Check(const json& queues) {
  Findings findings;
  CheckQuotas(queues, &findings);
  return findings;
}

json Current(const json& queue) {
  return {{"state", "current"}, {"quotas", json::array({queue})}};
}

TEST(QuotaChecks, MoreQuotaThanPodsLikeTheseCouldHold) {
  const Findings findings = Check(Current(WithShape(Queue(56, 7, 56, 40))));
  ASSERT_EQ(findings.all().size(), 1U);
  const Finding& finding = findings.all().front();
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_EQ(finding.code, "quota-above-placeable");
  EXPECT_EQ(finding.text,
            "ClusterQueue gpus has a quota of 56 nvidia.com/gpu in flavor h100; the flavor's 7 "
            "nodes have 56 healthy ones, of which Pods that ask for 2 gpu + 1 rdma (as those of "
            "team-a/job-train-12345) could hold 40 at once: Kueue admits the difference, and it "
            "waits");
  EXPECT_THAT(finding.fix, HasSubstr("lower nominalQuota to 40, or give the endpoints a quota"));
}

TEST(QuotaChecks, MoreQuotaThanHealthyDevices) {
  const Findings some = Check(Current(Queue(64, 7, 56, 56)));
  ASSERT_EQ(some.Count(Severity::kWarn), 1U);
  EXPECT_THAT(some.all()[0].text, HasSubstr("the flavor's 7 nodes have 56 healthy ones: Kueue"));
  EXPECT_THAT(some.all()[0].fix, HasSubstr("nodes of flavor h100 are missing"));
  const Findings none = Check(Current(Queue(64, 0, 0, 0)));
  ASSERT_EQ(none.Count(Severity::kWarn), 1U);
  EXPECT_THAT(none.all()[0].text, HasSubstr("no node of the flavor has any"));
}

TEST(QuotaChecks, QuotaThatCanBePlacedIsFine) {
  const Findings findings = Check(Current(WithShape(Queue(40, 7, 56, 40))));
  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all()[0].severity, Severity::kOk);
}

TEST(QuotaChecks, NothingIsSaidWithoutQuotas) {
  for (const char* text :
       {R"({"state": "no-kueue", "why": "not found", "quotas": []})",
        R"({"state": "reading", "quotas": []})", R"({"state": "current", "quotas": []})", "{}", "3",
        R"({"state": "current", "quotas": [3, null, {"shapes": 7}]})"}) {
    EXPECT_EQ(Check(json::parse(text)).Count(Severity::kWarn), 0U) << text;
  }
  EXPECT_THAT(Check(json::parse(R"({"state": "no-kueue", "quotas": []})")).all(), IsEmpty());
}

TEST(QuotaChecks, RightsThatAreMissing) {
  const Findings findings = Check({{"state", "unreadable"},
                                   {"why", "clusterqueues.kueue.x-k8s.io is forbidden"},
                                   {"quotas", json::array()}});
  ASSERT_EQ(findings.Count(Severity::kWarn), 1U);
  EXPECT_EQ(findings.all()[0].code, "quota-unknown");
  EXPECT_THAT(findings.all()[0].text, HasSubstr("is forbidden"));
}

}  // namespace
}  // namespace numafit::cli::doctor
