#include "api/extender.h"

#include <gtest/gtest.h>

#include <string>

namespace numafit::api {
namespace {

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ExtenderBindingArgsTest, ReadsWhatKubeSchedulerSends) {
  const auto args = ParseExtenderBindingArgs(
      R"({"PodName":"train","PodNamespace":"default","PodUID":"640d","Node":"rack1-gpu1"})");
  ASSERT_TRUE(args.ok()) << args.status();
  EXPECT_EQ(args->pod_name, "train");
  EXPECT_EQ(args->pod_namespace, "default");
  EXPECT_EQ(args->pod_uid, "640d");
  EXPECT_EQ(args->node, "rack1-gpu1");
}

TEST(ExtenderBindingArgsTest, KeysMatchWithoutCaseAndNullsAreEmpty) {
  const auto args =
      ParseExtenderBindingArgs(R"({"podName":"a","PODNAMESPACE":null,"poduid":"u","extra":[1]})");
  ASSERT_TRUE(args.ok()) << args.status();
  EXPECT_EQ(args->pod_name, "a");
  EXPECT_EQ(args->pod_namespace, "");
  EXPECT_EQ(args->pod_uid, "u");
  EXPECT_EQ(args->node, "");
  EXPECT_TRUE(ParseExtenderBindingArgs("null").ok());
}

TEST(ExtenderBindingArgsTest, ErrorsNamePlaceOrByte) {
  EXPECT_EQ(Message(ParseExtenderBindingArgs(R"({"PodName":[]})").status()),
            "PodName: expected a string, got array");
  EXPECT_EQ(Message(ParseExtenderBindingArgs("[]").status()),
            "document: expected an object, got array");
  EXPECT_NE(Message(ParseExtenderBindingArgs(R"({"PodName":"a",})").status()).find("at byte 16"),
            std::string::npos);
}

TEST(ExtenderPreemptionArgsTest, ReadsVictimsByUidAndAsWholePods) {
  const auto by_uid = ParseExtenderPreemptionArgs(
      R"({"Pod":{"metadata":{"name":"p"},"spec":{"priority":7}},"NodeNameToVictims":null,)"
      R"("NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":2}}})");
  ASSERT_TRUE(by_uid.ok()) << by_uid.status();
  EXPECT_TRUE(by_uid->has_pod);
  EXPECT_EQ(by_uid->pod.priority, 7);
  ASSERT_EQ(by_uid->victims.size(), 1U);
  EXPECT_EQ(by_uid->victims.at("n1").uids, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(by_uid->victims.at("n1").pdb_violations, 2);
  const auto whole = ParseExtenderPreemptionArgs(
      R"({"NodeNameToVictims":{"n2":{"Pods":[{"metadata":{"uid":"c"}}]}}})");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE(whole->has_pod);
  EXPECT_EQ(whole->victims.at("n2").uids, std::vector<std::string>{"c"});
}

TEST(ExtenderPreemptionArgsTest, ErrorsNameThePlace) {
  EXPECT_EQ(
      Message(
          ParseExtenderPreemptionArgs(R"({"NodeNameToMetaVictims":{"n":{"Pods":[3]}}})").status()),
      "NodeNameToMetaVictims.n.Pods[0]: expected an object, got number");
  EXPECT_FALSE(
      ParseExtenderPreemptionArgs(R"({"NodeNameToMetaVictims":{"n":{"NumPDBViolations":-1}}})")
          .ok());
  EXPECT_TRUE(ParseExtenderPreemptionArgs("null").ok());
}

TEST(ExtenderPreemptionResultTest, WritesTheExactGoNamesAndReadsBack) {
  ExtenderPreemptionResult result;
  result.victims["n1"] = {.uids = {"a"}, .pdb_violations = 1};
  const std::string text = ToJson(result);
  EXPECT_EQ(text,
            R"({"NodeNameToMetaVictims":{"n1":{"NumPDBViolations":1,"Pods":[{"UID":"a"}]}}})");
  const auto back = ParseExtenderPreemptionResult(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->victims.at("n1").uids, std::vector<std::string>{"a"});
  EXPECT_EQ(ToJson(ExtenderPreemptionResult{}), R"({"NodeNameToMetaVictims":{}})");
}

TEST(ExtenderJsonTest, WritesTheExactGoNames) {
  EXPECT_EQ(ToJson(ExtenderBindingResult{.error = "no \"room\""}), R"({"Error":"no \"room\""})");
  EXPECT_EQ(ToJson(HostPriorityList{{"n1", 10}, {"n2", 0}}),
            R"([{"Host":"n1","Score":10},{"Host":"n2","Score":0}])");
  EXPECT_EQ(ToJson(HostPriorityList{}), "[]");
  ExtenderFilterResult result;
  result.node_names = {"n1"};
  result.failed_nodes = {{"n2", "x"}};
  result.failed_and_unresolvable_nodes = {{"n3", "y"}};
  EXPECT_EQ(ToJson(result),
            R"({"Error":"","FailedAndUnresolvableNodes":{"n3":"y"},"FailedNodes":{"n2":"x"},)"
            R"("NodeNames":["n1"],"Nodes":null})");
}

TEST(ExtenderJsonTest, AnswersReadBack) {
  ExtenderFilterResult result;
  result.node_names = std::vector<std::string>{};
  result.failed_and_unresolvable_nodes = {{"n3", "y"}};
  result.error = "e";
  Node node;
  node.metadata.name = "n9";
  result.nodes = {node};
  const auto read = ParseExtenderFilterResult(ToJson(result));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->node_names.has_value());
  EXPECT_TRUE(read->node_names->empty());
  ASSERT_TRUE(read->nodes.has_value());
  EXPECT_EQ(read->nodes->at(0).metadata.name, "n9");
  EXPECT_EQ(read->failed_and_unresolvable_nodes.at("n3"), "y");
  EXPECT_EQ(read->error, "e");

  const auto priorities = ParseHostPriorityList(ToJson(HostPriorityList{{"n1", -3}}));
  ASSERT_TRUE(priorities.ok());
  EXPECT_EQ(priorities->at(0).host, "n1");
  EXPECT_EQ(priorities->at(0).score, -3);
  // Go refuses what is no integer literal; so do we when we play the scheduler.
  EXPECT_FALSE(ParseHostPriorityList(R"([{"Host":"n1","Score":9.5}])").ok());
  EXPECT_FALSE(ParseHostPriorityList(R"({"Host":"n1"})").ok());
  EXPECT_EQ(ParseExtenderBindingResult(R"({"error":"x"})")->error, "x");
}

TEST(ExtenderArgsTest, BothRequestFormsReadBack) {
  ExtenderArgs args;
  args.pod.metadata.name = "p";
  args.node_names = {"n1", "n2"};
  const auto names = ParseExtenderArgs(ToJson(args));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->pod.metadata.name, "p");
  EXPECT_EQ(names->node_names->size(), 2U);
  EXPECT_FALSE(names->nodes.has_value());

  Node node;
  node.metadata.name = "n1";
  args.node_names.reset();
  args.nodes = {node};
  const auto nodes = ParseExtenderArgs(ToJson(args));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_FALSE(nodes->node_names.has_value());
  EXPECT_EQ(nodes->nodes->at(0).metadata.name, "n1");
}

TEST(ExtenderArgsTest, AWrongTypeInsideTheObjectsNamesItsPath) {
  EXPECT_EQ(Message(ParseExtenderArgs(R"({"Pod":{"spec":{"nodeName":1}}})").status()),
            "Pod: spec.nodeName: expected a string, got number");
  EXPECT_EQ(Message(ParseExtenderArgs(R"({"Nodes":{"items":[{"status":1}]}})").status()),
            "Nodes.items[0]: status: expected an object, got number");
  EXPECT_EQ(Message(ParseExtenderArgs(R"({"NodeNames":["a",1]})").status()),
            "NodeNames[1]: expected a string, got number");
}

}  // namespace
}  // namespace numafit::api
