#include "extender/config.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace numafit::extender {
namespace {

constexpr char kHead[] = "apiVersion: numafit.io/v1alpha1\nkind: ExtenderConfiguration\n";

std::string Error(const std::string& text) {
  Config config;
  return std::string(ApplyConfigText(kHead + text, "extender.yaml", &config).message());
}

TEST(ConfigFileTest, ReadsEveryKey) {
  Config config;
  const absl::Status status = ApplyConfigText(std::string(kHead) + R"(
listen: ":9000"
readListen: ""
workers: 3
bindWorkers: 5
maxConnections: 7
bodyLimit: 64Mi
bufferLimit: 1Gi
bestNodes: 0
scoreStrategy: fewest-numa
alignment:
  default: preferred
  namespaces: {team-a: guaranteed}
resourceClasses:
- {pattern: "example.com/*", kind: accelerator}
unknownNodes: pass
inventory: reports
nodeResourceTopology: true
staleNodes: refuse
coolDownMilliseconds: 77
offerMilliseconds: 0
verdictShapes: 9
bindTimeoutMilliseconds: 1234
kubeconfig: config
log: {level: warn, decisionsPerSecond: 11}
)",
                                              "extender.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.listen, ":9000");
  EXPECT_EQ(config.read_listen, "");
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config.bind_workers, 5);
  EXPECT_EQ(config.max_connections, 7);
  EXPECT_EQ(config.body_limit, 64U << 20);
  EXPECT_EQ(config.buffer_limit, 1U << 30);
  EXPECT_EQ(config.best_nodes, 0U);
  EXPECT_EQ(config.score_strategy, "fewest-numa");
  EXPECT_EQ(config.default_alignment, policy::AlignmentNeed::kPreferred);
  EXPECT_EQ(config.namespace_alignment.at("team-a"), policy::AlignmentNeed::kGuaranteed);
  ASSERT_EQ(config.resource_classes.size(), 1U);
  EXPECT_EQ(config.resource_classes[0].kind, api::ResourceKind::kAccelerator);
  EXPECT_EQ(config.unknown_nodes, UnknownNodes::kPass);
  EXPECT_TRUE(config.node_resource_topology);
  EXPECT_TRUE(config.inventory_from_reports);
  EXPECT_TRUE(config.refuse_stale_nodes);
  EXPECT_EQ(config.cool_down_ms, 77);
  EXPECT_EQ(config.offer_ttl_ms, 0);
  EXPECT_EQ(config.verdict_shapes, 9U);
  EXPECT_EQ(config.bind_timeout_ms, 1234);
  EXPECT_EQ(config.kubeconfig, "config");
  EXPECT_EQ(config.log_level, LogLevel::kWarn);
  EXPECT_EQ(config.log_decisions_per_second, 11);
  EXPECT_TRUE(Validate(config).ok());
}

TEST(ConfigFileTest, ErrorsNameFileLinePathAndWhatWasExpected) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"bestNode: 5", "extender.yaml:3: bestNode"},
           {"alignment: {defaults: fit}", "extender.yaml:3: alignment.defaults"},
           {"alignment: {default: always}", "one of guaranteed, fit, preferred"},
           {"bestNodes: many", "extender.yaml:3: bestNodes"},
           {"bodyLimit: -1", "extender.yaml:3: bodyLimit"},
           {"unknownNodes: maybe", "one of refuse, pass"},
           {"inventory: guess", "one of file, reports"},
           {"staleNodes: 1", "one of use, refuse"},
           {"resourceClasses: [{pattern: a/b, kind: gpu}]", "resourceClasses[0].kind"},
           {"log: {level: loud}", "one of debug, info, warn, error, off"}}) {
    EXPECT_NE(Error(text).find(expected), std::string::npos) << Error(text);
  }
  Config config;
  EXPECT_FALSE(ApplyConfigText("kind: ExtenderConfiguration", "f", &config).ok());
  EXPECT_FALSE(
      ApplyConfigText("apiVersion: numafit.io/v1\nkind: ExtenderConfiguration", "f", &config).ok());
  EXPECT_FALSE(ApplyConfigFile("/does/not/exist.yaml", &config).ok());
}

TEST(CommandLineTest, FlagsOverrideTheFileWhereverItStands) {
  const std::string file = testing::TempDir() + "/numafit-extender-config-test.yaml";
  FILE* out = std::fopen(file.c_str(), "w");
  ASSERT_NE(out, nullptr);
  std::fputs((std::string(kHead) + "bestNodes: 10\nworkers: 4\n").c_str(), out);
  std::fclose(out);
  const absl::StatusOr<CommandLine> line = ParseCommandLine(
      {"--best-nodes=20", "--config", file, "--no-cluster", "--body-limit", "32Mi"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.best_nodes, 20U);
  EXPECT_EQ(line->config.workers, 4);
  EXPECT_EQ(line->config.body_limit, 32U << 20);
  EXPECT_TRUE(line->config.no_cluster);
}

TEST(CommandLineTest, ErrorsNameTheFlag) {
  for (const auto& [words, expected] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--best-node", "5"}, "unknown flag --best-node"},
           {{"--best-nodes"}, "--best-nodes needs a value"},
           {{"--best-nodes", "x"}, "--best-nodes: \"x\" is not a number"},
           {{"--no-cluster=yes"}, "--no-cluster takes no value"},
           {{"serve"}, "unexpected argument \"serve\""},
           {{"--simulate-binds"}, "--simulate-binds needs --no-cluster"},
           {{"--no-cluster", "--score-strategy", "best"}, "is not one of"},
           {{"--log-level", "loud"}, "--log-level"}}) {
    const absl::StatusOr<CommandLine> line = ParseCommandLine(words);
    ASSERT_FALSE(line.ok());
    EXPECT_NE(std::string(line.status().message()).find(expected), std::string::npos)
        << line.status();
  }
}

TEST(CommandLineTest, HelpNamesEveryFlag) {
  EXPECT_TRUE(ParseCommandLine({"--help"})->help);
  EXPECT_TRUE(ParseCommandLine({"--version"})->version);
  for (const char* flag : {"--config", "--fleet", "--kubeconfig", "--no-cluster", "--listen"}) {
    EXPECT_NE(HelpText().find(flag), std::string::npos);
  }
}

}  // namespace
}  // namespace numafit::extender
