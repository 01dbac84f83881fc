#include "cli/doctor/fleet_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace numafit::cli::doctor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A node with 4 + 4 devices on each of two NUMA nodes that has reported a moment ago.
json Node(const std::string& name) {
  const auto resource = [](const char* key) {
    const json four = {{"free", 4}, {"freeAtMost", 4}, {"all", 4}};
    json first = four;
    first["numa"] = 0;
    json second = four;
    second["numa"] = 1;
    return json{{"resource", key},
                {"unhealthy", 0},
                {"total", {{"free", 8}, {"freeAtMost", 8}, {"all", 8}}},
                {"byNuma", {first, second}}};
  };
  return {{"name", name},
          {"report", "current"},
          {"states", json::array()},
          {"numa", {0, 1}},
          {"topologyManagerPolicy", "single-numa-node"},
          {"topologyManagerScope", "container"},
          {"kubeletVersion", "1.36"},
          {"configurationConfirmed", true},
          {"coolingDown", 0},
          {"misaligned", 0},
          {"accelerators", {resource("nvidia.com/gpu")}},
          {"endpoints", {resource("device.gpustack.ai/rdma")}}};
}

class FleetChecksTest : public ::testing::Test {
 protected:
  FleetChecksTest() {
    for (const char* name : {"a", "b", "c"}) nodes_["nodes"].push_back(Node(name));
  }
  json& At(std::size_t index) { return nodes_["nodes"][index]; }
  void Check() {
    findings_ = Findings();
    CheckFleet(nodes_, pods_, &findings_);
    complaints_.clear();
    for (const Finding& finding : findings_.all()) {
      if (finding.severity == Severity::kOk) continue;
      EXPECT_FALSE(finding.fix.empty()) << finding.code;
      complaints_.push_back((finding.severity == Severity::kFail ? "FAIL " : "WARN ") +
                            finding.code + ": " + finding.text);
      nodes_of_ = finding.nodes;
    }
  }
  // Exactly one complaint, about these nodes.
  void ExpectOne(const std::string& start, const std::string& text,
                 const std::vector<std::string>& nodes) {
    Check();
    EXPECT_THAT(complaints_, ElementsAre(AllOf(StartsWith(start + ": "), HasSubstr(text))));
    EXPECT_EQ(nodes_of_, nodes);
  }

  json nodes_ = {{"nodes", json::array()}};
  json pods_ = {{"pods", json::array()}};
  Findings findings_;
  std::vector<std::string> complaints_;
  std::vector<std::string> nodes_of_;
};

TEST_F(FleetChecksTest, AFleetInOrder) {
  Check();
  EXPECT_THAT(complaints_, IsEmpty());
  EXPECT_GE(findings_.Count(Severity::kOk), 11U);
}

TEST_F(FleetChecksTest, AnswersOfAnotherFormAreNoCrash) {
  for (const char* text : {"null", "3", "[]", R"({"nodes": 3})", R"({"nodes": [3, null, "x"]})",
                           R"({"nodes": [{"name": 3, "accelerators": {"a": 1}, "endpoints": [[]],
                               "sourceErrors": [1, {"source": 3}], "withoutNuma": "x",
                               "numa": 4, "kubeletVersion": [], "reportError": {}}]})"}) {
    nodes_ = json::parse(text);
    pods_ = nodes_;
    Check();
    SUCCEED() << text;
  }
}

TEST_F(FleetChecksTest, NobodyThere) {
  nodes_["nodes"] = json::array();
  ExpectOne("FAIL agent-missing", "knows no node", {});
}

TEST_F(FleetChecksTest, NodesWithoutAReport) {
  At(1)["report"] = "none";
  ExpectOne("WARN agent-missing", "fine for nodes without accelerators", {"b"});
  pods_["pods"].push_back({{"pod", "default/x"}, {"node", "b"}});
  ExpectOne("FAIL agent-missing", "1 node with accelerators or endpoints in use", {"b"});
}

TEST_F(FleetChecksTest, ReportsThatCannotBeUsed) {
  At(0)["reportError"] = "kubelet.topologyManagerPolicy: is \"\", expected none";
  ExpectOne("FAIL report-refused", "kubelet.topologyManagerPolicy", {"a"});
  EXPECT_THAT(findings_.all()[0].fix, HasSubstr("configz"));
  At(0)["reportError"] = "status.pods[1].uid: twice";
  ExpectOne("FAIL report-refused", "twice", {"a"});
  EXPECT_THAT(findings_.all()[0].fix, HasSubstr("versions"));
}

TEST_F(FleetChecksTest, LostAgents) {
  At(2)["report"] = "stale";
  ExpectOne("FAIL agent-lost", "1 node", {"c"});
}

TEST_F(FleetChecksTest, NodesKnownByCounts) {
  At(1)["report"] = "counts";
  ExpectOne("WARN counts-only", "1 node known by the counts", {"b"});
}

TEST_F(FleetChecksTest, ConfigzIsForbidden) {
  At(0)["sourceErrors"] = {{{"source", "configuration"}, {"error", "configz: 403 Forbidden"}}};
  At(0)["configurationConfirmed"] = false;
  ExpectOne("WARN configz-refused", "configz: 403 Forbidden", {"a"});
}

TEST_F(FleetChecksTest, AConfigurationFromFiles) {
  At(0)["configurationConfirmed"] = false;
  At(1)["configurationConfirmed"] = false;
  ExpectOne("WARN configz-refused", "2 nodes", {"a", "b"});
}

TEST_F(FleetChecksTest, SourcesThatCannotBeRead) {
  At(0)["sourceErrors"] = {
      {{"source", "node"},
       {"error", "nvidia.com/gpu: the kubelet counts 8 devices, and 7 were ever seen"}}};
  ExpectOne("WARN devices-unseen",
            "1 node: devices were broken before any agent ran there (nvidia.com/gpu: the kubelet "
            "counts 8 devices, and 7 were ever seen)",
            {"a"});
  const json error = {{"source", "pod-resources"}, {"error", "no such socket"}};
  At(0)["sourceErrors"] = json::array({error});
  At(2)["sourceErrors"] = json::array({error});
  ExpectOne("WARN source-error", "2 nodes: the agent cannot read pod-resources (no such socket)",
            {"a", "c"});
  EXPECT_THAT(findings_.all(),
              Contains(::testing::Field(&Finding::fix, HasSubstr("kubelet.sock"))));
}

TEST_F(FleetChecksTest, DevicesOfUnknownNuma) {
  At(1)["withoutNuma"] = {{{"resource", "rdma/hca_shared"}, {"devices", 63}}};
  ExpectOne("WARN numa-unknown", "rdma/hca_shared publishes no NUMA node", {"b"});
  EXPECT_THAT(findings_.all(), Contains(::testing::Field(&Finding::fix, HasSubstr("endpointMap"))));
  At(1)["numa"] = {0};  // one NUMA node: nothing to know
  Check();
  EXPECT_THAT(complaints_, IsEmpty());
}

TEST_F(FleetChecksTest, DevicesOfUnknownNumaInAFleetFile) {
  At(1).erase("configurationConfirmed");
  At(1)["endpoints"][0]["byNuma"].push_back({{"numa", nullptr}, {"all", 2}});
  Check();
  EXPECT_THAT(complaints_, Contains(HasSubstr("WARN numa-unknown")));
}

TEST_F(FleetChecksTest, PoliciesThatEnforceNothing) {
  for (const char* policy : {"none", "best-effort"}) {
    for (std::size_t i = 0; i < 3; ++i) At(i)["topologyManagerPolicy"] = policy;
    ExpectOne(std::string("WARN policy-") + policy, "3 nodes", {"a", "b", "c"});
    EXPECT_THAT(complaints_[0], HasSubstr(policy));
  }
  // Nothing to align.
  for (std::size_t i = 0; i < 3; ++i) At(i)["endpoints"] = json::array();
  Check();
  EXPECT_THAT(complaints_, IsEmpty());
}

TEST_F(FleetChecksTest, MixedPolicies) {
  At(2)["topologyManagerPolicy"] = "restricted";
  ExpectOne("WARN mixed-policies", "restricted/container on 1, single-numa-node/container on 2",
            {"c"});
  At(2)["topologyManagerPolicy"] = "single-numa-node";
  At(2)["topologyManagerScope"] = "pod";
  ExpectOne("WARN mixed-policies", "single-numa-node/pod on 1", {"c"});
  // Other hardware may have another policy.
  At(2)["accelerators"][0]["byNuma"][0]["all"] = 8;
  Check();
  EXPECT_THAT(complaints_, IsEmpty());
}

TEST_F(FleetChecksTest, KubeletsThatNobodyKnows) {
  At(0)["kubeletVersion"] = "1.33";
  At(1)["kubeletVersion"] = "1.40";
  ExpectOne("WARN kubelet-version", "kubelet 1.33, 1.40", {"a", "b"});
}

TEST_F(FleetChecksTest, Clocks) {
  At(0)["clockAheadSeconds"] = 5;
  At(1)["clockAheadSeconds"] = -30;
  Check();
  EXPECT_THAT(complaints_, IsEmpty());
  At(0)["clockAheadSeconds"] = 6;
  ExpectOne("WARN clock-skew", "up to 6 s ahead of", {"a"});
  At(1)["clockAheadSeconds"] = -31;
  ExpectOne("WARN clock-skew", "up to 31 s behind", {"a", "b"});
}

TEST_F(FleetChecksTest, WhatElseGoesWrong) {
  At(0)["coolingDown"] = 2;
  ExpectOne("WARN cooling-down", "1 node refused a Pod", {"a"});
  At(0)["coolingDown"] = 0;
  At(1)["endpoints"][0]["unhealthy"] = 1;
  ExpectOne("WARN unhealthy-devices", "1 device on 1 node is unhealthy", {"b"});
  At(1)["endpoints"][0]["unhealthy"] = 0;
  At(2)["misaligned"] = 3;
  ExpectOne("WARN misaligned", "3 containers on 1 node", {"c"});
}

}  // namespace
}  // namespace numafit::cli::doctor
