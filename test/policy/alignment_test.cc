#include "policy/alignment.h"

#include <gtest/gtest.h>

#include <memory>

#include "policy/score/score_strategy.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGpu;
using testing::kNic;
using testing::Limits;
using testing::Machine;
using testing::PodOf;
using testing::Take;

constexpr auto kNone = TopologyPolicy::kNone;
constexpr auto kRestricted = TopologyPolicy::kRestricted;
constexpr auto kSingle = TopologyPolicy::kSingleNumaNode;

// A node, what is in use on it, and questions.
class Node {
 public:
  explicit Node(const Machine& machine) : topology_(machine.Build()), usage_(*topology_) {}
  Node& Used(const std::string& resource, const std::vector<int>& per_node) {
    Take(*topology_, usage_, resource, per_node);
    return *this;
  }
  // A Pod that the kubelet admits in one way.
  Node& Run(const Demand& demand) {
    const AdmitResult result = Admit(*topology_, usage_, demand);
    EXPECT_EQ(result.outcomes.size(), 1U);
    EXPECT_TRUE(result.outcomes.front().admitted);
    Apply(*topology_, result.outcomes.front(), usage_);
    return *this;
  }
  [[nodiscard]] Judgement Ask(const Demand& demand, const ScoreStrategy* strategy = nullptr) const {
    return Judge(*topology_, {{usage_}, false}, demand, strategy);
  }
  [[nodiscard]] const Topology& topology() const { return *topology_; }
  [[nodiscard]] const Usage& usage() const { return usage_; }

 private:
  std::shared_ptr<const Topology> topology_;
  Usage usage_;
};

Machine FourAndFour(TopologyPolicy policy) {
  return Machine(2, policy).Pool(kGpu, {4, 4}).Pool(kNic, {4, 4});
}

TEST(Judge, WhereTheKubeletEnforcesItsVerdictIsTheAlignment) {
  const Judgement judgement = Node(FourAndFour(kSingle)).Ask(PodOf().App({{kGpu, 4}, {kNic, 4}}));
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.alignment, Alignment::kGuaranteed);
  EXPECT_EQ(judgement.admission.outcomes.size(), 1U);
}

TEST(Judge, APodWithoutAcceleratorsOrWithoutEndpointsHasNoNeed) {
  const Node node(FourAndFour(kNone));
  EXPECT_EQ(node.Ask(PodOf().App({{kGpu, 5}})).alignment, Alignment::kNotNeeded);
  EXPECT_EQ(node.Ask(PodOf().App({{kGpu, 1}}).App({{kNic, 1}})).alignment, Alignment::kNotNeeded);
  EXPECT_EQ(node.Ask(PodOf().App({{kGpu, 1}, {kNic, 0}})).alignment, Alignment::kNotNeeded);
}

TEST(Judge, InPodScopeThePodIsTheUnit) {
  const Node node(FourAndFour(kNone).Scope(TopologyScope::kPod));
  EXPECT_EQ(node.Ask(PodOf().App({{kGpu, 1}}).App({{kNic, 1}})).alignment, Alignment::kPossible);
}

TEST(Judge, WithoutEnforcementTwoFreeSidesArePossibleAndOneIsGuaranteed) {
  const PodOf pod = PodOf().App({{kGpu, 1}, {kNic, 1}});
  EXPECT_EQ(Node(FourAndFour(kNone)).Ask(pod).alignment, Alignment::kPossible);
  Node one(FourAndFour(kNone));
  one.Used(kGpu, {4, 0}).Used(kNic, {4, 0});
  EXPECT_EQ(one.Ask(pod).alignment, Alignment::kGuaranteed);
  EXPECT_TRUE(one.Ask(PodOf(pod).Needs(AlignmentNeed::kGuaranteed)).fits());
  EXPECT_EQ(Node(FourAndFour(kNone)).Ask(PodOf(pod).Needs(AlignmentNeed::kGuaranteed)).reason,
            Reason::kNotGuaranteed);
}

TEST(Judge, WithoutEnforcementDevicesOnOppositeSidesAreFragmented) {
  Node node(FourAndFour(kNone));
  node.Used(kGpu, {4, 0}).Used(kNic, {0, 4});
  const PodOf pod = PodOf().App({{kGpu, 1}, {kNic, 1}});
  const Judgement judgement = node.Ask(pod);
  EXPECT_EQ(judgement.reason, Reason::kNumaFragmented);
  EXPECT_EQ(judgement.alignment, Alignment::kImpossible);
  EXPECT_TRUE(node.Ask(PodOf(pod).Needs(AlignmentNeed::kPreferred)).fits());
  EXPECT_EQ(node.Ask(PodOf(pod).Needs(AlignmentNeed::kGuaranteed)).reason, Reason::kNumaFragmented);
}

TEST(Judge, HardwareThatHasThemOnOppositeSidesNeverFitsOnOneButFitsOnTheFewest) {
  // GPUs on NUMA 0, NICs on NUMA 1: two NUMA nodes are the fewest, any pick is as good as it gets.
  const Machine machine = Machine(2, kNone).Pool(kGpu, {4, 0}).Pool(kNic, {0, 4});
  const Judgement judgement = Node(machine).Ask(PodOf().App({{kGpu, 1}, {kNic, 1}}));
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.alignment, Alignment::kGuaranteed);
}

TEST(Judge, TheFewestNumaNodesOfALargeRequestAreCountedOverTheHardware) {
  // 4 GPUs of 2+2+2+2: two NUMA nodes are enough, three are too many.
  const Machine machine = Machine(4, kNone).Pool(kGpu, {2, 2, 2, 2}).Pool(kNic, {1, 1, 1, 1});
  Node node(machine);
  const PodOf pod = PodOf().App({{kGpu, 4}, {kNic, 2}});
  EXPECT_EQ(node.Ask(pod).alignment, Alignment::kPossible);
  node.Used(kGpu, {0, 0, 2, 2}).Used(kNic, {0, 0, 1, 1});
  EXPECT_EQ(node.Ask(pod).alignment, Alignment::kGuaranteed);
  Node broken(machine);
  broken.Used(kGpu, {1, 1, 1, 1});
  EXPECT_EQ(broken.Ask(pod).reason, Reason::kNumaFragmented);
}

TEST(Judge, AnEndpointWithoutANumaNodeMakesAlignmentUncertain) {
  Machine machine = Machine(2, kSingle).Pool(kGpu, {4, 4});
  machine.Device(kNic, std::nullopt);
  const Judgement judgement = Node(machine).Ask(PodOf().App({{kGpu, 1}, {kNic, 1}}));
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.alignment, Alignment::kPossible);
  Machine one = Machine(1, kSingle).Pool(kGpu, {4});
  one.Device(kNic, std::nullopt);
  EXPECT_EQ(Node(one).Ask(PodOf().App({{kGpu, 1}, {kNic, 1}})).alignment, Alignment::kGuaranteed);
}

TEST(Judge, AlignmentIsFoundBehindMoreOutcomesThanAreKept) {
  // 8 * 8 * 8 outcomes. The only GPU and NIC that can meet are on the last NUMA node.
  Machine machine = Machine(8, kNone)
                        .Pool(kGpu, {2, 2, 2, 2, 0, 0, 0, 2})
                        .Pool(kNic, {0, 0, 0, 0, 2, 2, 2, 2})
                        .Pool("x/other", {2, 2, 2, 2, 2, 2, 2, 2});
  const Judgement judgement =
      Node(machine).Ask(PodOf().App({{kGpu, 1}, {kNic, 1}, {"x/other", 2}}));
  EXPECT_TRUE(judgement.admission.truncated);
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.alignment, Alignment::kPossible);
}

// --- why not

TEST(JudgeReason, FreeButNotTogetherIsFragmented) {
  Node node(FourAndFour(kSingle));
  node.Used(kGpu, {1, 3});
  const Judgement judgement = node.Ask(PodOf().App({{kGpu, 4}}));
  EXPECT_EQ(judgement.reason, Reason::kNumaFragmented);
  EXPECT_EQ(judgement.kubelet_reason, RefusalReason::kTopologyAffinityError);
  EXPECT_EQ(judgement.refused_container, 0);
  EXPECT_EQ(judgement.refused_resource, kGpu);
}

TEST(JudgeReason, TheSecondContainerIsFragmentedByTheFirst) {
  Node node(FourAndFour(kSingle));
  node.Used(kGpu, {0, 1});
  const Judgement judgement = node.Ask(PodOf().App({{kGpu, 4}}).App({{kGpu, 4}}));
  EXPECT_EQ(judgement.refused_container, 1);
  EXPECT_EQ(judgement.reason, Reason::kKubeletRefuses);  // only three GPUs are left at all
  Node split(FourAndFour(kSingle));
  split.Used(kGpu, {1, 1});
  EXPECT_EQ(split.Ask(PodOf().App({{kGpu, 2}}).App({{kGpu, 3}}).App({{kGpu, 1}})).reason,
            Reason::kFits);
  EXPECT_EQ(split.Ask(PodOf().App({{kGpu, 1}}).App({{kGpu, 1}}).App({{kGpu, 4}})).reason,
            Reason::kNumaFragmented);
}

TEST(JudgeReason, MoreThanTheHardwareHasNeverFits) {
  EXPECT_EQ(Node(FourAndFour(kSingle)).Ask(PodOf().App({{kGpu, 8}})).reason, Reason::kNeverFits);
  EXPECT_EQ(Node(FourAndFour(kNone)).Ask(PodOf().App({{kGpu, 9}})).reason, Reason::kNeverFits);
  EXPECT_EQ(Node(FourAndFour(kSingle).Break(kGpu, 0, 4).Break(kGpu, 1, 1))
                .Ask(PodOf().App({{kGpu, 4}}))
                .reason,
            Reason::kNeverFits);
  EXPECT_EQ(Node(FourAndFour(kSingle))
                .Ask(PodOf().App({{kGpu, 4}}).App({{kGpu, 4}}).App({{kGpu, 1}}))
                .reason,
            Reason::kNeverFits);
}

TEST(JudgeReason, AResourceThatTheNodeHasNotNeverFits) {
  const Node node(Machine(2, kNone).Pool(kGpu, {4, 4}));
  const Judgement judgement = node.Ask(PodOf().App({{kGpu, 1}, {kNic, 1}}));
  EXPECT_EQ(judgement.reason, Reason::kNeverFits);
  EXPECT_EQ(judgement.refused_resource, kNic);
  // A zero asks for nothing, and what is neither accelerator nor endpoint is not ours.
  EXPECT_TRUE(node.Ask(PodOf().App({{kGpu, 1}, {kNic, 0}})).fits());
  EXPECT_TRUE(node.Ask(PodOf().App({{kGpu, 1}, {"x/other", 1}})).fits());
}

TEST(JudgeReason, WhatTheMergeRuleRefusesIsTheKubelets) {
  const Machine machine = Machine(2).Pool(kGpu, {4, 4}).Pool(kNic, {1, 0});
  EXPECT_EQ(Node(machine).Ask(PodOf().App({{kGpu, 8}, {kNic, 1}})).reason, Reason::kKubeletRefuses);
}

TEST(JudgeReason, TooFewFreeIsTheKubelets) {
  Node node(FourAndFour(kNone));
  node.Used(kGpu, {4, 2});
  const Judgement judgement = node.Ask(PodOf().App({{kGpu, 3}}));
  EXPECT_EQ(judgement.reason, Reason::kKubeletRefuses);
  EXPECT_EQ(judgement.kubelet_reason, RefusalReason::kUnexpectedAdmissionError);
}

TEST(JudgeReason, EveryReasonHasACodeAndAStableText) {
  for (int i = 0; i <= static_cast<int>(Reason::kUnsupported); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_FALSE(ReasonCode(reason).empty());
    EXPECT_TRUE(ReasonText(reason).starts_with("numafit: "));
    EXPECT_EQ(ReasonText(reason).find_first_of("0123456789,"), std::string_view::npos);
  }
}

// --- several states

TEST(JudgeStates, AllOfThemMustAdmit) {
  const auto topology = FourAndFour(kSingle).Build();
  Usage left(*topology);
  Usage right(*topology);
  Usage both(*topology);
  Take(*topology, left, kGpu, {4, 0});
  Take(*topology, right, kGpu, {0, 4});
  Take(*topology, both, kGpu, {3, 3});
  const Demand pod = PodOf().App({{kGpu, 4}});
  EXPECT_TRUE(Judge(*topology, {{left, right}, false}, pod, nullptr).fits());
  EXPECT_EQ(Judge(*topology, {{left, both}, false}, pod, nullptr).reason, Reason::kSettling);
  EXPECT_EQ(Judge(*topology, {{both, both}, false}, pod, nullptr).reason, Reason::kKubeletRefuses);
}

TEST(JudgeStates, ASettlingNodeWaitsUnlessThePodAsksForNothingOrNeverFits) {
  const auto topology = FourAndFour(kSingle).Build();
  const NodeKnowledge settling{{Usage(*topology)}, true};
  EXPECT_EQ(Judge(*topology, settling, PodOf().App({{kGpu, 1}}), nullptr).reason,
            Reason::kSettling);
  EXPECT_EQ(Judge(*topology, settling, PodOf().App({{kGpu, 8}}), nullptr).reason,
            Reason::kNeverFits);
  EXPECT_TRUE(Judge(*topology, settling, PodOf().App({{"cpu", 1}}), nullptr).fits());
}

TEST(JudgeStates, WhereCountsDecideASettlingNodeIsJudged) {
  const auto topology = FourAndFour(kNone).Build();
  Usage one_side(*topology);
  Take(*topology, one_side, kGpu, {4, 0});
  Take(*topology, one_side, kNic, {4, 0});
  const Demand pod = PodOf().App({{kGpu, 1}, {kNic, 1}});
  const Judgement judgement = Judge(*topology, {{one_side}, true}, pod, nullptr);
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.alignment, Alignment::kPossible);
  Usage apart(*topology);
  Take(*topology, apart, kGpu, {4, 0});
  Take(*topology, apart, kNic, {0, 4});
  EXPECT_EQ(Judge(*topology, {{apart}, true}, pod, nullptr).reason, Reason::kSettling);
}

// --- distinct endpoints

// `endpoints` shared endpoints with `tokens` tokens each, all on NUMA 0.
Machine Shared(int endpoints, int tokens) {
  Machine machine = Machine(2, kSingle).Pool(kGpu, {4, 4});
  for (int e = 0; e < endpoints; ++e) {
    for (int t = 0; t < tokens; ++t) {
      machine.Device(kNic, std::vector<int>{0}, true, "mlx5_" + std::to_string(e));
    }
  }
  return machine;
}

TEST(JudgeDistinct, TokensOfOneEndpointAreNotTwo) {
  const Judgement judgement =
      Node(Shared(1, 8)).Ask(PodOf().App({{kGpu, 1}, {kNic, 2}}).Distinct());
  EXPECT_EQ(judgement.reason, Reason::kEndpointsNotDistinct);
  EXPECT_EQ(judgement.distinct_endpoints, Alignment::kImpossible);
  EXPECT_TRUE(Node(Shared(1, 8)).Ask(PodOf().App({{kGpu, 1}, {kNic, 2}})).fits());
}

TEST(JudgeDistinct, TwoOfManyTokensOfTwoEndpointsArePossibly) {
  const Judgement judgement =
      Node(Shared(2, 8)).Ask(PodOf().App({{kGpu, 1}, {kNic, 2}}).Distinct());
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.distinct_endpoints, Alignment::kPossible);
}

TEST(JudgeDistinct, OneTokenAndTokensOfTheirOwnAreCertain) {
  EXPECT_EQ(Node(Shared(2, 8)).Ask(PodOf().App({{kNic, 1}}).Distinct()).distinct_endpoints,
            Alignment::kGuaranteed);
  EXPECT_EQ(Node(FourAndFour(kSingle)).Ask(PodOf().App({{kNic, 4}}).Distinct()).distinct_endpoints,
            Alignment::kGuaranteed);
  EXPECT_EQ(Node(FourAndFour(kSingle)).Ask(PodOf().App({{kNic, 4}})).distinct_endpoints,
            Alignment::kNotNeeded);
}

TEST(JudgeDistinct, AnExclusiveAndASharedTokenMayBeTheSameEndpoint) {
  Machine machine = Machine(1, kSingle).Pool(kGpu, {1});
  machine.Device(kNic, std::vector<int>{0}, true, "mlx5_0");
  machine.Device("rdma/shared", std::vector<int>{0}, true, "mlx5_0");
  Demand pod = PodOf().App({{kNic, 1}, {"rdma/shared", 1}}).Distinct();
  pod.endpoints = {kNic, "rdma/shared"};
  EXPECT_EQ(Node(machine).Ask(pod).reason, Reason::kEndpointsNotDistinct);
  machine.Device("rdma/shared", std::vector<int>{0}, true, "mlx5_1");
  EXPECT_EQ(Node(machine).Ask(pod).distinct_endpoints, Alignment::kPossible);
}

// --- CPUs and memory

Machine Compute(TopologyPolicy policy) {
  return Machine(2, policy).Pool(kGpu, {4, 4}).Pool(kNic, {4, 4}).StaticCpus(8).StaticMemory(32);
}

TEST(JudgeCompute, ReasonsCountCpusAndMemoryToo) {
  const Node empty(Compute(kSingle));
  const auto reason = [](const Node& node, std::int64_t cpus, std::int64_t gib) {
    return node.Ask(PodOf().App({{kGpu, 1}, {kNic, 1}}).With(cpus * 1000, gib)).reason;
  };
  EXPECT_EQ(reason(empty, 8, 8), Reason::kFits);
  EXPECT_EQ(reason(empty, 9, 8), Reason::kNeverFits) << "no NUMA node has nine";
  EXPECT_EQ(reason(empty, 17, 8), Reason::kNeverFits);
  EXPECT_EQ(reason(empty, 4, 33), Reason::kNeverFits);
  EXPECT_EQ(reason(Node(Compute(TopologyPolicy::kBestEffort)), 9, 8), Reason::kFits);

  Node half(Compute(kSingle));
  half.Run(PodOf().App({}).With(5000, 20)).Run(PodOf().App({}).With(5000, 20));
  EXPECT_EQ(reason(half, 2, 8), Reason::kFits);
  EXPECT_EQ(reason(half, 4, 8), Reason::kNumaFragmented) << "five are free, three at most together";
  EXPECT_EQ(reason(half, 2, 16), Reason::kNumaFragmented);
  EXPECT_EQ(reason(half, 6, 8), Reason::kKubeletRefuses) << "too few on the whole node";
}

TEST(JudgeCompute, WidthsThatDifferAreTheKubelets) {
  const Judgement wide =
      Node(Compute(kRestricted)).Ask(PodOf().App({{kGpu, 8}, {kNic, 8}}).With(4000, 8));
  EXPECT_EQ(wide.reason, Reason::kKubeletRefuses);
  EXPECT_EQ(wide.kubelet_reason, RefusalReason::kTopologyAffinityError);
  EXPECT_EQ(wide.refused_resource, "");
}

TEST(JudgeCompute, APodWithoutDevicesCanBeRefusedForItsCpus) {
  const Judgement judgement = Node(Compute(kSingle)).Ask(PodOf().App({}).With(9000, 1));
  EXPECT_EQ(judgement.reason, Reason::kNeverFits);
  EXPECT_EQ(judgement.refused_resource, "cpu");
  EXPECT_TRUE(
      Node(Compute(kSingle)).Ask(PodOf().App({}).With(9000, 1).Qos(QosClass::kBurstable)).fits());
}

TEST(JudgeCompute, WhatTheKubeletWouldSearchForForEverIsNotJudged) {
  // More NUMA nodes than anybody walks for memory.
  Machine machine = Machine(20, kSingle).Pool(kGpu, {1}).StaticMemory(4);
  machine.spec().kubelet.max_allowable_numa_nodes = 20;
  const Judgement judgement = Node(machine).Ask(PodOf().App({{kGpu, 1}}).With(1000, 1));
  EXPECT_EQ(judgement.reason, Reason::kUnsupported);
  EXPECT_TRUE(judgement.admission.intractable);
  EXPECT_TRUE(Node(machine).Ask(PodOf().App({{kGpu, 1}})).fits()) << "has no say in memory";
}

TEST(JudgeCompute, DevicesThatComeOnlyWhenContainersStartAreNotGuessedAt) {
  const PodOf pod = PodOf().App({{kGpu, 1}}).Own(1000, 1).Whole(1000, 1);
  const auto reason = [&](int minor, std::map<std::string, bool> gates,
                          TopologyScope scope = TopologyScope::kPod) {
    Machine machine = Compute(kSingle).Version(minor).Scope(scope);
    machine.spec().kubelet.feature_gates = std::move(gates);
    return Node(machine).Ask(pod).reason;
  };
  EXPECT_EQ(reason(37, {}), Reason::kFits);
  EXPECT_EQ(reason(37, {{"PodLevelResourceManagers", true}}), Reason::kUnsupported);
  EXPECT_EQ(reason(37, {{"PodLevelResourceManagers", true}}, TopologyScope::kContainer),
            Reason::kFits);
  EXPECT_EQ(reason(36, {{"AllAlpha", true}}), Reason::kUnsupported);
  EXPECT_EQ(reason(37, {{"AllAlpha", true}}), Reason::kFits) << "beta by then";
  EXPECT_EQ(reason(37, {{"AllBeta", true}, {"PodLevelResourceManagers", false}}), Reason::kFits);
}

// --- score

TEST(JudgeScore, GuaranteedIsBeforePossibleAndEnforcedBeforeNot) {
  const ScoreStrategy* strategy = FindScoreStrategy("least-allocated");
  const PodOf pod = PodOf().App({{kGpu, 1}, {kNic, 1}});
  Node enforced(FourAndFour(kSingle));
  enforced.Used(kGpu, {3, 4}).Used(kNic, {3, 4});  // the fullest, the worst for the strategy
  Node guaranteed(FourAndFour(kNone));
  guaranteed.Used(kGpu, {3, 4}).Used(kNic, {3, 4});
  const Node possible(FourAndFour(kNone));
  Node split(FourAndFour(kNone));
  split.Used(kGpu, {4, 0}).Used(kNic, {0, 4});
  const int a = enforced.Ask(pod, strategy).score;
  const int b = guaranteed.Ask(pod, strategy).score;
  const int c = possible.Ask(pod, strategy).score;
  const int d = split.Ask(PodOf(pod).Needs(AlignmentNeed::kPreferred), strategy).score;
  EXPECT_GT(a, b);
  EXPECT_GT(b, c);
  EXPECT_GT(c, d);
  EXPECT_LE(a, kMaxScore);
  EXPECT_GE(d, 0);
  EXPECT_EQ(enforced.Ask(pod).score, 0);
}

TEST(JudgeScore, TheWorstOutcomeCounts) {
  const ScoreStrategy* strategy = FindScoreStrategy("fewest-numa");
  Machine machine = Machine(2, kNone).Pool(kGpu, {4, 4});
  const Node node(machine);
  Node one_side(machine);
  one_side.Used(kGpu, {4, 0});
  EXPECT_GT(one_side.Ask(PodOf().App({{kGpu, 2}}), strategy).score,
            node.Ask(PodOf().App({{kGpu, 2}}), strategy).score);
}

}  // namespace
}  // namespace numafit::policy
