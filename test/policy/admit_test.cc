#include "policy/admit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::MaskOf;
using testing::On;
using testing::PodOf;
using testing::Take;

constexpr TopologyPolicy kAllPolicies[] = {TopologyPolicy::kNone, TopologyPolicy::kBestEffort,
                                           TopologyPolicy::kRestricted,
                                           TopologyPolicy::kSingleNumaNode};

AdmitResult OnEmpty(const Machine& machine, const Demand& demand) {
  const auto topology = machine.Build();
  return Admit(*topology, Usage(*topology), demand);
}

RefusalReason ReasonOnEmpty(const Machine& machine, const Demand& demand) {
  const AdmitResult result = OnEmpty(machine, demand);
  EXPECT_EQ(result.outcomes.size(), 1U);
  return result.outcomes.front().reason;
}

// 4+4 GPUs; a NIC on NUMA node 0 only.
Machine OneSidedNic(TopologyPolicy policy) {
  return Machine(2, policy).Pool(kGpu, {4, 4}).Pool(kNic, {1, 0});
}

TEST(Admit, EightGpusAndOneNicAreRefusedWhereTheKubeletEnforces) {
  const PodOf pod = PodOf().App({{kGpu, 8}, {kNic, 1}});
  for (const auto policy : {TopologyPolicy::kRestricted, TopologyPolicy::kSingleNumaNode}) {
    EXPECT_EQ(ReasonOnEmpty(OneSidedNic(policy), pod), RefusalReason::kTopologyAffinityError);
  }
}

TEST(Admit, BestEffortsChoiceForEightGpusAndOneNicChangedWith136) {
  const PodOf pod = PodOf().App({{kGpu, 8}, {kNic, 1}});
  const Machine machine = OneSidedNic(TopologyPolicy::kBestEffort);
  for (const int minor : {34, 35}) {
    const AdmitResult result = OnEmpty(Machine(machine).Version(minor), pod);
    EXPECT_EQ(result.outcomes.at(0).containers.at(0).affinity, MaskOf({0, 1})) << minor;
  }
  for (const int minor : {36, 37}) {
    const AdmitResult result = OnEmpty(Machine(machine).Version(minor), pod);
    EXPECT_EQ(result.outcomes.at(0).containers.at(0).affinity, MaskOf({0})) << minor;
    EXPECT_FALSE(result.outcomes.at(0).containers.at(0).preferred);
  }
}

TEST(Admit, AllOfBothSidesIsAdmittedByRestrictedAndNotBySingleNumaNode) {
  const PodOf pod = PodOf().App({{kGpu, 8}, {kNic, 8}});
  const Machine machine = Machine(2).Pool(kGpu, {4, 4}).Pool(kNic, {4, 4});
  const AdmitResult result = OnEmpty(machine, pod);
  ASSERT_EQ(result.outcomes.size(), 1U);
  EXPECT_TRUE(result.outcomes[0].admitted);
  EXPECT_EQ(result.outcomes[0].containers[0].affinity, MaskOf({0, 1}));
  Machine single = machine;
  single.spec().kubelet.policy = TopologyPolicy::kSingleNumaNode;
  EXPECT_EQ(ReasonOnEmpty(single, pod), RefusalReason::kTopologyAffinityError);
}

TEST(Admit, ADifferenceInWidthIsARefusalByRestricted) {
  // 6 of 6+6 NICs fit one NUMA node, 8 of 4+4 GPUs do not.
  const Machine machine = Machine(2).Pool(kGpu, {4, 4}).Pool(kNic, {6, 6});
  EXPECT_EQ(ReasonOnEmpty(machine, PodOf().App({{kGpu, 8}, {kNic, 6}})),
            RefusalReason::kTopologyAffinityError);
  EXPECT_EQ(OnEmpty(machine, PodOf().App({{kGpu, 8}, {kNic, 7}})).verdict(), Verdict::kAdmitted);
}

TEST(Admit, FourFreeButThreeAndOneIsARefusalByRestricted) {
  const auto topology = Machine(2).Pool(kGpu, {4, 4}).Build();
  Usage usage(*topology);
  Take(*topology, usage, kGpu, {1, 3});
  const AdmitResult result = Admit(*topology, usage, PodOf().App({{kGpu, 4}}));
  EXPECT_EQ(result.verdict(), Verdict::kRefused);
  EXPECT_EQ(result.outcomes[0].refused_resource, kGpu);
  EXPECT_EQ(result.outcomes[0].refused_container, 0);
}

TEST(Admit, FreeDevicesOnDifferentNumaNodesAreRefusedAndNobodyAloneIsInTheWay) {
  const auto topology =
      Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {4, 4}).Pool(kNic, {1, 1}).Build();
  Usage usage(*topology);
  Take(*topology, usage, kGpu, {4, 2});
  Take(*topology, usage, kNic, {0, 1});
  const Demand pod = PodOf().App({{kGpu, 1}, {kNic, 1}});
  const AdmitResult refused = Admit(*topology, usage, pod);
  EXPECT_EQ(refused.verdict(), Verdict::kRefused);
  EXPECT_EQ(refused.outcomes[0].refused_resource, "");
  Usage freed(*topology);
  Take(*topology, freed, kGpu, {4, 2});
  EXPECT_EQ(Admit(*topology, freed, pod).verdict(), Verdict::kAdmitted);
}

TEST(Admit, AZeroLimitDecidesSince136) {
  // The GPU is on NUMA 0, the NIC on NUMA 1: hints for zero GPUs are on {0} only since 1.36.
  const Machine machine =
      Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {1, 0}).Pool(kNic, {0, 1});
  const PodOf pod = PodOf().App({{kGpu, 0}, {kNic, 1}});
  EXPECT_EQ(ReasonOnEmpty(Machine(machine).Version(35), pod), RefusalReason::kNone);
  EXPECT_EQ(ReasonOnEmpty(Machine(machine).Version(36), pod),
            RefusalReason::kTopologyAffinityError);
}

TEST(Admit, AZeroLimitOfAResourceWithoutHealthyDevicesFailsInAllocation) {
  for (const TopologyPolicy policy : {TopologyPolicy::kNone, TopologyPolicy::kBestEffort}) {
    const Machine machine = Machine(2, policy).Pool(kGpu, {1, 0}).Break(kGpu, 0, 1);
    EXPECT_EQ(ReasonOnEmpty(machine, PodOf().App({{kGpu, 0}})),
              RefusalReason::kUnexpectedAdmissionError);
  }
}

TEST(Admit, AnUnregisteredResourceConstrainsNothing) {
  for (const TopologyPolicy policy : kAllPolicies) {
    EXPECT_EQ(ReasonOnEmpty(Machine(2, policy), PodOf().App({{kGpu, 3}})), RefusalReason::kNone);
  }
}

TEST(Admit, DevicesWithoutTopologyFollowTheOthers) {
  Machine machine = Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {0, 2});
  machine.Device(kNic, std::nullopt).Device(kNic, std::nullopt);
  const AdmitResult result = OnEmpty(machine, PodOf().App({{kGpu, 2}, {kNic, 2}}));
  ASSERT_EQ(result.verdict(), Verdict::kAdmitted);
  EXPECT_EQ(result.outcomes[0].containers[0].affinity, MaskOf({1}));
}

TEST(Admit, PolicyNoneSplitsAnyWay) {
  const auto topology = Machine(2, TopologyPolicy::kNone).Pool(kGpu, {4, 4}).Build();
  const AdmitResult result = Admit(*topology, Usage(*topology), PodOf().App({{kGpu, 3}}));
  ASSERT_EQ(result.outcomes.size(), 4U);
  std::set<int> on_first;
  for (const Outcome& outcome : result.outcomes) {
    EXPECT_TRUE(outcome.admitted);
    EXPECT_EQ(outcome.containers[0].affinity, std::nullopt);
    EXPECT_FALSE(outcome.containers[0].preferred);
    on_first.insert(On(*topology, outcome.held.devices, kGpu, 0));
  }
  EXPECT_EQ(on_first, (std::set<int>{0, 1, 2, 3}));
}

TEST(Admit, PolicyNoneStillRefusesWhatIsNotThere) {
  EXPECT_EQ(
      ReasonOnEmpty(Machine(2, TopologyPolicy::kNone).Pool(kGpu, {1, 1}), PodOf().App({{kGpu, 3}})),
      RefusalReason::kUnexpectedAdmissionError);
}

TEST(Admit, AfterASplitTheNextContainersVerdictDepends) {
  // 3 of 2+2 GPUs leave one on either side; the NIC is on NUMA 0.
  const auto topology = Machine(2).Pool(kGpu, {2, 2}).Pool(kNic, {1, 0}).Build();
  const PodOf pod = PodOf().App({{kGpu, 3}}).App({{kGpu, 1}, {kNic, 1}});
  const AdmitResult result = Admit(*topology, Usage(*topology), pod);
  EXPECT_EQ(result.verdict(), Verdict::kDepends);
  ASSERT_EQ(result.outcomes.size(), 2U);
  EXPECT_NE(result.outcomes[0].admitted, result.outcomes[1].admitted);
  for (const Outcome& outcome : result.outcomes) {
    if (outcome.admitted) continue;
    EXPECT_EQ(outcome.refused_container, 1);
    EXPECT_EQ(outcome.containers.size(), 1U);
  }
}

TEST(Admit, ContainersAreAllocatedOneAfterTheOther) {
  const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {2, 2}).Build();
  const PodOf pod = PodOf().App({{kGpu, 2}}).App({{kGpu, 2}});
  const AdmitResult result = Admit(*topology, Usage(*topology), pod);
  ASSERT_EQ(result.verdict(), Verdict::kAdmitted);
  EXPECT_EQ(result.outcomes[0].containers[0].affinity, MaskOf({0}));
  EXPECT_EQ(result.outcomes[0].containers[1].affinity, MaskOf({1}));
  Machine pod_scope =
      Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {2, 2}).Scope(TopologyScope::kPod);
  EXPECT_EQ(ReasonOnEmpty(pod_scope, pod), RefusalReason::kTopologyAffinityError);
}

TEST(Admit, InitContainersLeaveTheirDevicesToTheAppAndKeepTheRest) {
  const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {4, 4}).Build();
  const PodOf pod = PodOf().Init({{kGpu, 3}}).App({{kGpu, 2}});
  const AdmitResult result = Admit(*topology, Usage(*topology), pod);
  ASSERT_EQ(result.outcomes.size(), 1U);
  EXPECT_EQ(On(*topology, result.outcomes[0].containers[1].devices, kGpu, 0), 2);
  EXPECT_EQ(On(*topology, result.outcomes[0].held.devices, kGpu, 0), 3);
  EXPECT_EQ(On(*topology, result.outcomes[0].held.devices, kGpu, 1), 0);
}

TEST(Admit, ASidecarKeepsWhatItReUsed) {
  const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {4, 4}).Build();
  const PodOf pod = PodOf().Init({{kGpu, 2}}).Sidecar({{kGpu, 2}}).App({{kGpu, 2}});
  const AdmitResult result = Admit(*topology, Usage(*topology), pod);
  ASSERT_EQ(result.verdict(), Verdict::kAdmitted);
  EXPECT_EQ(On(*topology, result.outcomes[0].held.devices, kGpu, 0), 4);
}

TEST(Admit, AHintMustTouchWhatAnInitContainerHeld) {
  // The init container takes the only GPU of NUMA 0; the app needs two, which are on NUMA 1 only.
  const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {1, 3}).Build();
  const PodOf pod = PodOf().Init({{kGpu, 1}}).App({{kGpu, 3}});
  const AdmitResult result = Admit(*topology, Usage(*topology), pod);
  EXPECT_EQ(result.verdict(), Verdict::kRefused);
  EXPECT_EQ(result.outcomes[0].refused_container, 1);
}

TEST(Admit, APreferenceMakesThePickExact) {
  const auto topology =
      Machine(2, TopologyPolicy::kNone).Pool(kGpu, {2, 2}).Prefer(kGpu, {"n2", "n0"}).Build();
  const AdmitResult result = Admit(*topology, Usage(*topology), PodOf().App({{kGpu, 3}}));
  ASSERT_EQ(result.outcomes.size(), 1U);
  std::set<std::string> ids;
  for (const ClassCount& item : result.outcomes[0].held.devices) {
    for (const std::string& id : topology->DeviceIds(item.class_index)) ids.insert(id);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"n0", "n1", "n2"}));
}

TEST(Admit, OnOneNumaNodeDevicesWithoutTopologyMixIn) {
  Machine machine = Machine(1, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {2});
  machine.Device(kGpu, std::nullopt);
  const AdmitResult result = OnEmpty(machine, PodOf().App({{kGpu, 1}}));
  EXPECT_EQ(result.verdict(), Verdict::kAdmitted);
  EXPECT_EQ(result.outcomes.size(), 2U);
  EXPECT_EQ(result.outcomes[0].containers[0].affinity, std::nullopt);
}

TEST(Admit, PastTheBoundTheVerdictIsKnownOnlyWhereCountsDecide) {
  const std::vector<int> eight(8, 1);
  const PodOf pod = PodOf().App({{kGpu, 4}, {kNic, 4}}).App({{kGpu, 1}, {kNic, 1}});
  const Machine free = Machine(8, TopologyPolicy::kNone).Pool(kGpu, eight).Pool(kNic, eight);
  const AdmitResult counted = OnEmpty(free, pod);
  EXPECT_TRUE(counted.truncated);
  EXPECT_EQ(counted.outcomes.size(), static_cast<std::size_t>(AdmitResult::kMaxOutcomes));
  EXPECT_EQ(counted.verdict(), Verdict::kAdmitted);
  // 12 of 5 on each of four NUMA nodes, restricted: three of them, split any way; then 1 + 1
  // must meet.
  Machine restricted = Machine(4).Pool(kGpu, {5, 5, 5, 5}).Pool(kNic, {5, 5, 5, 5});
  const AdmitResult open =
      OnEmpty(restricted, PodOf().App({{kGpu, 12}, {kNic, 12}}).App({{kGpu, 1}, {kNic, 1}}));
  EXPECT_TRUE(open.truncated);
  EXPECT_EQ(open.verdict(), Verdict::kUnknown);
  // With nothing asked for afterwards the verdict stands.
  const AdmitResult last = OnEmpty(restricted, PodOf().App({{kGpu, 12}, {kNic, 12}}));
  EXPECT_TRUE(last.truncated);
  EXPECT_EQ(last.verdict(), Verdict::kAdmitted);
}

TEST(Admit, OutcomesAreDistinctAndAddUp) {
  const auto topology = Machine(4, TopologyPolicy::kBestEffort)
                            .Pool(kGpu, {2, 1, 2, 1})
                            .Pool(kNic, {1, 1, 0, 0})
                            .Build();
  const PodOf pod = PodOf().Init({{kGpu, 2}}).Sidecar({{kGpu, 1}}).App({{kGpu, 3}, {kNic, 1}});
  std::set<std::vector<std::vector<ClassCount>>> seen;
  int outcomes = 0;
  ForEachOutcome(*topology, Usage(*topology), pod, [&](const Outcome& outcome) {
    ++outcomes;
    EXPECT_TRUE(outcome.admitted);
    std::vector<std::vector<ClassCount>> key;
    std::vector<int> counts;
    for (const ContainerAllocation& c : outcome.containers) {
      key.emplace_back(c.devices.begin(), c.devices.end());
      int count = 0;
      for (const ClassCount& item : c.devices) count += item.count;
      counts.push_back(count);
    }
    EXPECT_EQ(counts, (std::vector<int>{2, 1, 4}));
    seen.insert(key);
    int held = 0;
    for (const ClassCount& item : outcome.held.devices) held += item.count;
    EXPECT_EQ(held, 5);  // 2 GPUs, one of them kept by the sidecar; 2 more GPUs; 1 NIC
    return true;
  });
  EXPECT_EQ(static_cast<std::size_t>(outcomes), seen.size());
  EXPECT_GT(outcomes, 1);
}

TEST(Admit, TheKubeletsWordsForARefusal) {
  EXPECT_EQ(RefusalReasonName(RefusalReason::kTopologyAffinityError), "TopologyAffinityError");
  EXPECT_EQ(RefusalReasonName(RefusalReason::kUnexpectedAdmissionError),
            "UnexpectedAdmissionError");
}

}  // namespace
}  // namespace numafit::policy
