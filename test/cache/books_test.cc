#include "cache/books.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cache/possible_states.h"
#include "policy/admit.h"
#include "test/policy/machines.h"

namespace numafit::cache {
namespace {

using policy::CpuSet;
using policy::Demand;
using policy::TopologyPolicy;
using policy::testing::kGpu;
using policy::testing::Machine;
using policy::testing::PodOf;

std::shared_ptr<const policy::Topology> TwoNodes(TopologyPolicy policy, int threads = 2) {
  return Machine(2, policy)
      .Pool(kGpu, {4, 4})
      .StaticCpus(16, threads, {}, 2000)
      .StaticMemory(64)
      .Build();
}

std::shared_ptr<const Demand> Pod(int gpus, std::int64_t cpus, std::int64_t gib) {
  return std::make_shared<const Demand>(PodOf().App({{kGpu, gpus}}).With(cpus * 1000, gib));
}

TEST(Books, CpusThatComeToTheSameGetTheSameIds) {
  const auto topology = TwoNodes(TopologyPolicy::kRestricted);
  const CpuSet all = topology->initial_compute().default_cpus;
  // Two Pods on NUMA 0, in one order and in the other.
  CpuSet a1{2, 3, 4, 5};
  CpuSet b1{6, 7};
  CpuSet free1 = all - a1 - b1;
  CpuSet b2{2, 3};
  CpuSet a2{4, 5, 6, 7};
  CpuSet free2 = all - a2 - b2;
  UseLowestCpus(*topology, {&a1, &b1}, free1);
  UseLowestCpus(*topology, {&a2, &b2}, free2);
  EXPECT_EQ(a1, a2);
  EXPECT_EQ(b1, b2);
  EXPECT_EQ(free1, free2);
  EXPECT_EQ(a1 | b1 | free1, all);
}

TEST(Books, ASharedCoreKeepsTheIdsOfItsGroup) {
  const auto topology = TwoNodes(TopologyPolicy::kRestricted);
  CpuSet a{4};  // half a core
  CpuSet b{8, 9};
  CpuSet free = topology->initial_compute().default_cpus - a - b;
  UseLowestCpus(*topology, {&a, &b}, free);
  EXPECT_EQ(a, CpuSet{4});
  EXPECT_EQ(b, (CpuSet{8, 9}));
}

TEST(Books, ThePodsOfTwoNumaNodesAreNotMixed) {
  const auto topology = TwoNodes(TopologyPolicy::kRestricted);
  CpuSet a{20, 21, 30, 31};
  CpuSet free = topology->initial_compute().default_cpus - a;
  UseLowestCpus(*topology, {&a}, free);
  EXPECT_EQ(a, (CpuSet{16, 17, 18, 19}));
}

// The verdict on a Pod does not depend on the ids: random Pods on the kubelet's own book and on the
// one with lowered ids, side by side.
TEST(Books, LoweredIdsGiveTheSameVerdicts) {
  std::mt19937 random(7);
  for (const TopologyPolicy policy : {TopologyPolicy::kSingleNumaNode, TopologyPolicy::kRestricted,
                                      TopologyPolicy::kBestEffort}) {
    for (int round = 0; round < 30; ++round) {
      const auto topology = TwoNodes(policy, round % 2 + 1);
      policy::Usage raw(*topology);
      policy::Usage lowered(*topology);
      std::vector<policy::Holding> raw_held;
      std::vector<policy::Holding> lowered_held;
      for (int step = 0; step < 20; ++step) {
        if (!raw_held.empty() && random() % 3 == 0) {
          const std::size_t at = random() % raw_held.size();
          raw.Release(*topology, raw_held[at]);
          lowered.Release(*topology, lowered_held[at]);
          raw_held.erase(raw_held.begin() + static_cast<std::ptrdiff_t>(at));
          lowered_held.erase(lowered_held.begin() + static_cast<std::ptrdiff_t>(at));
        }
        const auto demand =
            Pod(static_cast<int>(random() % 3), static_cast<std::int64_t>(random() % 5) * 2, 4);
        const auto a = policy::Admit(*topology, raw, *demand);
        const auto b = policy::Admit(*topology, lowered, *demand);
        ASSERT_EQ(a.outcomes.size(), b.outcomes.size());
        ASSERT_EQ(a.outcomes.front().admitted, b.outcomes.front().admitted);
        ASSERT_EQ(a.outcomes.front().reason, b.outcomes.front().reason);
        policy::Apply(*topology, a.outcomes.front(), raw);
        policy::Apply(*topology, b.outcomes.front(), lowered);
        if (!a.outcomes.front().admitted) continue;
        raw_held.push_back(a.outcomes.front().held);
        lowered_held.push_back(b.outcomes.front().held);
        ASSERT_EQ(ShapeOf(*topology, raw_held.back()), ShapeOf(*topology, lowered_held.back()));
        std::vector<CpuSet*> owners;
        for (policy::Holding& holding : lowered_held) owners.push_back(&holding.cpus);
        UseLowestCpus(*topology, owners, lowered.compute().default_cpus);
      }
    }
  }
}

TEST(Books, TwoWaitingPodsThatOnlySwapCpusLeaveOneState) {
  PossibleStates states(TwoNodes(TopologyPolicy::kSingleNumaNode), {});
  const auto first = states.AddWaiting(Pod(1, 4, 4));
  const auto second = states.AddWaiting(Pod(2, 6, 8));
  EXPECT_EQ(states.Describe().knowledge.usages.size(), 1U);
  states.ShowAdmitted(first);
  states.ShowAdmitted(second);
  states.Remove(first, /*never_admitted=*/false);
  states.Remove(second, /*never_admitted=*/false);
  const NodeState state = states.Describe();
  ASSERT_EQ(state.knowledge.usages.size(), 1U);
  EXPECT_EQ(state.knowledge.usages.front(), policy::Usage(*state.topology));
}

TEST(Books, APodThatOnlyHasCpusCounts) {
  const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode);
  const auto cpus_only = std::make_shared<const Demand>(PodOf().App({}).With(12000, 1));
  EXPECT_FALSE(HoldsNothing(*topology, *cpus_only));
  PossibleStates states(topology, {});
  states.ShowAdmitted(states.AddWaiting(cpus_only));
  states.ShowAdmitted(states.AddWaiting(cpus_only));
  const policy::Judgement judgement = JudgeOnNode(states.Describe(), *Pod(1, 6, 1), nullptr);
  EXPECT_FALSE(judgement.fits());
  EXPECT_EQ(judgement.refused_resource, "cpu");
}

TEST(Books, ARunningPodWhoseDevicesAreKnownGetsCpusWhereTheyAre) {
  const auto topology = TwoNodes(TopologyPolicy::kSingleNumaNode);
  PossibleStates states(topology, {});
  const auto demand = Pod(2, 4, 4);
  // NUMA 1: the kubelet would have chosen NUMA 0 on an empty node.
  const policy::Topology::Pool& pool = topology->pools().front();
  const policy::DeviceHolding on_one = {{pool.first_class + 1, 2}};
  const auto blocker = states.AddRunning(Pod(4, 14, 32), {});
  const auto pod = states.AddRunning(demand, {on_one});
  ASSERT_EQ(states.HeldBy(pod).size(), 1U);
  const NodeState state = states.Describe();
  ASSERT_EQ(state.knowledge.usages.size(), 1U);
  const policy::CpuSet& free = state.knowledge.usages.front().compute().default_cpus;
  EXPECT_EQ(topology->cpu_manager()->topology().numa_nodes()[1].cpus.CountAnd(free), 12);
  (void)blocker;
}

}  // namespace
}  // namespace numafit::cache
