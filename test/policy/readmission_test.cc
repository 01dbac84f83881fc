// What a kubelet that has restarted says to its Pods, on machines whose device plugins have not
// come back.
#include "policy/readmission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/memory_manager/memory_manager.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGiB;
using testing::kGpu;
using testing::Machine;
using testing::MaskOf;
using testing::PodOf;

// Two NUMA nodes with 8 CPUs (2 threads a core) and 32 GiB each; nobody lists a GPU.
Machine TwoNodes(TopologyPolicy policy = TopologyPolicy::kRestricted,
                 std::map<std::string, std::string> options = {}) {
  return Machine(2, policy)
      .Pool(kGpu, {})
      .StaticCpus(8, 2, std::move(options), 2000)
      .StaticMemory(32);
}

// Admits the Pod and says what each container has of CPUs and memory; devices are nobody's.
std::vector<HeldContainer> HoldingOf(const Topology& topology, Usage& usage, const Demand& demand,
                                     bool runs) {
  const AdmitResult result = Admit(topology, usage, demand);
  EXPECT_TRUE(result.outcomes.front().admitted);
  Apply(topology, result.outcomes.front(), usage);
  std::vector<HeldContainer> held;
  for (std::size_t i = 0; i < demand.containers.size(); ++i) {
    HeldContainer& container = held.emplace_back();
    container.cpus = result.outcomes.front().containers[i].cpus;
    container.memory = result.outcomes.front().held.memory[i];
    container.runs = runs && demand.containers[i].kind != ContainerDemand::Kind::kInit;
  }
  return held;
}

TEST(Readmit, APodKeepsItsCpusAndItsMemory) {
  for (const TopologyScope scope : {TopologyScope::kContainer, TopologyScope::kPod}) {
    const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode).Scope(scope).Build();
    ASSERT_NE(topology, nullptr);
    Usage usage(*topology);
    // NUMA 0 has 6 free CPUs: the first Pod gets NUMA 1, and there is no room for another of it.
    const Demand pod = PodOf().App({}).With(8000, 20);
    const auto held = HoldingOf(*topology, usage, pod, /*runs=*/true);
    EXPECT_FALSE(Admit(*topology, usage, pod).outcomes.front().admitted);

    const ReadmitResult again = Readmit(*topology, usage, pod, held);
    ASSERT_TRUE(again.outcome.admitted);
    EXPECT_EQ(again.outcome.containers[0].affinity, MaskOf({1}));
    EXPECT_TRUE(again.outcome.containers[0].preferred);
    EXPECT_EQ(FormatCpuSet(again.outcome.containers[0].cpus), "8-15");
    EXPECT_EQ(again.outcome.held.memory[0].blocks, held[0].memory.blocks);
    EXPECT_EQ(again.outcome.compute, usage.compute());
  }
}

TEST(Readmit, WholeCoresAreCountedAgainstAPodThatHasThemBefore137) {
  for (const int minor : {34, 35, 36, 37}) {
    const auto topology =
        TwoNodes(TopologyPolicy::kNone, {{"full-pcpus-only", "true"}}).Version(minor).Build();
    ASSERT_NE(topology, nullptr);
    Usage usage(*topology);
    const Demand pod = PodOf().App({}).With(8000, 1).App({}).With(2000, 1);
    const auto held = HoldingOf(*topology, usage, pod, /*runs=*/true);
    const Outcome outcome = Readmit(*topology, usage, pod, held).outcome;
    EXPECT_EQ(outcome.admitted, minor == 37) << minor;
    if (outcome.admitted) continue;
    EXPECT_EQ(outcome.reason, RefusalReason::kSmtAlignmentError);
    EXPECT_EQ(outcome.refused_container, 0);
    // It has all of it until the kubelet cleans up.
    ASSERT_EQ(outcome.containers.size(), 2U);
    EXPECT_EQ(outcome.containers[0].cpus, held[0].cpus);
    EXPECT_EQ(outcome.containers[1].cpus, held[1].cpus);
    EXPECT_EQ(outcome.held.cpus.count(), 10);
    EXPECT_EQ(outcome.held.memory.size(), 2U);
  }
}

TEST(Readmit, AContainerThatRunsNeedsNoDevices) {
  const auto topology = TwoNodes().Build();
  ASSERT_NE(topology, nullptr);
  const Usage usage(*topology);
  const Demand pod = PodOf().Sidecar({{kGpu, 1}}).App({{kGpu, 2}});
  std::vector<HeldContainer> held(2);
  held[0].runs = held[1].runs = true;
  EXPECT_TRUE(Readmit(*topology, usage, pod, held).outcome.admitted);

  held[1].runs = false;
  const Outcome outcome = Readmit(*topology, usage, pod, held).outcome;
  EXPECT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.reason, RefusalReason::kUnexpectedAdmissionError);
  EXPECT_EQ(outcome.refused_container, 1);
  EXPECT_EQ(outcome.refused_resource, kGpu);
}

TEST(Readmit, AnInitContainerThatHasEndedIsAskedForItsDevicesAgain) {
  const auto topology = TwoNodes().Build();
  ASSERT_NE(topology, nullptr);
  const Usage usage(*topology);
  std::vector<HeldContainer> held(2);
  held[1].runs = true;
  EXPECT_FALSE(
      Readmit(*topology, usage, PodOf().Init({{kGpu, 1}}).App({{kGpu, 1}}), held).outcome.admitted);
  EXPECT_FALSE(Readmit(*topology, usage, PodOf().Init({{kGpu, 0}}).App({}), held).outcome.admitted);
  EXPECT_TRUE(Readmit(*topology, usage, PodOf().Init({}).App({{kGpu, 1}}), held).outcome.admitted);
}

TEST(Readmit, MemoryThatAnInitContainerGaveBackIsTakenAnew) {
  const auto topology = TwoNodes().Build();
  ASSERT_NE(topology, nullptr);
  const MemoryManager& manager = *topology->memory_manager();
  Usage usage(*topology);
  const Demand pod = PodOf().Init({}).With(1000, 10).App({}).With(1000, 4);
  auto held = HoldingOf(*topology, usage, pod, /*runs=*/true);
  std::vector<ContainerMemory> memory = {held[0].memory, held[1].memory};
  manager.StartContainer(usage.compute().memory, memory, 1);
  held[0].memory = memory[0];
  held[1].memory = memory[1];
  const std::uint64_t free = usage.compute().memory.at(0, kMemoryType).free;

  const Outcome outcome = Readmit(*topology, usage, pod, held).outcome;
  ASSERT_TRUE(outcome.admitted);
  ASSERT_EQ(outcome.held.memory[0].blocks.size(), 1U);
  EXPECT_EQ(outcome.held.memory[0].blocks[0].size, static_cast<std::uint64_t>(10 * kGiB));
  EXPECT_EQ(outcome.compute.memory.at(0, kMemoryType).free,
            free - static_cast<std::uint64_t>(10 * kGiB));
}

TEST(Readmit, InPodScopeANumberOfCpusThatIsNotAskedForIsImpossible) {
  const auto topology = TwoNodes().Scope(TopologyScope::kPod).Build();
  ASSERT_NE(topology, nullptr);
  Usage usage(*topology);
  auto held = HoldingOf(*topology, usage, PodOf().App({}).With(2000, 1), /*runs=*/true);
  const Outcome outcome = Readmit(*topology, usage, PodOf().App({}).With(3000, 1), held).outcome;
  EXPECT_FALSE(outcome.admitted);
  EXPECT_EQ(outcome.reason, RefusalReason::kTopologyAffinityError);
  EXPECT_EQ(outcome.refused_resource, "cpu");
}

}  // namespace
}  // namespace numafit::policy
