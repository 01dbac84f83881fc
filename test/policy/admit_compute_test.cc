// Admission on machines with the static CPU manager and the Static memory manager. The rules of
// each are tested in their rooms; here it is how they meet.
#include <gtest/gtest.h>

#include <string>

#include "policy/admit.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGiB;
using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::MaskOf;
using testing::PodOf;

Outcome Only(const Topology& topology, const Usage& usage, const Demand& demand) {
  const AdmitResult result = Admit(topology, usage, demand);
  EXPECT_EQ(result.outcomes.size(), 1U);
  EXPECT_FALSE(result.truncated);
  return result.outcomes.front();
}

// 4 NUMA nodes with 2 + 2 devices, 8 CPUs and 32 GiB each.
Machine FourNodes(TopologyPolicy policy) {
  return Machine(4, policy)
      .Pool(kGpu, {2, 2, 2, 2})
      .Pool(kNic, {2, 2, 2, 2})
      .StaticCpus(8)
      .StaticMemory(32);
}

TEST(AdmitCompute, RestrictedWantsTheSameNumberOfNumaNodesForAllResources) {
  const auto topology = FourNodes(TopologyPolicy::kRestricted).Build();
  ASSERT_NE(topology, nullptr);
  const Usage usage(*topology);
  struct Row {
    std::int64_t cpus;
    std::int64_t gib;
    bool admitted;
  };
  for (const Row& row :
       {Row{4, 8, false}, Row{12, 8, false}, Row{4, 40, false}, Row{12, 40, true}}) {
    const Demand pod = PodOf().App({{kGpu, 4}, {kNic, 4}}).With(row.cpus * 1000, row.gib);
    const Outcome outcome = Only(*topology, usage, pod);
    EXPECT_EQ(outcome.admitted, row.admitted) << row.cpus << " CPUs, " << row.gib << " GiB";
    if (row.admitted) continue;
    EXPECT_EQ(outcome.reason, RefusalReason::kTopologyAffinityError);
  }
}

TEST(AdmitCompute, ARefusalSaysWhichFailureOfTheMemoryManagerItWas) {
  const auto topology = FourNodes(TopologyPolicy::kSingleNumaNode).Build();
  ASSERT_NE(topology, nullptr);
  // More than the machine has: no hint, which is no preference, until it is allocated.
  Outcome outcome = Only(*topology, Usage(*topology), PodOf().App({{kGpu, 1}}).With(1000, 200));
  EXPECT_EQ(outcome.reason, RefusalReason::kUnexpectedAdmissionError);
  EXPECT_EQ(outcome.memory_failure, MemoryAllocation::Outcome::kNoExtendedHint);
  outcome = Only(*topology, Usage(*topology), PodOf().App({{kGpu, 9}}).With(1000, 4));
  EXPECT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.memory_failure, MemoryAllocation::Outcome::kAllocated);
}

TEST(AdmitCompute, DevicesCpusAndMemoryOfASingleNumaNodePodLandTogether) {
  const auto topology = FourNodes(TopologyPolicy::kSingleNumaNode).Build();
  ASSERT_NE(topology, nullptr);
  Usage usage(*topology);
  // The reserved CPU is on NUMA 0: eight CPUs fit on the others only.
  const Outcome outcome =
      Only(*topology, usage, PodOf().App({{kGpu, 2}, {kNic, 2}}).With(8000, 16));
  ASSERT_TRUE(outcome.admitted);
  EXPECT_EQ(outcome.containers[0].affinity, MaskOf({1}));
  EXPECT_EQ(FormatCpuSet(outcome.containers[0].cpus), "8-15");
  ASSERT_EQ(outcome.containers[0].memory.size(), 1U);
  EXPECT_EQ(outcome.containers[0].memory[0].numa, MaskOf({1}));
  EXPECT_EQ(outcome.containers[0].memory[0].size, static_cast<std::uint64_t>(16 * kGiB));

  Apply(*topology, outcome, usage);
  EXPECT_EQ(FormatCpuSet(usage.compute().default_cpus), "0-7,16-31");
  usage.Release(*topology, outcome.held);
  EXPECT_EQ(usage, Usage(*topology));
}

TEST(AdmitCompute, CpusInUseRefuseWhereDevicesAreFree) {
  const auto topology =
      Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {4, 4}).StaticCpus(8).Build();
  Usage usage(*topology);
  Apply(*topology, Only(*topology, usage, PodOf().App({}).With(6000, 1)), usage);
  Apply(*topology, Only(*topology, usage, PodOf().App({}).With(6000, 1)), usage);
  const Outcome outcome = Only(*topology, usage, PodOf().App({{kGpu, 1}}).With(3000, 1));
  EXPECT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.reason, RefusalReason::kTopologyAffinityError);
  EXPECT_EQ(outcome.refused_resource, "cpu");
}

TEST(AdmitCompute, OnlyGuaranteedPodsWithWholeCpusGetThem) {
  const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode)
                            .Pool(kGpu, {4, 4})
                            .StaticCpus(8)
                            .StaticMemory(16)
                            .Build();
  const Usage usage(*topology);
  // More CPUs and memory than one NUMA node has.
  const auto pod = [] { return PodOf().App({{kGpu, 1}}).With(12000, 24); };
  EXPECT_FALSE(Only(*topology, usage, pod()).admitted);
  EXPECT_TRUE(Only(*topology, usage, pod().Qos(QosClass::kBurstable)).admitted);
  const Outcome pod_level = Only(*topology, usage, pod().PodLevelResources());
  EXPECT_TRUE(pod_level.admitted);
  EXPECT_TRUE(pod_level.held.cpus.empty());
  EXPECT_TRUE(pod_level.held.memory.empty());
  const Outcome fraction = Only(*topology, usage, PodOf().App({{kGpu, 1}}).With(1500, 1));
  EXPECT_TRUE(fraction.admitted);
  EXPECT_TRUE(fraction.held.cpus.empty());
}

TEST(AdmitCompute, FullPhysicalCpusOnlyRefusesHalfACoreUnderEveryPolicy) {
  for (const TopologyPolicy policy : {TopologyPolicy::kNone, TopologyPolicy::kSingleNumaNode}) {
    const auto topology = Machine(2, policy)
                              .Pool(kGpu, {4, 4})
                              .StaticCpus(8, 2, {{"full-pcpus-only", "true"}}, 2000)
                              .Build();
    ASSERT_NE(topology, nullptr);
    const Usage usage(*topology);
    const Outcome outcome = Only(*topology, usage, PodOf().App({{kGpu, 1}}).With(3000, 1));
    EXPECT_FALSE(outcome.admitted);
    EXPECT_EQ(outcome.reason, RefusalReason::kSmtAlignmentError);
    EXPECT_EQ(outcome.refused_resource, "cpu");
    EXPECT_EQ(RefusalReasonName(outcome.reason), "SMTAlignmentError");
    EXPECT_EQ(Admit(*topology, usage, PodOf().App({{kGpu, 1}}).With(4000, 1)).verdict(),
              Verdict::kAdmitted);
  }
}

// No set of NUMA nodes has the memory: the memory manager has no hint, which is no preference, and
// the kubelet fails when it allocates.
TEST(AdmitCompute, MemoryThatIsNowhereIsAnUnexpectedAdmissionError) {
  const auto topology =
      Machine(2, TopologyPolicy::kSingleNumaNode).Pool(kGpu, {4, 4}).StaticMemory(16).Build();
  const Usage usage(*topology);
  const Outcome outcome = Only(*topology, usage, PodOf().App({{kGpu, 1}}).With(1000, 64));
  EXPECT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.reason, RefusalReason::kUnexpectedAdmissionError);
  EXPECT_EQ(outcome.refused_resource, "memory");
}

TEST(AdmitCompute, AnUnknownPageSizeKillsTheKubelet) {
  const auto topology =
      Machine(2, TopologyPolicy::kRestricted).Pool(kGpu, {4, 4}).StaticMemory(16).Build();
  const Usage usage(*topology);
  const Outcome outcome =
      Only(*topology, usage, PodOf().App({{kGpu, 1}}).With(1000, 1).WithHugepages("2Mi", 2 << 20));
  EXPECT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.reason, RefusalReason::kPanic);
}

TEST(AdmitCompute, AnInitContainersCpusAreUsedAgain) {
  const auto topology = Machine(2, TopologyPolicy::kRestricted).StaticCpus(8).Build();
  Usage usage(*topology);
  const Demand pod = PodOf().Init({}).With(4000, 1).App({}).With(6000, 1);
  const Outcome outcome = Only(*topology, usage, pod);
  ASSERT_TRUE(outcome.admitted);
  EXPECT_TRUE(outcome.containers[0].cpus.IsSubsetOf(outcome.containers[1].cpus));
  EXPECT_EQ(outcome.held.cpus.count(), 6);
  Apply(*topology, outcome, usage);
  EXPECT_EQ(usage.compute().default_cpus.count(), 10);
}

// What the first container got stays in the books until the next admission.
TEST(AdmitCompute, ARefusedPodGivesBackWhatItsFirstContainersGot) {
  const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode)
                            .Pool(kGpu, {1, 1})
                            .StaticCpus(8)
                            .StaticMemory(16)
                            .Build();
  Usage usage(*topology);
  const Demand pod = PodOf().App({}).With(4000, 2).App({{kGpu, 2}}).With(1000, 1);
  const Outcome outcome = Only(*topology, usage, pod);
  ASSERT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.refused_container, 1);
  EXPECT_EQ(outcome.held.cpus.count(), 4);
  EXPECT_EQ(outcome.compute.default_cpus.count(), 12);
  Apply(*topology, outcome, usage);
  EXPECT_EQ(usage, Usage(*topology));
}

}  // namespace
}  // namespace numafit::policy
