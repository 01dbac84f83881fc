// Pods with resources of their own, with the gate PodLevelResourceManagers.
#include "policy/pod_level.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policy/admit.h"
#include "policy/readmission.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGiB;
using testing::kGpu;
using testing::Machine;
using testing::MaskOf;
using testing::PodOf;

// Two NUMA nodes with 4 CPUs and 8 GiB each; CPU 0 and 1 GiB of NUMA 0 are reserved.
Machine TwoNodes(TopologyPolicy policy, TopologyScope scope = TopologyScope::kPod) {
  Machine machine = Machine(2, policy).Scope(scope).StaticCpus(4).StaticMemory(8);
  machine.spec().kubelet.reserved_cpus = {0};
  machine.spec().kubelet.feature_gates = {{"PodLevelResourceManagers", true}};
  return machine;
}

Outcome Only(const Topology& topology, const Usage& usage, const Demand& demand) {
  const AdmitResult result = Admit(topology, usage, demand);
  EXPECT_EQ(result.outcomes.size(), 1U);
  return result.outcomes.front();
}

std::vector<std::string> CpusOf(const Outcome& outcome) {
  std::vector<std::string> cpus;
  for (const ContainerAllocation& container : outcome.containers) {
    cpus.push_back(FormatCpuSet(container.cpus));
  }
  return cpus;
}

using Texts = std::vector<std::string>;

TEST(PodLevel, APodIsAllocatedAsAWholeAndParted) {
  const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode).Build();
  ASSERT_NE(topology, nullptr);
  Usage usage(*topology);
  const Demand pod = PodOf().App({}).Own(1000, 1).App({}).Whole(4000, 6);
  const Outcome outcome = Only(*topology, usage, pod);
  ASSERT_TRUE(outcome.admitted);
  EXPECT_EQ(outcome.containers[0].affinity, MaskOf({1}));
  EXPECT_EQ(CpusOf(outcome), (Texts{"4", "5-7"}));
  EXPECT_EQ(FormatCpuSet(outcome.held.cpus), "4-7");
  EXPECT_EQ(outcome.held.container_cpus, outcome.held.cpus);
  ASSERT_EQ(outcome.held.pod_memory.size(), 1U);
  EXPECT_EQ(outcome.held.pod_memory[0].size, static_cast<std::uint64_t>(6 * kGiB));
  EXPECT_EQ(outcome.containers[1].memory[0].size, static_cast<std::uint64_t>(5 * kGiB));
  Apply(*topology, outcome, usage);
  EXPECT_EQ(usage.compute().memory.nodes[1].assignments, 1) << "not one for each container";
  EXPECT_FALSE(Only(*topology, usage, pod).admitted);
  usage.Release(*topology, outcome.held);
  EXPECT_EQ(usage, Usage(*topology));
}

TEST(PodLevel, WithoutPodScopeContainersThatShareGetNothing) {
  const Demand pod = PodOf().App({}).Own(2000, 1).App({}).With(1000, 1).Whole(4000, 6);
  for (const int minor : {36, 37}) {
    for (const Machine& machine :
         {TwoNodes(TopologyPolicy::kSingleNumaNode, TopologyScope::kContainer).Version(minor),
          TwoNodes(TopologyPolicy::kNone).Version(minor)}) {
      const auto topology = machine.Build();
      ASSERT_NE(topology, nullptr);
      EXPECT_FALSE(IsAllocatedAsAWhole(*topology, pod));
      const Outcome outcome = Only(*topology, Usage(*topology), pod);
      // 1.36 asks the memory manager for nothing, without an affinity: it finds no hint.
      EXPECT_EQ(outcome.admitted, minor == 37);
      EXPECT_EQ(FormatCpuSet(outcome.held.cpus), "1-2");
      if (!outcome.admitted) continue;
      EXPECT_EQ(CpusOf(outcome), (Texts{"1-2", ""}));
      EXPECT_TRUE(outcome.held.pod_memory.empty());
    }
  }
}

TEST(PodLevel, SidecarsKeepTheirPartAndInitContainersLeaveIt) {
  const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode).Build();
  ASSERT_NE(topology, nullptr);
  const Demand pod = PodOf()
                         .Init({})
                         .Own(3000, 4)
                         .Sidecar({})
                         .Own(1000, 1)
                         .Init({})
                         .Sidecar({})
                         .App({})
                         .Own(2000, 2)
                         .Whole(4000, 6);
  const Outcome outcome = Only(*topology, Usage(*topology), pod);
  ASSERT_TRUE(outcome.admitted);
  EXPECT_EQ(CpusOf(outcome), (Texts{"4-6", "4", "5-7", "7", "5-6"}));
  std::vector<std::uint64_t> gib;
  for (const ContainerAllocation& container : outcome.containers) {
    gib.push_back(container.memory[0].size / static_cast<std::uint64_t>(kGiB));
  }
  EXPECT_EQ(gib, (std::vector<std::uint64_t>{4, 1, 5, 3, 2}));
}

TEST(PodLevel, NothingToShareIsRefused) {
  const Demand cpus = PodOf().App({}).Own(3000, 1).App({}).Whole(3000, 6);
  const Demand memory = PodOf().App({}).Own(2000, 6).App({}).Whole(3000, 6);
  const Demand init = PodOf().Sidecar({}).Own(3000, 1).Init({}).App({}).Own(1000, 1).Whole(3000, 6);
  const Demand none = PodOf().App({}).Own(3000, 6).Whole(3000, 6);
  const auto best_effort = TwoNodes(TopologyPolicy::kBestEffort).Build();
  const auto restricted = TwoNodes(TopologyPolicy::kRestricted).Build();
  ASSERT_NE(best_effort, nullptr);
  ASSERT_NE(restricted, nullptr);
  for (const Demand* pod : {&cpus, &memory, &init}) {
    const Outcome outcome = Only(*best_effort, Usage(*best_effort), *pod);
    EXPECT_EQ(outcome.reason, RefusalReason::kEmptyPodSharedPoolError);
    EXPECT_EQ(outcome.refused_resource, pod == &memory ? "memory" : "cpu");
    EXPECT_EQ(outcome.held.cpus.count(), pod == &memory ? 3 : 0) << "until the next admission";
    EXPECT_EQ(Only(*restricted, Usage(*restricted), *pod).reason,
              RefusalReason::kTopologyAffinityError);
  }
  EXPECT_TRUE(Only(*restricted, Usage(*restricted), none).admitted);
}

TEST(PodLevel, AFractionOfACpuGivesNobodyAny) {
  const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode).Build();
  ASSERT_NE(topology, nullptr);
  const Outcome outcome =
      Only(*topology, Usage(*topology), PodOf().App({}).Own(2000, 1).Whole(2500, 6));
  ASSERT_TRUE(outcome.admitted);
  EXPECT_TRUE(outcome.held.cpus.empty());
  EXPECT_EQ(outcome.held.pod_memory.size(), 1U);
}

TEST(PodLevel, OnlyGuaranteedPodsHaveAnything) {
  const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode).Build();
  ASSERT_NE(topology, nullptr);
  const Demand pod = PodOf().App({}).Own(8000, 20).Whole(8000, 20).Qos(QosClass::kBurstable);
  const Outcome outcome = Only(*topology, Usage(*topology), pod);
  EXPECT_TRUE(outcome.admitted);
  EXPECT_TRUE(outcome.held.empty());
}

TEST(PodLevel, DevicesInPodScopeComeOnlyWhenContainersStart) {
  const Demand pod = PodOf().App({{kGpu, 1}}).Whole(1000, 1);
  const auto late = [&](const Machine& machine) {
    return GetsDevicesOnlyWhenItStarts(*machine.Build(), pod);
  };
  EXPECT_TRUE(late(TwoNodes(TopologyPolicy::kRestricted).Pool(kGpu, {1})));
  EXPECT_FALSE(late(TwoNodes(TopologyPolicy::kRestricted)));
  EXPECT_FALSE(late(TwoNodes(TopologyPolicy::kNone).Pool(kGpu, {1})));
  EXPECT_FALSE(
      late(TwoNodes(TopologyPolicy::kRestricted, TopologyScope::kContainer).Pool(kGpu, {1})));
  EXPECT_FALSE(late(TwoNodes(TopologyPolicy::kRestricted).Pool(kGpu, {1}).Version(35)));
}

// What the Pod has when the kubelet comes back.
struct Before {
  std::vector<HeldContainer> containers;
  HeldAsAWhole pod;
};

Before AdmitAndRestart(const Topology& topology, Usage& usage, const Demand& demand) {
  const Outcome outcome = Only(topology, usage, demand);
  EXPECT_TRUE(outcome.admitted);
  Apply(topology, outcome, usage);
  Before before;
  for (std::size_t i = 0; i < demand.containers.size(); ++i) {
    HeldContainer& container = before.containers.emplace_back();
    container.cpus = outcome.containers[i].cpus;
    container.memory = outcome.held.memory[i];
    container.runs = true;
  }
  before.pod = {outcome.held.cpus, outcome.held.pod_memory};
  return before;
}

TEST(PodLevelRestart, AllocatesAgainWithoutGivingBack) {
  const auto topology = TwoNodes(TopologyPolicy::kRestricted).Build();
  ASSERT_NE(topology, nullptr);
  Usage usage(*topology);
  const Demand pod = PodOf().App({}).Own(1000, 2).Whole(1000, 2);
  const Before before = AdmitAndRestart(*topology, usage, pod);
  const Outcome again = Readmit(*topology, usage, pod, before.containers, before.pod).outcome;
  ASSERT_TRUE(again.admitted);
  EXPECT_EQ(CpusOf(again), (Texts{"2"}));
  EXPECT_EQ(FormatCpuSet(again.compute.default_cpus), "0,3-7") << "CPU 1 is nobody's";
  EXPECT_EQ(again.compute.memory.nodes[0].assignments, 2);
  const std::vector<CpuSet> held = {again.held.container_cpus};
  const std::vector<CpuSet> pods = {again.held.cpus};
  EXPECT_FALSE(topology->cpu_manager()->CheckState(again.compute.default_cpus, held, pods).ok());
  EXPECT_EQ(topology->memory_manager()->Validate(again.compute.memory, again.held.pod_memory),
            MemoryManager::Restored::kRefused);
}

TEST(PodLevelRestart, APodThatSharesIsRefused) {
  const auto topology = TwoNodes(TopologyPolicy::kRestricted).Build();
  ASSERT_NE(topology, nullptr);
  Usage usage(*topology);
  const Demand pod = PodOf().App({}).Own(1000, 2).App({}).Whole(3000, 4);
  const Before before = AdmitAndRestart(*topology, usage, pod);
  const Outcome again = Readmit(*topology, usage, pod, before.containers, before.pod).outcome;
  EXPECT_EQ(again.reason, RefusalReason::kTopologyAffinityError);
  EXPECT_EQ(again.refused_resource, "cpu");
  // It has what it had until the kubelet cleans up.
  EXPECT_EQ(again.held.cpus, before.pod.cpus);
  EXPECT_EQ(again.held.pod_memory, before.pod.memory);
  EXPECT_EQ(CpusOf(again), (Texts{"1", "2-3"}));
  usage.Release(*topology, again.held);
  EXPECT_EQ(usage, Usage(*topology));
}

TEST(PodLevel, AnEndedInitContainerLeavesTheBookAlone) {
  std::vector<ContainerMemory> containers(3);
  containers[0] = {ContainerDemand::Kind::kInit, true, {{.numa = MaskOf({0}), .size = 1}}};
  containers[1] = {ContainerDemand::Kind::kSidecar, true, {{.numa = MaskOf({0}), .size = 2}}};
  containers[2] = {ContainerDemand::Kind::kApp, true, {{.numa = MaskOf({0}), .size = 3}}};
  ForgetEndedContainers(containers, 2);
  EXPECT_FALSE(containers[0].held);
  EXPECT_TRUE(containers[0].blocks.empty());
  EXPECT_TRUE(containers[1].held);
  EXPECT_TRUE(containers[2].held);
}

TEST(PodLevel, ATypeThatOnlyAContainerAsksForWrapsAround) {
  const Demand pod = PodOf().App({}).App({});
  RequestsOfContainers requests(2);
  requests[0].memory.items = {{.type = 0, .bytes = 1}, {.type = 1, .bytes = 2}};
  const MemoryBlocks whole = {{.numa = MaskOf({1}), .type = 0, .size = 5}};
  const std::vector<MemoryBlocks> parts = PartMemory(whole, pod, requests);
  ASSERT_EQ(parts[1].size(), 2U);
  EXPECT_EQ(parts[1][0].size, 4U);
  EXPECT_EQ(parts[1][1].size, std::uint64_t{0} - 2);
}

}  // namespace
}  // namespace numafit::policy
