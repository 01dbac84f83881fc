// What one question about one node costs. hack/bench.sh policy.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

#include "policy/admit.h"
#include "policy/alignment.h"
#include "policy/score/score_strategy.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::PodOf;

Machine Spread(int nodes, int per_node, TopologyPolicy policy) {
  const std::vector<int> counts(static_cast<std::size_t>(nodes), per_node);
  return Machine(nodes, policy).Pool(kGpu, counts).Pool(kNic, counts);
}

// Different states in turn, so that no branch predictor learns one answer.
std::vector<Usage> States(const Topology& topology) {
  std::mt19937 random(7);
  std::vector<Usage> states(64, Usage(topology));
  for (Usage& usage : states) {
    for (int c = 0; c < static_cast<int>(topology.classes().size()); ++c) {
      const auto room =
          static_cast<unsigned>(topology.classes()[static_cast<std::size_t>(c)].count) / 2 + 1;
      const int taken = static_cast<int>(random() % room);
      if (taken > 0) usage.Add({{c, taken}});
    }
  }
  return states;
}

void RunAdmit(benchmark::State& state, const Machine& machine, const Demand& demand) {
  const auto topology = machine.Build();
  const std::vector<Usage> states = States(*topology);
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Admit(*topology, states[at++ % states.size()], demand));
  }
}

// The target: 8 GPUs and 8 NICs on two NUMA nodes, one container.
void AdmitTwoNumaNodes(benchmark::State& state, TopologyPolicy policy) {
  RunAdmit(state, Spread(2, 4, policy), PodOf().App({{kGpu, 2}, {kNic, 2}}));
}
BENCHMARK_CAPTURE(AdmitTwoNumaNodes, single_numa_node, TopologyPolicy::kSingleNumaNode);
BENCHMARK_CAPTURE(AdmitTwoNumaNodes, restricted, TopologyPolicy::kRestricted);
BENCHMARK_CAPTURE(AdmitTwoNumaNodes, best_effort, TopologyPolicy::kBestEffort);
BENCHMARK_CAPTURE(AdmitTwoNumaNodes, none_all_splits, TopologyPolicy::kNone);

// The same with the static CPU manager and the Static memory manager: SMT, 2 x 32 CPUs, hugepages.
Machine WithManagers(Machine machine, int cpus_per_node) {
  return machine.StaticCpus(cpus_per_node, 2, {{"full-pcpus-only", "true"}}, 2000)
      .Hugepages("2Mi", 2 << 20, 4096)
      .StaticMemory(256);
}

// Some Pods of this size run already.
std::vector<Usage> StatesWithPods(const Topology& topology, const Demand& demand) {
  std::mt19937 random(11);
  std::vector<Usage> states;
  for (int i = 0; i < 16; ++i) {
    Usage& usage = states.emplace_back(topology);
    for (auto pods = random() % 3; pods > 0; --pods) {
      const AdmitResult result = Admit(topology, usage, demand);
      if (result.outcomes.front().admitted) Apply(topology, result.outcomes.front(), usage);
    }
  }
  return states;
}

void RunWithManagers(benchmark::State& state, const Machine& machine, const Demand& demand) {
  const auto topology = machine.Build();
  const std::vector<Usage> states = StatesWithPods(*topology, demand);
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Admit(*topology, states[at++ % states.size()], demand));
  }
}

void AdmitTwoNumaNodesWithManagers(benchmark::State& state, TopologyPolicy policy) {
  RunWithManagers(state, WithManagers(Spread(2, 4, policy), 32),
                  PodOf().App({{kGpu, 2}, {kNic, 2}}).With(8000, 64));
}
BENCHMARK_CAPTURE(AdmitTwoNumaNodesWithManagers, single_numa_node, TopologyPolicy::kSingleNumaNode);
BENCHMARK_CAPTURE(AdmitTwoNumaNodesWithManagers, restricted, TopologyPolicy::kRestricted);
BENCHMARK_CAPTURE(AdmitTwoNumaNodesWithManagers, best_effort, TopologyPolicy::kBestEffort);

// The worst: devices, CPUs, memory and hugepages over 8 NUMA nodes, more than one can give.
void AdmitEightNumaNodesWithManagers(benchmark::State& state, TopologyPolicy policy) {
  RunWithManagers(state, WithManagers(Spread(8, 2, policy), 32),
                  PodOf()
                      .App({{kGpu, 6}, {kNic, 6}})
                      .With(80000, 600)
                      .WithHugepages("2Mi", std::int64_t{20} << 30));
}
BENCHMARK_CAPTURE(AdmitEightNumaNodesWithManagers, single_numa_node,
                  TopologyPolicy::kSingleNumaNode);
BENCHMARK_CAPTURE(AdmitEightNumaNodesWithManagers, restricted, TopologyPolicy::kRestricted);
BENCHMARK_CAPTURE(AdmitEightNumaNodesWithManagers, best_effort, TopologyPolicy::kBestEffort);

void AdmitRefused(benchmark::State& state) {
  RunAdmit(state, Spread(2, 4, TopologyPolicy::kSingleNumaNode),
           PodOf().App({{kGpu, 4}, {kNic, 4}}));
}
BENCHMARK(AdmitRefused);

void AdmitFourContainers(benchmark::State& state) {
  RunAdmit(state, Spread(2, 4, TopologyPolicy::kSingleNumaNode),
           PodOf()
               .Init({{kGpu, 1}, {kNic, 1}})
               .Sidecar({{kNic, 1}})
               .App({{kGpu, 1}, {kNic, 1}})
               .App({{kGpu, 1}, {kNic, 1}}));
}
BENCHMARK(AdmitFourContainers);

void AdmitEightNumaNodes(benchmark::State& state, TopologyPolicy policy) {
  RunAdmit(state, Spread(8, 2, policy), PodOf().App({{kGpu, 3}, {kNic, 1}}));
}
BENCHMARK_CAPTURE(AdmitEightNumaNodes, restricted, TopologyPolicy::kRestricted);
BENCHMARK_CAPTURE(AdmitEightNumaNodes, best_effort, TopologyPolicy::kBestEffort);

void JudgeTwoNumaNodes(benchmark::State& state, TopologyPolicy policy) {
  const auto topology = Spread(2, 4, policy).Build();
  std::vector<NodeKnowledge> states;
  for (const Usage& usage : States(*topology)) states.push_back({{usage}, false});
  const Demand demand = PodOf().App({{kGpu, 2}, {kNic, 2}});
  const ScoreStrategy* strategy = FindScoreStrategy("most-allocated");
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Judge(*topology, states[at++ % states.size()], demand, strategy));
  }
}
BENCHMARK_CAPTURE(JudgeTwoNumaNodes, single_numa_node, TopologyPolicy::kSingleNumaNode);
BENCHMARK_CAPTURE(JudgeTwoNumaNodes, none, TopologyPolicy::kNone);

// Once per node and inventory change.
void CreateTopology(benchmark::State& state) {
  const Machine machine = Spread(2, 4, TopologyPolicy::kRestricted);
  for (auto _ : state) benchmark::DoNotOptimize(machine.Build());
}
BENCHMARK(CreateTopology);

}  // namespace
}  // namespace numafit::policy

BENCHMARK_MAIN();
