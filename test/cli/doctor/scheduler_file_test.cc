#include "cli/doctor/scheduler_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/yaml_tree.h"
#include "test/paths.h"

namespace numafit::cli::doctor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Shipped(const std::string& name) {
  return api::ReadTextFile(test::SourceDir() + "/scheduler-config/" + name).value();
}

Findings Check(const std::string& text, const json* fleet = nullptr, const std::string& url = "") {
  Findings findings;
  const absl::Status status =
      CheckSchedulerFile(text, {.file = "s.yaml", .extender_url = url, .fleet = fleet}, &findings);
  EXPECT_TRUE(status.ok()) << status;
  return findings;
}

// trial.yaml with one text in place of another.
Findings With(const std::string& old_text, const std::string& new_text,
              const json* fleet = nullptr) {
  std::string text = Shipped("trial.yaml");
  const std::size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  text.replace(at, old_text.size(), new_text);
  return Check(text, fleet);
}

// "FAIL code: text" of what is not fine.
std::vector<std::string> Complaints(const Findings& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings.all()) {
    if (finding.severity == Severity::kOk) continue;
    EXPECT_FALSE(finding.fix.empty()) << finding.code;
    lines.push_back((finding.severity == Severity::kFail ? "FAIL " : "WARN ") + finding.code +
                    ": " + finding.text);
  }
  return lines;
}

#define EXPECT_ONE(findings, line, text)                                             \
  do {                                                                               \
    const std::vector<std::string> lines = Complaints(findings);                     \
    ASSERT_EQ(lines.size(), 1U) << ::testing::PrintToString(lines);                  \
    EXPECT_THAT(lines[0], AllOf(::testing::StartsWith(line ": "), HasSubstr(text))); \
  } while (false)

TEST(SchedulerFile, WhatWeShipIsFine) {
  for (const char* name : {"trial.yaml", "dedicated-profile.yaml", "tls.yaml"}) {
    const Findings findings = Check(Shipped(name));
    EXPECT_THAT(Complaints(findings), IsEmpty()) << name;
    EXPECT_GE(findings.Count(Severity::kOk), 10U) << name;
  }
}

TEST(SchedulerFile, WhatIsNoSchedulerConfigurationIsAnError) {
  Findings findings;
  const auto error = [&](const std::string& text) {
    return std::string(CheckSchedulerFile(text,
                                          {.file = "s.yaml", .extender_url = "", .fleet = nullptr},
                                          &findings)
                           .message());
  };
  EXPECT_EQ(error("kind: Pod\n"), "s.yaml: kind: expected a KubeSchedulerConfiguration");
  EXPECT_EQ(error(""), "s.yaml: kind: expected a KubeSchedulerConfiguration");
  EXPECT_THAT(error("a: [1\n"), HasSubstr("s.yaml:"));
  EXPECT_THAT(findings.all(), IsEmpty());
}

TEST(SchedulerFile, WrongTypesAreNoCrash) {
  const std::string head =
      "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
  EXPECT_THAT(Complaints(Check(head + "profiles: x\nextenders: y\n")),
              ::testing::Contains(HasSubstr("FAIL extender-missing")));
  EXPECT_THAT(Complaints(Check(head + "profiles: [1, {pluginConfig: [2, {args: 3}]}]\n"
                                      "extenders: [{urlPrefix: 4, weight: x, httpTimeout: {}, "
                                      "managedResources: [5, {name: 6}], tlsConfig: 7}]\n")),
              ::testing::Contains(HasSubstr("FAIL extender-url")));
  EXPECT_THAT(Complaints(Check(head + "extenders: [text]\n")),
              ::testing::Contains(HasSubstr("FAIL extender-url")));
}

TEST(SchedulerFile, AnOldApiVersion) {
  EXPECT_ONE(With("config.k8s.io/v1", "config.k8s.io/v1beta3"), "FAIL scheduler-api-version",
             "v1beta3");
}

TEST(SchedulerFile, NoExtender) {
  std::string text = Shipped("trial.yaml");
  text.resize(text.find("extenders:"));
  EXPECT_ONE(Check(text), "FAIL extender-missing", "never asks numafit");
}

TEST(SchedulerFile, WhichExtenderIsNumafit) {
  const std::string others = Shipped("trial.yaml") + "- urlPrefix: http://127.0.0.1:9000\n";
  EXPECT_THAT(Complaints(Check(others)), IsEmpty()) << "told by the port";
  std::string unclear = others;
  unclear.replace(unclear.find(":8888"), 5, ":9001");
  EXPECT_ONE(Check(unclear), "FAIL extender-missing", "has 2 entries");
  EXPECT_THAT(Complaints(Check(unclear, nullptr, "http://127.0.0.1:9001")), IsEmpty());
  EXPECT_ONE(Check(others + "  bindVerb: bind\n"), "FAIL second-binder", "extenders[1]");
}

TEST(SchedulerFile, SampledNodes) {
  EXPECT_ONE(With("percentageOfNodesToScore: 100", "percentageOfNodesToScore: 99"),
             "WARN sampled-nodes", "for profile default-scheduler");
  EXPECT_ONE(With("  percentageOfNodesToScore: 100\n", ""), "WARN sampled-nodes", "sample");
  // The global one stands in for the profile's.
  EXPECT_THAT(
      Complaints(With("  percentageOfNodesToScore: 100\n", "percentageOfNodesToScore: 100\n")),
      IsEmpty());
  json fleet = {{"nodes", json::array()}};
  for (int i = 0; i < 99; ++i) fleet["nodes"].push_back(json::object());
  EXPECT_THAT(Complaints(With("  percentageOfNodesToScore: 100\n", "", &fleet)), IsEmpty());
  fleet["nodes"].push_back(json::object());
  EXPECT_ONE(With("  percentageOfNodesToScore: 100\n", "", &fleet), "WARN sampled-nodes", "100");
}

TEST(SchedulerFile, UnknownFields) {
  EXPECT_THAT(Complaints(With("nodeCacheCapable:", "nodeCacheCapble:")),
              ::testing::ElementsAre(
                  HasSubstr("FAIL extender-unknown-field: s.yaml: extenders[0].nodeCacheCapble"),
                  HasSubstr("WARN extender-node-names")));
}

TEST(SchedulerFile, Urls) {
  EXPECT_ONE(With("http://127.0.0.1:8888", "127.0.0.1:8888"), "FAIL extender-url", "no URL");
  EXPECT_ONE(With("http://127.0.0.1:8888", "http://127.0.0.1:8888/numafit/"), "WARN extender-url",
             "the path /numafit");
  EXPECT_ONE(With("http://127.0.0.1:8888", "http://numafit.example:8888"), "WARN extender-tls",
             "plain HTTP to numafit.example");
  EXPECT_ONE(With("ignorable: false", "enableHTTPS: true"), "FAIL extender-tls",
             "begins with http:// although TLS is set up");
  EXPECT_ONE(With("http://127.0.0.1:8888", "https://127.0.0.1:8888\n  enableHTTPS: true"),
             "WARN extender-tls", "any certificate");
  EXPECT_THAT(Complaints(With("http://127.0.0.1:8888", "http://[::1]:8888")), IsEmpty());
}

TEST(SchedulerFile, Verbs) {
  EXPECT_ONE(With("filterVerb: filter\n", "\n"), "FAIL extender-verbs", "filterVerb is not set");
  EXPECT_ONE(With("  bindVerb: bind\n", ""), "FAIL extender-verbs", "bindVerb is not set");
  EXPECT_ONE(With("  preemptVerb: preempt\n", ""), "WARN extender-verbs", "kills Pods");
  EXPECT_ONE(With("  prioritizeVerb: prioritize\n", ""), "WARN extender-verbs", "break up");
  EXPECT_ONE(With("filterVerb: filter", "filterVerb: predicates"), "FAIL extender-verbs",
             "is \"predicates\": numafit serves /filter");
}

TEST(SchedulerFile, Behaviour) {
  EXPECT_ONE(With("ignorable: false", "ignorable: true"), "FAIL extender-ignorable", "ignorable");
  EXPECT_ONE(With("nodeCacheCapable: true", "nodeCacheCapable: false"), "WARN extender-node-names",
             "whole Node objects");
}

TEST(SchedulerFile, Timeouts) {
  EXPECT_ONE(With("httpTimeout: 5s", "httpTimeout: 4s"), "WARN extender-timeout", "is 4s");
  EXPECT_ONE(With("httpTimeout: 5s", "httpTimeout: 1m30s"), "WARN extender-timeout", "1m30s");
  EXPECT_ONE(With("httpTimeout: 5s", "httpTimeout: soon"), "FAIL extender-timeout", "soon");
  EXPECT_ONE(With("httpTimeout: 5s", "httpTimeout: 5"), "FAIL extender-timeout", "a unit");
  EXPECT_THAT(Complaints(With("  httpTimeout: 5s\n", "")), IsEmpty()) << "5 s is the default";
}

TEST(SchedulerFile, Weights) {
  EXPECT_ONE(With("weight: 150", "weight: 1"), "WARN extender-weight", "counts 10");
  EXPECT_ONE(With("weight: 150", "weight: 140"), "WARN extender-weight", "up to 1400");
  EXPECT_THAT(Complaints(With("weight: 150", "weight: 141")), IsEmpty());
  EXPECT_ONE(With("  weight: 150\n", ""), "FAIL extender-weight", "does not start");
}

TEST(SchedulerFile, ManagedResources) {
  const auto with = [](const std::string& list, const json* fleet = nullptr) {
    return With("ignorable: false", "ignorable: false\n  managedResources: " + list, fleet);
  };
  EXPECT_THAT(Complaints(with("[{name: nvidia.com/gpu}, {name: device.gpustack.ai/rdma}]")),
              IsEmpty());
  EXPECT_ONE(with("[{name: nvidia.com/gpu}]"), "WARN managed-resources", "no RDMA endpoint");
  EXPECT_ONE(with("[{name: device.gpustack.ai/rdma}]"), "WARN managed-resources", "no accelerator");
  EXPECT_ONE(with("[{name: nvidia.com/gpu, ignoredByScheduler: true}, "
                  "{name: device.gpustack.ai/rdma}]"),
             "FAIL resource-not-counted", "of nvidia.com/gpu sets ignoredByScheduler");
  EXPECT_ONE(with("[{name: nvidia.com/gpu}, {name: device.gpustack.ai/rdma}, {name: cpu}]"),
             "FAIL managed-resources", "\"cpu\", no extended resource");
  const json fleet = json::parse(R"({"nodes": [{"accelerators": [{"resource": "nvidia.com/gpu"}],
      "endpoints": [{"resource": "device.gpustack.ai/rdma"}, {"resource": "rdma/hca_a"}]}]})");
  EXPECT_ONE(with("[{name: nvidia.com/gpu}]", &fleet), "FAIL managed-resources",
             "lacks device.gpustack.ai/rdma, rdma/hca_a");
}

TEST(SchedulerFile, IgnoredResourcesOfThePlugin) {
  EXPECT_ONE(With("  percentageOfNodesToScore: 100\n", R"(  percentageOfNodesToScore: 100
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/foo, nvidia.com/gpu]}
)"),
             "FAIL resource-not-counted", "has nvidia.com/gpu");
}

}  // namespace
}  // namespace numafit::cli::doctor
