#include "cache/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cache/demand.h"
#include "cache/pod_file.h"
#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

using policy::Alignment;
using policy::Reason;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A node in a state: how many GPUs and endpoints are taken on NUMA 0, 1, …
struct Taken {
  std::vector<int> gpus;
  std::vector<int> endpoints;
};

policy::DeviceHolding HoldingOf(const policy::Topology& topology, const Taken& taken) {
  policy::DeviceHolding holding;
  for (int i = 0; i < static_cast<int>(topology.classes().size()); ++i) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(i)];
    const auto& pool = topology.pools()[static_cast<std::size_t>(topology.FindPool(test::kGpu))];
    const bool gpu = i >= pool.first_class && i < pool.first_class + pool.class_count;
    const std::vector<int>& counts = gpu ? taken.gpus : taken.endpoints;
    const auto numa = static_cast<std::size_t>(device_class.numa.first());
    if (numa < counts.size() && counts[numa] > 0) holding.push_back({i, counts[numa]});
  }
  return holding;
}

class ExplainTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, const test::Machine& machine, const Taken& taken = {}) {
    auto state = std::make_shared<NodeState>();
    state->id = next_id_++;
    state->topology = test::Make(machine);
    policy::Usage usage(*state->topology);
    const policy::DeviceHolding holding = HoldingOf(*state->topology, taken);
    usage.Add(holding);
    state->knowledge.usages = {usage};
    NodeView view;
    view.name = name;
    view.state = state;
    if (!holding.empty()) {
      view.pods.push_back({.name = "default/on-" + name,
                           .uid = "u",
                           .reserved = false,
                           .admitted = true,
                           .demand = {},
                           .held = holding});
    }
    fleet_.push_back(std::move(view));
  }
  Explanation Ask(const policy::Demand& demand, ExplainOptions options = {}) {
    return Explain(fleet_, "default/p", demand, options).value();
  }
  std::string AnswerFor(const test::Machine& machine, const Taken& taken,
                        const policy::Demand& demand) {
    fleet_.clear();
    Add("n", machine, taken);
    return Ask(demand).answers.at(0).answer;
  }

  std::vector<NodeView> fleet_;
  std::uint64_t next_id_ = 1;
};

TEST_F(ExplainTest, CountsTheNodesAndNamesTheBest) {
  Add("full", test::kEven, {{4, 4}, {4, 4}});
  Add("half", test::kEven, {{4, 0}, {4, 0}});
  Add("split", test::kEven, {{1, 2}, {0, 0}});
  Add("chance", test::kUnaligned);
  const Explanation explanation = Ask(*test::Want(4, 4));
  EXPECT_EQ(explanation.nodes, 4);
  EXPECT_EQ(explanation.fit, 2);
  EXPECT_EQ(explanation.guaranteed, 1);
  EXPECT_EQ(explanation.best, "half");
  EXPECT_THAT(explanation.wants, AllOf(HasSubstr("4 nvidia.com/gpu + 4 device.gpustack.ai/rdma"),
                                       HasSubstr("container main")));
  ASSERT_EQ(explanation.answers.size(), 4U);
  EXPECT_EQ(explanation.answers[0].node, "half");
  EXPECT_EQ(explanation.answers[1].node, "chance");
  EXPECT_EQ(explanation.answers[1].alignment, Alignment::kPossible);
  EXPECT_EQ(explanation.answers[2].reason, Reason::kNumaFragmented);
  EXPECT_TRUE(explanation.help.empty()) << "it fits somewhere";
}

TEST_F(ExplainTest, EveryNoNamesTheFirstObstacleWithItsNumbers) {
  const auto four = test::Want(4, 4);
  EXPECT_THAT(
      AnswerFor(test::kEven, {{1, 2}, {0, 0}}, *four),
      AllOf(HasSubstr("5 nvidia.com/gpu are free"), HasSubstr("3 at most on one NUMA node")));
  EXPECT_THAT(AnswerFor(test::kEven, {{4, 3}, {0, 0}}, *four),
              HasSubstr("1 of 8 nvidia.com/gpu are free, 4 are wanted"));
  EXPECT_THAT(AnswerFor(test::kEven, {{0, 2}, {2, 0}}, *four),
              AllOf(HasSubstr("are free, but not on one NUMA node"),
                    HasSubstr("nearest is 4 + 2 on NUMA 0")));
  EXPECT_THAT(AnswerFor(test::kEven, {}, *test::Want(9, 1)),
              AllOf(HasSubstr("never"), HasSubstr("8 nvidia.com/gpu in all, 9 are wanted")));
  EXPECT_THAT(AnswerFor(test::kEven, {}, *test::Want(5, 5)),
              AllOf(HasSubstr("never"), HasSubstr("even when empty")));
  policy::Demand other = *test::Want(1, 0);
  other.containers[0].devices = {{"amd.com/gpu", 1}};
  other.accelerators = {"amd.com/gpu"};
  EXPECT_THAT(AnswerFor(test::kEven, {}, other), HasSubstr("this node has no amd.com/gpu"));
}

TEST_F(ExplainTest, SaysPlainlyWhenTheKubeletIsAtFault) {
  test::Machine restricted = test::kEven;
  restricted.policy = policy::TopologyPolicy::kRestricted;
  const std::string answer = AnswerFor(restricted, {}, *test::Want(8, 1));
  EXPECT_THAT(answer, AllOf(HasSubstr("the kubelet would refuse it"), HasSubstr("8 gpu need 2"),
                            HasSubstr("1 rdma need 1"), HasSubstr("TopologyAffinityError")));
}

TEST_F(ExplainTest, SaysWhereItLands) {
  EXPECT_THAT(AnswerFor(test::kEven, {{1, 0}, {1, 0}}, *test::Want(2, 2)),
              AllOf(HasSubstr("fits on NUMA 0"), HasSubstr("leaves NUMA 1 whole")));
  EXPECT_EQ(AnswerFor(test::kEven, {{4, 1}, {4, 1}}, *test::Want(2, 2)), "fits on NUMA 1");
  EXPECT_THAT(AnswerFor(test::kUnaligned, {}, *test::Want(2, 2)),
              HasSubstr("possible, not guaranteed"));
  policy::Demand nothing;
  nothing.containers.emplace_back().name = "c";
  EXPECT_EQ(AnswerFor(test::kEven, {}, nothing), "fits");
}

TEST_F(ExplainTest, EqualAnswersAreFoldedAndUnfolded) {
  for (int i = 0; i < 5; ++i) Add("n" + std::to_string(i), test::kEven, {{1, 2}, {0, 0}});
  const Explanation folded = Ask(*test::Want(4, 4));
  ASSERT_EQ(folded.answers.size(), 1U);
  EXPECT_THAT(folded.answers[0].alike, ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_EQ(Ask(*test::Want(4, 4), {.strategy = nullptr, .fold = false, .node = ""}).answers.size(),
            5U);
  const Explanation one = Ask(*test::Want(4, 4), {.strategy = nullptr, .fold = true, .node = "n3"});
  EXPECT_EQ(one.nodes, 1);
  EXPECT_EQ(one.answers[0].node, "n3");
  EXPECT_EQ(
      Explain(fleet_, "p", *test::Want(1, 1), {.strategy = nullptr, .fold = true, .node = "x"})
          .status()
          .code(),
      absl::StatusCode::kNotFound);
}

TEST_F(ExplainTest, TheNearestMissStandsForTheOthers) {
  Add("far", test::kEven, {{4, 3}, {0, 0}});
  Add("near", test::kEven, {{4, 1}, {0, 0}});
  const Explanation explanation = Ask(*test::Want(4, 4));
  ASSERT_EQ(explanation.answers.size(), 1U);
  EXPECT_EQ(explanation.answers[0].node, "near");
  EXPECT_THAT(explanation.answers[0].answer, HasSubstr("3 of 8"));
  EXPECT_THAT(explanation.answers[0].alike, ElementsAre("far"));
}

TEST_F(ExplainTest, SaysWhatWouldHelp) {
  Add("a", test::kEven, {{1, 0}, {0, 0}});
  Add("b", test::kEven, {{2, 2}, {2, 2}});
  fleet_[0].pods[0].name = "default/small";
  // Take the rest of a's NUMA 1 with a Pod whose place is not known: no move is offered for it.
  auto state = std::make_shared<NodeState>(*fleet_[0].state);
  state->knowledge.usages[0].Add(HoldingOf(*state->topology, {{0, 2}, {0, 0}}));
  fleet_[0].state = state;
  const Explanation explanation = Ask(*test::Want(4, 4));
  EXPECT_EQ(explanation.fit, 0);
  EXPECT_TRUE(explanation.best.empty());
  ASSERT_EQ(explanation.help.size(), 3U);
  EXPECT_EQ(explanation.help[0].kind, "smaller");
  EXPECT_EQ(explanation.help[0].nodes, 2);
  EXPECT_THAT(explanation.help[0].text, HasSubstr("2 gpu + 2 rdma"));
  EXPECT_EQ(explanation.help[1].kind, "move");
  EXPECT_EQ(explanation.help[1].pod, "default/small");
  EXPECT_EQ(explanation.help[1].node, "a");
}

TEST_F(ExplainTest, RangesShowWhatIsNotCertain) {
  Add("n", test::kEven);
  auto state = std::make_shared<NodeState>(*fleet_[0].state);
  policy::Usage other = state->knowledge.usages[0];
  other.Add(HoldingOf(*state->topology, {{2, 0}, {0, 0}}));
  state->knowledge.usages.push_back(other);
  const ResourceFree free = FreeDevices(*state, state->topology->FindPool(test::kGpu));
  ASSERT_EQ(free.by_numa.size(), 2U);
  EXPECT_EQ(free.by_numa[0].at_least, 2);
  EXPECT_EQ(free.by_numa[0].at_most, 4);
  EXPECT_EQ(free.by_numa[1].at_least, 4);
  EXPECT_EQ(free.total.at_least, 6);
  EXPECT_EQ(free.total.all, 8);
}

TEST_F(ExplainTest, PodsOnTheirWayMakeItWait) {
  Add("n", test::kEven);
  auto state = std::make_shared<NodeState>(*fleet_[0].state);
  state->knowledge.settling = true;
  state->pending = {test::Want(1, 1), test::Want(1, 1)};
  EXPECT_THAT(AnswerOf(*state, *test::Want(1, 1), JudgeOnNode(*state, *test::Want(1, 1), nullptr)),
              HasSubstr("wait: 2 earlier Pods have not shown yet where they landed"));
}

TEST_F(ExplainTest, JsonHasTheSameWords) {
  Add("n", test::kEven, {{1, 2}, {0, 0}});
  const auto json = nlohmann::json::parse(ToJson(Ask(*test::Want(4, 4))));
  EXPECT_EQ(json["pod"], "default/p");
  EXPECT_EQ(json["fit"], 0);
  EXPECT_TRUE(json["best"].is_null());
  const auto& answer = json["answers"][0];
  EXPECT_EQ(answer["node"], "n");
  EXPECT_EQ(answer["reason"], "numa-fragmented");
  EXPECT_EQ(answer["topologyManagerPolicy"], "single-numa-node");
  EXPECT_EQ(answer["resources"][0]["resource"], test::kGpu);
  EXPECT_EQ(answer["resources"][0]["byNuma"][1]["numa"], 1);
  EXPECT_EQ(answer["resources"][0]["byNuma"][1]["free"], 2);
  EXPECT_EQ(answer["resources"][0]["byNuma"][1]["all"], 4);

  const auto nodes = nlohmann::json::parse(NodesToJson(fleet_, api::ResourceClasses()));
  ASSERT_EQ(nodes["nodes"].size(), 1U);
  EXPECT_EQ(nodes["nodes"][0]["largestAligned"],
            nlohmann::json({{"numa", 0}, {"accelerators", 3}, {"endpoints", 4}}));
  EXPECT_EQ(nodes["nodes"][0]["accelerators"][0]["total"]["free"], 5);
}

TEST(PodFile, TakesWhatPeopleHave) {
  const auto names = [](std::string_view text) {
    std::vector<std::string> result;
    const auto pods = ParsePods(text, "f.yaml");
    if (!pods.ok()) return std::vector<std::string>{std::string(pods.status().message())};
    for (const api::Pod& pod : *pods) result.push_back(pod.FullName());
    return result;
  };
  EXPECT_THAT(names("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"),
              ElementsAre("default/a"));
  EXPECT_THAT(
      names("{\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\", \"namespace\": \"x\"}}"),
      ElementsAre("x/a"));
  EXPECT_THAT(
      names("kind: ConfigMap\n---\nkind: Job\nmetadata: {name: j, namespace: n}\nspec:\n  "
            "template:\n    spec: {containers: [{name: c}]}\n---\nkind: CronJob\nmetadata: "
            "{name: k}\nspec: {jobTemplate: {spec: {template: {spec: {containers: []}}}}}\n"),
      ElementsAre("n/j", "default/k"));
  EXPECT_THAT(names("kind: List\nitems:\n- kind: Pod\n  metadata: {generateName: g-}\n"),
              ElementsAre("default/g-"));
  EXPECT_THAT(names("kind: Service\n"),
              ElementsAre(AllOf(HasSubstr("f.yaml: has no Pod"), HasSubstr("only Service"))));
  EXPECT_THAT(names("- 1\n"), ElementsAre(HasSubstr("f.yaml:1: is no Kubernetes object")));
  EXPECT_THAT(names("kind: Pod\nspec: {containers: {}}\n"),
              ElementsAre(AllOf(HasSubstr("f.yaml:1"), HasSubstr("containers"))));
  EXPECT_THAT(names("kind: Pod\nspec: [\n"), ElementsAre(HasSubstr("f.yaml:3")));
}

TEST(PodFile, QuotedAndPlainNumbersAreQuantities) {
  const auto pods = ParsePods(
      "kind: Pod\nspec:\n  containers:\n  - name: c\n    resources:\n      limits: {a/b: 2, a/c: "
      "\"3\", cpu: 1.5}\n",
      "f");
  ASSERT_TRUE(pods.ok()) << pods.status();
  const api::ResourceList& limits = pods->at(0).containers[0].resources.limits;
  EXPECT_EQ(limits.at("a/b").value(), 2);
  EXPECT_EQ(limits.at("a/c").value(), 3);
  EXPECT_EQ(limits.at("cpu").milli(), 1500);
}

}  // namespace
}  // namespace numafit::cache
