// What a kubelet says to a running Pod that is to have other requests and limits.
#include "policy/resize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/memory_manager/memory_manager.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::MaskOf;
using testing::PodOf;

// Admits the Pod. Nobody else was given anything since.
RunningPod RunPod(const Topology& topology, Usage& usage, const Demand& demand) {
  const AdmitResult result = Admit(topology, usage, demand);
  const Outcome& outcome = result.outcomes.front();
  EXPECT_TRUE(outcome.admitted);
  Apply(topology, outcome, usage);
  RunningPod running;
  running.devices.listed = outcome.held.devices;
  for (std::size_t i = 0; i < demand.containers.size(); ++i) {
    HeldContainer& container = running.containers.emplace_back();
    container.cpus = outcome.containers[i].cpus;
    if (!outcome.held.memory.empty()) container.memory = outcome.held.memory[i];
    container.devices.listed = outcome.containers[i].devices;
    running.left_memory.Update(outcome.containers[i].memory,
                               demand.containers[i].kind == ContainerDemand::Kind::kInit);
  }
  return running;
}

// The one outcome of a resize.
Outcome ResizeOf(const Topology& topology, const Usage& usage, const Demand& asked,
                 const RunningPod& running) {
  const ResizeResult result = Resize(topology, usage, asked, running);
  EXPECT_EQ(result.outcomes.size(), 1U);
  EXPECT_FALSE(result.truncated);
  EXPECT_FALSE(result.intractable);
  return result.outcomes.front();
}

TEST(WhyInfeasible, StaticManagersMindWhatAGuaranteedPodRequests) {
  const auto both = Machine(2).StaticCpus(8).StaticMemory(32).Build();
  const auto cpus = Machine(2).StaticCpus(8).Build();
  const auto none = Machine(2).Build();
  const Demand has = PodOf().App({}).With(2000, 1);
  const Demand more_cpus = PodOf().App({}).With(3000, 1);
  const Demand more_memory = PodOf().App({}).With(2000, 2);
  const Demand more = PodOf().App({}).With(3000, 2);
  EXPECT_EQ(WhyInfeasible(*both, has, more_cpus), "guaranteed_pod_cpu_manager_static_policy");
  EXPECT_EQ(WhyInfeasible(*both, has, more), "guaranteed_pod_cpu_manager_static_policy");
  EXPECT_EQ(WhyInfeasible(*both, has, more_memory), "guaranteed_pod_memory_manager_static_policy");
  EXPECT_EQ(WhyInfeasible(*both, has, has), std::nullopt);
  EXPECT_EQ(WhyInfeasible(*cpus, has, more_memory), std::nullopt);
  EXPECT_EQ(WhyInfeasible(*none, has, more), std::nullopt);
  // Also of CPUs that are no whole number, and that nobody has for himself.
  EXPECT_NE(WhyInfeasible(*cpus, PodOf().App({}).With(500, 1), PodOf().App({}).With(600, 1)),
            std::nullopt);
  const Demand burstable = PodOf().App({}).With(3000, 2).Qos(QosClass::kBurstable);
  EXPECT_EQ(
      WhyInfeasible(*both, PodOf().App({}).With(2000, 1).Qos(QosClass::kBurstable), burstable),
      std::nullopt);
}

TEST(WhyInfeasible, InitContainersCountFrom136On) {
  const Demand has = PodOf().Init({}).With(1000, 1).Sidecar({}).With(1000, 1).App({}).With(1000, 1);
  const Demand init =
      PodOf().Init({}).With(2000, 1).Sidecar({}).With(1000, 1).App({}).With(1000, 1);
  const Demand sidecar =
      PodOf().Init({}).With(1000, 1).Sidecar({}).With(2000, 1).App({}).With(1000, 1);
  for (const int minor : {34, 35, 36, 37}) {
    const auto topology = Machine(2).StaticCpus(8).Version(minor).Build();
    EXPECT_EQ(WhyInfeasible(*topology, has, init).has_value(), minor >= 36) << minor;
    EXPECT_TRUE(WhyInfeasible(*topology, has, sidecar).has_value()) << minor;
  }
}

TEST(Resize, APodKeepsItsDevicesAndTheirNumaNodes) {
  for (const TopologyScope scope : {TopologyScope::kContainer, TopologyScope::kPod}) {
    for (const int minor : {34, 36, 37}) {
      const auto topology = Machine(2, TopologyPolicy::kSingleNumaNode)
                                .Pool(kGpu, {2, 1})
                                .Pool(kNic, {1, 0})
                                .Scope(scope)
                                .Version(minor)
                                .Build();
      Usage usage(*topology);
      const Demand pod = PodOf().App({{kGpu, 2}, {kNic, 1}});
      const RunningPod running = RunPod(*topology, usage, pod);
      // There is no room for another one of it.
      EXPECT_FALSE(Admit(*topology, usage, pod).outcomes.front().admitted);
      const Outcome outcome = ResizeOf(*topology, usage, pod, running);
      EXPECT_TRUE(outcome.admitted) << minor;
      EXPECT_EQ(outcome.containers[0].affinity, MaskOf({0}));
      EXPECT_TRUE(outcome.containers[0].devices.empty());
      EXPECT_TRUE(outcome.held.devices.empty());
    }
  }
}

TEST(Resize, ADeviceThatBreaksDefersItUntil136) {
  for (const int minor : {35, 36, 37}) {
    for (const TopologyPolicy policy : {TopologyPolicy::kNone, TopologyPolicy::kRestricted}) {
      const auto topology =
          Machine(2, policy).Pool(kGpu, {2, 0}).Break(kGpu, 0, 1).Version(minor).Build();
      Usage usage(*topology);
      usage.Add({{0, 1}, {1, 1}});
      RunningPod running;
      running.containers.emplace_back().devices.listed = {{0, 1}, {1, 1}};
      running.devices = running.containers[0].devices;
      const Demand pod = PodOf().App({{kGpu, 2}});
      const Outcome outcome = ResizeOf(*topology, usage, pod, running);
      EXPECT_EQ(outcome.admitted, minor == 37) << minor;
      if (outcome.admitted) continue;
      EXPECT_EQ(outcome.reason, RefusalReason::kUnexpectedAdmissionError);
      EXPECT_EQ(outcome.refused_resource, kGpu);
    }
  }
}

TEST(Resize, TheKubeletDiesOfADeviceThatIsListedNoMore) {
  for (const int minor : {34, 36, 37}) {
    const auto topology = Machine(2).Pool(kGpu, {1, 0}).Version(minor).Build();
    Usage usage(*topology);
    usage.Add({{0, 1}});
    RunningPod running;
    HeldDevices& devices = running.containers.emplace_back().devices;
    devices.listed = {{0, 1}};
    devices.unlisted = {{.pool = 0, .count = 1}};
    running.devices = devices;
    const Demand pod = PodOf().App({{kGpu, 2}});
    const Outcome outcome = ResizeOf(*topology, usage, pod, running);
    EXPECT_FALSE(outcome.admitted);
    EXPECT_EQ(outcome.reason, RefusalReason::kPanic);
    EXPECT_EQ(outcome.refused_resource, kGpu);

    // Without a policy nobody asks for hints.
    const auto none = Machine(2, TopologyPolicy::kNone).Pool(kGpu, {1, 0}).Version(minor).Build();
    EXPECT_EQ(ResizeOf(*none, usage, pod, running).reason,
              minor == 37 ? RefusalReason::kNone : RefusalReason::kUnexpectedAdmissionError);
  }
}

TEST(Resize, AResourceThatCameLaterIsGivenOutNow) {
  const auto topology = Machine(2).Pool(kGpu, {1, 1}).Version(36).Build();
  const Usage usage(*topology);
  RunningPod running;
  running.containers.resize(1);
  const Demand pod = PodOf().App({{kGpu, 1}});
  const ResizeResult result = Resize(*topology, usage, pod, running);
  ASSERT_EQ(result.outcomes.size(), 1U);
  EXPECT_EQ(result.outcomes[0].containers[0].devices.size(), 1U);
  EXPECT_EQ(result.outcomes[0].held.devices, result.outcomes[0].containers[0].devices);

  const auto newest = Machine(2).Pool(kGpu, {1, 1}).Version(37).Build();
  const Outcome outcome = ResizeOf(*newest, Usage(*newest), pod, running);
  EXPECT_TRUE(outcome.admitted);
  EXPECT_TRUE(outcome.held.devices.empty());
}

TEST(Resize, WhatIsGivenBeforeAContainerIsRefusedStays) {
  // The first container gets a GPU, the second one finds its NIC broken.
  const auto topology = Machine(1, TopologyPolicy::kNone)
                            .Pool(kGpu, {1})
                            .Pool(kNic, {1})
                            .Break(kNic, 0, 1)
                            .Version(36)
                            .Build();
  Usage usage(*topology);
  const int nic = topology->pools()[static_cast<std::size_t>(topology->FindPool(kNic))].first_class;
  usage.Add({{nic, 1}});
  RunningPod running;
  running.containers.resize(2);
  running.containers[1].devices.listed = {{nic, 1}};
  running.devices = running.containers[1].devices;
  const Outcome outcome =
      ResizeOf(*topology, usage, PodOf().App({{kGpu, 1}}).App({{kNic, 1}}), running);
  EXPECT_FALSE(outcome.admitted);
  ASSERT_EQ(outcome.containers.size(), 2U);
  EXPECT_EQ(outcome.containers[0].devices.size(), 1U);
  EXPECT_EQ(outcome.held.devices.size(), 1U);

  // In one container a Go map's order decides whether it gets the GPU first.
  running.containers.erase(running.containers.begin());
  const ResizeResult any = Resize(*topology, usage, PodOf().App({{kGpu, 1}, {kNic, 1}}), running);
  ASSERT_EQ(any.outcomes.size(), 2U);
  EXPECT_FALSE(any.outcomes[0].admitted || any.outcomes[1].admitted);
  EXPECT_TRUE(any.outcomes[0].held.devices.empty());
  EXPECT_EQ(any.outcomes[1].held.devices.size(), 1U);
}

TEST(Resize, WholeCoresAreCountedAgainstAPodThatHasThemUntil136) {
  for (const int minor : {34, 36, 37}) {
    const auto topology = Machine(2, TopologyPolicy::kNone)
                              .StaticCpus(8, 2, {{"full-pcpus-only", "true"}}, 2000)
                              .Version(minor)
                              .Build();
    Usage usage(*topology);
    const RunningPod running = RunPod(*topology, usage, PodOf().App({}).With(8000, 1));
    const Outcome outcome = ResizeOf(*topology, usage, PodOf().App({}).With(8000, 2), running);
    EXPECT_EQ(outcome.admitted, minor == 37) << minor;
    EXPECT_EQ(outcome.containers[0].cpus, running.containers[0].cpus);
    EXPECT_EQ(outcome.compute, usage.compute());
    if (!outcome.admitted) {
      EXPECT_EQ(outcome.reason, RefusalReason::kSmtAlignmentError);
    }
  }
}

// It stays the Pod's although it is of no use any more.
TEST(Resize, MemoryOfAnEndedInitContainerIsTakenAgainUntil136) {
  for (const int minor : {36, 37}) {
    const auto topology = Machine(2).StaticMemory(32).Version(minor).Build();
    const MemoryManager& manager = *topology->memory_manager();
    Usage usage(*topology);
    const Demand pod = PodOf().Init({}).With(1000, 10).App({}).With(1000, 4);
    RunningPod running = RunPod(*topology, usage, pod);
    std::vector<ContainerMemory> memory = {running.containers[0].memory,
                                           running.containers[1].memory};
    manager.StartContainer(usage.compute().memory, memory, 1);
    running.containers[0].memory = memory[0];
    running.containers[1].memory = memory[1];
    const Demand asked = PodOf().Init({}).With(2000, 10).App({}).With(2000, 4);

    const Outcome outcome = ResizeOf(*topology, usage, asked, running);
    ASSERT_TRUE(outcome.admitted);
    EXPECT_EQ(outcome.held.memory[0].held, minor == 36);
    const std::uint64_t free = usage.compute().memory.at(0, kMemoryType).free;
    const std::uint64_t after = outcome.compute.memory.at(0, kMemoryType).free;
    // 6 of its 10 GiB the manager holds for left over: nobody took them from the init container.
    EXPECT_EQ(free - after, minor == 36 ? static_cast<std::uint64_t>(4 * testing::kGiB) : 0U);

    running.left_memory.Clear();
    const Outcome forgotten = ResizeOf(*topology, usage, asked, running);
    EXPECT_EQ(free - forgotten.compute.memory.at(0, kMemoryType).free,
              minor == 36 ? static_cast<std::uint64_t>(10 * testing::kGiB) : 0U);
  }
}

TEST(Resize, WhatInitContainersLeftMustBeWhereAZeroLimitIs) {
  // 2 GPUs on NUMA 0 for the init container, of which nobody takes any; later one asks for none.
  const auto topology = Machine(2).Pool(kGpu, {2, 2}).Version(36).Build();
  Usage usage(*topology);
  usage.Add({{0, 2}});
  RunningPod running;
  running.containers.resize(3);
  running.containers[1].devices.listed = {{0, 2}};
  running.devices = running.containers[1].devices;
  const Demand pod = PodOf().Init({{kGpu, 0}}).Init({{kGpu, 2}}).App({{kGpu, 0}});
  const Outcome fresh = ResizeOf(*topology, usage, pod, running);
  EXPECT_TRUE(fresh.containers[0].preferred);
  EXPECT_EQ(fresh.containers[2].affinity, MaskOf({0}));
  running.left_devices.listed = {{0, 2}};
  const Outcome remembered = ResizeOf(*topology, usage, pod, running);
  EXPECT_EQ(remembered.containers[0].affinity, MaskOf({0}));
}

}  // namespace
}  // namespace numafit::policy
