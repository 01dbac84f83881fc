#include "cache/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cache/demand.h"
#include "cache/explain_compute.h"
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
                           .state = PodOnNode::State::kObserved,
                           .admitted = true,
                           .demand = {},
                           .may_hold = {holding},
                           .places = nullptr});
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
  EXPECT_EQ(Ask(*test::Want(4, 4), {.strategy = nullptr, .fold = false, .node = "", .uid = ""})
                .answers.size(),
            5U);
  const Explanation one =
      Ask(*test::Want(4, 4), {.strategy = nullptr, .fold = true, .node = "n3", .uid = ""});
  EXPECT_EQ(one.nodes, 1);
  EXPECT_EQ(one.answers[0].node, "n3");
  EXPECT_EQ(Explain(fleet_, "p", *test::Want(1, 1),
                    {.strategy = nullptr, .fold = true, .node = "x", .uid = ""})
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

// --- CPUs and memory

constexpr std::int64_t kGi = std::int64_t{1} << 30;

// Two NUMA nodes with 4 + 4 devices, 8 CPUs and 32 GiB each; CPU 0 and 1 GiB are reserved.
policy::TopologySpec ComputeSpec(policy::TopologyPolicy policy) {
  test::Machine machine = test::kEven;
  machine.policy = policy;
  policy::TopologySpec spec = test::SpecOf(machine);
  for (policy::NumaNodeSpec& node : spec.numa) {
    std::vector<int> cpus;
    for (int i = 0; i < 8; ++i) cpus.push_back(8 * node.id + i);
    node.cores = policy::CoresOf(cpus, 2, node.id);
    node.memory = 32 * kGi;
  }
  spec.kubelet.cpu_policy = policy::CpuPolicy::kStatic;
  spec.kubelet.reserved_cpu_milli = 1000;
  spec.kubelet.memory_policy = policy::MemoryPolicy::kStatic;
  spec.kubelet.reserved_memory = {{.numa = 0, .limits = {{"memory", kGi}}}};
  return spec;
}

policy::Demand WithCompute(policy::Demand demand, std::int64_t cpus, std::int64_t gib) {
  demand.qos = policy::QosClass::kGuaranteed;
  demand.containers.back().requests = {{"cpu", cpus * 1000}, {"memory", gib * kGi * 1000}};
  return demand;
}

class ExplainComputeTest : public ::testing::Test {
 protected:
  NodeAnswer Answer(const policy::TopologySpec& spec, const policy::Demand& demand,
                    const std::vector<policy::Demand>& running = {}) {
    auto state = std::make_shared<NodeState>();
    state->topology = policy::Topology::Create(spec).value();
    policy::Usage usage(*state->topology);
    for (const policy::Demand& pod : running) {
      const policy::AdmitResult result = policy::Admit(*state->topology, usage, pod);
      EXPECT_TRUE(result.outcomes.front().admitted);
      policy::Apply(*state->topology, result.outcomes.front(), usage);
    }
    state->knowledge.usages = {usage};
    NodeView view;
    view.name = "n";
    view.state = state;
    explanation_ = Explain({view}, "default/p", demand, {}).value();
    return explanation_.answers.at(0);
  }
  Explanation explanation_;
};

TEST_F(ExplainComputeTest, RefusalsForCpusAndMemoryHaveTheirNumbers) {
  using policy::TopologyPolicy;
  const auto single = ComputeSpec(TopologyPolicy::kSingleNumaNode);
  const policy::Demand half = WithCompute(*test::Want(0, 0), 5, 20);
  const auto ask = [&](std::int64_t cpus, std::int64_t gib) {
    return Answer(single, WithCompute(*test::Want(1, 1), cpus, gib), {half, half});
  };
  NodeAnswer answer = ask(4, 8);
  EXPECT_EQ(answer.reason, Reason::kNumaFragmented);
  EXPECT_THAT(answer.answer, AllOf(HasSubstr("5 CPUs are free, 3 CPUs at most on one NUMA node"),
                                   HasSubstr("TopologyAffinityError")));
  EXPECT_THAT(answer.changes, ::testing::Contains("with 3 CPUs"));
  EXPECT_THAT(ask(6, 8).answer, HasSubstr("5 CPUs of 15 CPUs are free, 6 CPUs are wanted"));
  answer = ask(2, 16);
  EXPECT_THAT(answer.answer, AllOf(HasSubstr("23Gi of memory are free"), HasSubstr("12Gi"),
                                   HasSubstr("UnexpectedAdmissionError")));
  EXPECT_THAT(answer.changes, ::testing::Contains("with 12Gi of memory"));
  EXPECT_THAT(Answer(single, WithCompute(*test::Want(1, 1), 9, 8)).answer,
              AllOf(HasSubstr("never here"), HasSubstr("9 CPUs need 2 NUMA nodes")));
  EXPECT_THAT(Answer(single, WithCompute(*test::Want(1, 1), 40, 8)).answer,
              HasSubstr("this node has 15 CPUs for Pods in all, 40 CPUs are wanted"));
}

TEST_F(ExplainComputeTest, FreeCpusAndMemoryStandBesideTheDevices) {
  const auto spec = ComputeSpec(policy::TopologyPolicy::kSingleNumaNode);
  const NodeAnswer answer =
      Answer(spec, WithCompute(*test::Want(1, 1), 2, 4), {WithCompute(*test::Want(0, 0), 3, 10)});
  ASSERT_EQ(answer.compute.size(), 2U);
  EXPECT_EQ(answer.compute[0].resource, "cpu");
  EXPECT_EQ(answer.compute[0].by_numa[0].at_least, 4);
  EXPECT_EQ(answer.compute[0].by_numa[0].all, 7);
  EXPECT_EQ(answer.compute[0].total.at_most, 12);
  EXPECT_EQ(answer.compute[1].resource, "memory");
  EXPECT_EQ(answer.compute[1].by_numa[0].at_least, 21 * kGi);
  EXPECT_EQ(answer.compute[1].by_numa[1].all, 32 * kGi);
  const auto json = nlohmann::json::parse(ToJson(explanation_))["answers"][0];
  EXPECT_EQ(json["compute"][0]["byNuma"][0]["free"], 4);
  EXPECT_EQ(json["compute"][1]["total"]["all"], 63 * kGi);
  EXPECT_TRUE(json["changes"].empty()) << "it fits";
  EXPECT_TRUE(Answer(spec, *test::Want(1, 1)).compute.empty()) << "shares CPUs and memory";
}

TEST_F(ExplainComputeTest, RestrictedSaysWhichWidthsDifferAndWhatWouldPass) {
  const auto spec = ComputeSpec(policy::TopologyPolicy::kRestricted);
  const NodeAnswer answer = Answer(spec, WithCompute(*test::Want(8, 8), 4, 40));
  EXPECT_EQ(answer.reason, Reason::kKubeletRefuses);
  EXPECT_THAT(answer.answer, AllOf(HasSubstr("8 gpu need 2"), HasSubstr("4 CPUs need 1"),
                                   HasSubstr("40Gi of memory need 2")));
  EXPECT_THAT(answer.changes, ElementsAre("with at least 9 CPUs",
                                          HasSubstr("with at most 4 gpu and at most 4 rdma")));
}

TEST_F(ExplainComputeTest, HalfACoreIsNamedAndRoundedUp) {
  auto spec = ComputeSpec(policy::TopologyPolicy::kSingleNumaNode);
  spec.kubelet.cpu_options = {{"full-pcpus-only", "true"}};
  spec.kubelet.reserved_cpu_milli = 2000;
  const NodeAnswer answer = Answer(spec, WithCompute(*test::Want(1, 1), 3, 4));
  EXPECT_THAT(answer.answer, AllOf(HasSubstr("3 CPUs are not whole cores of 2 threads"),
                                   HasSubstr("SMTAlignmentError")));
  EXPECT_THAT(answer.changes, ElementsAre("with 4 CPUs", "with 2 CPUs"));
}

TEST_F(ExplainComputeTest, AZeroLimitIsTheKubeletsFault) {
  policy::TopologySpec spec;
  spec.kubelet.policy = policy::TopologyPolicy::kRestricted;
  spec.kubelet.version = policy::KubeletVersion::Parse("v1.36.3");
  for (int numa = 0; numa < 2; ++numa) spec.numa.emplace_back().id = numa;
  for (const auto& [resource, numa] : {std::pair(test::kGpu, 0), std::pair(test::kRdma, 1)}) {
    policy::DeviceSpec& device = spec.devices[resource].emplace_back();
    device.id = "d";
    device.numa = std::vector<int>{numa};
  }
  policy::Demand demand = *test::Want(0, 1);
  demand.containers[0].devices[test::kGpu] = 0;
  NodeAnswer answer = Answer(spec, demand);
  EXPECT_THAT(answer.changes, ElementsAre(HasSubstr("without the limit of 0 nvidia.com/gpu")));
  EXPECT_THAT(answer.notes,
              ElementsAre(AllOf(HasSubstr("A fault of the kubelet"), HasSubstr("since 1.36"))));
  spec.kubelet.version = policy::KubeletVersion::Parse("v1.35.4");
  answer = Answer(spec, demand);
  EXPECT_EQ(answer.reason, Reason::kFits);
  EXPECT_THAT(answer.notes, ElementsAre());
}

TEST_F(ExplainComputeTest, LeftoversOfInitContainersAreTheKubeletsFault) {
  test::Machine machine = test::kEven;
  machine.policy = policy::TopologyPolicy::kRestricted;
  policy::Demand demand = *test::Want(1, 0);
  policy::ContainerDemand init;
  init.name = "warm-up";
  init.kind = policy::ContainerDemand::Kind::kInit;
  init.devices[test::kGpu] = 5;
  demand.containers.insert(demand.containers.begin(), init);
  const NodeAnswer answer = Answer(test::SpecOf(machine), demand);
  EXPECT_FALSE(answer.reason == Reason::kFits);
  EXPECT_THAT(answer.changes, ::testing::Contains("without devices for init container warm-up"));
  EXPECT_THAT(answer.notes, ElementsAre(AllOf(HasSubstr("A fault of the kubelet"),
                                              HasSubstr("warm-up"), HasSubstr("main"))));
}

TEST_F(ExplainComputeTest, VersionsThatAreNotKnownAreSaidToBeSo) {
  auto spec = test::SpecOf(test::kEven);
  spec.kubelet.version = policy::KubeletVersion::Parse("v1.38.0");
  EXPECT_THAT(Answer(spec, *test::Want(1, 1)).notes,
              ElementsAre(AllOf(HasSubstr("1.38 is newer"), HasSubstr("rules of 1.37"))));
  spec.kubelet.version = policy::KubeletVersion::Parse("v1.33.2");
  EXPECT_THAT(Answer(spec, *test::Want(1, 1)).notes,
              ElementsAre(AllOf(HasSubstr("1.33 is older"), HasSubstr("rules of 1.34"))));
  spec.kubelet.version = policy::KubeletVersion::Parse("v1.37.2");
  EXPECT_TRUE(Answer(spec, *test::Want(1, 1)).notes.empty());
}

TEST_F(ExplainComputeTest, PodsWithResourcesOfTheirOwn) {
  auto spec = ComputeSpec(policy::TopologyPolicy::kSingleNumaNode);
  spec.kubelet.scope = policy::TopologyScope::kPod;
  spec.kubelet.feature_gates = {{"PodLevelResourceManagers", true}};
  policy::Demand pod = WithCompute(*test::Want(0, 0), 4, 4);
  pod.containers[0].devices.clear();
  pod.containers[0].requests_equal_limits = true;
  pod.containers.emplace_back().name = "shares";
  pod.pod_level_resources = true;
  pod.pod_requests = {{"cpu", 4000}, {"memory", 8 * kGi * 1000}};
  EXPECT_THAT(Answer(spec, pod).answer,
              AllOf(HasSubstr("leave nothing to those that share"), HasSubstr("all CPUs")));
  pod.pod_requests["cpu"] = 6000;
  EXPECT_EQ(Answer(spec, pod).reason, Reason::kFits);
  EXPECT_THAT(Answer(spec, pod, {pod, pod}).answer, HasSubstr("6 CPUs are wanted"));
  pod.containers[0].devices = test::Want(1, 0)->containers[0].devices;
  EXPECT_EQ(Answer(spec, pod).reason, Reason::kUnsupported);
  EXPECT_THAT(Answer(spec, pod).answer, HasSubstr("no devices before its containers start"));
}

TEST_F(ExplainComputeTest, WhatNobodyCanWaitForIsSaidToBeSo) {
  auto spec = ComputeSpec(policy::TopologyPolicy::kSingleNumaNode);
  for (int numa = 2; numa < 20; ++numa) {
    spec.numa.emplace_back().id = numa;
    spec.numa.back().memory = 4 * kGi;
  }
  spec.kubelet.max_allowable_numa_nodes = 20;
  const NodeAnswer answer = Answer(spec, WithCompute(*test::Want(1, 1), 2, 4));
  EXPECT_EQ(answer.reason, Reason::kUnsupported);
  EXPECT_THAT(answer.answer, HasSubstr("would search for minutes"));
}

// As in test/cli/admit/admit_test.cc.
TEST_F(ExplainComputeTest, AnEndlessSearchIsSaidToBeOne) {
  auto spec = ComputeSpec(policy::TopologyPolicy::kNone);
  spec.numa.resize(4);
  for (int id = 0; id < 4; ++id) {
    std::vector<int> cpus;
    for (int core = 4 * id; core < 4 * id + 4; ++core) cpus.insert(cpus.end(), {core, core + 16});
    spec.numa[static_cast<std::size_t>(id)].id = id;
    spec.numa[static_cast<std::size_t>(id)].cores = policy::CoresOf(cpus, 2, id);
  }
  spec.kubelet.reserved_cpus = {0, 4, 8, 12};
  spec.kubelet.reserved_cpu_milli = 0;
  spec.kubelet.cpu_options = {{"full-pcpus-only", "true"}, {"distribute-cpus-across-numa", "true"}};
  const NodeAnswer answer = Answer(spec, WithCompute(*test::Want(1, 1), 22, 4));
  EXPECT_EQ(answer.reason, Reason::kUnsupported);
  EXPECT_THAT(answer.answer, HasSubstr("search for CPUs for ever"));
}

TEST(BytesText, RoundsDown) {
  EXPECT_EQ(BytesText(0), "0");
  EXPECT_EQ(BytesText(64 * kGi), "64Gi");
  EXPECT_EQ(BytesText(kGi * 3 / 2), "1.5Gi");
  EXPECT_EQ(BytesText(2 * kGi - 1), "1.9Gi");
}

}  // namespace
}  // namespace numafit::cache
