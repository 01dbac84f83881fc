// How often is a node settling? Pods come and go on the nodes of a fleet file, at random; some are
// bound while others still wait for their kubelet, some are on their way out. hack/bench.sh
// settling.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/demand.h"
#include "cache/fleet_file.h"
#include "cache/judge.h"
#include "cache/possible_states.h"
#include "policy/topology.h"

namespace numafit::cache {
namespace {

struct Counts {
  std::int64_t asked = 0;
  std::int64_t fits = 0;
  std::int64_t settling = 0;
  std::int64_t usages = 0;  // over all asked
};

// Shapes that people ask for: so many of each accelerator, as many endpoints, some CPUs and memory.
std::shared_ptr<const policy::Demand> RandomDemand(const policy::Topology& topology,
                                                   std::mt19937& random) {
  static const api::ResourceClasses classes;
  static constexpr int kSizes[] = {1, 1, 1, 2, 2, 4, 4, 8};
  const int size = kSizes[random() % std::size(kSizes)];
  policy::Demand demand;
  policy::ContainerDemand& container = demand.containers.emplace_back();
  bool accelerator = false;
  bool endpoint = false;
  for (const policy::Topology::Pool& pool : topology.pools()) {
    const api::ResourceKind kind = classes.Classify(pool.resource);
    bool& seen = api::IsEndpoint(kind) ? endpoint : accelerator;
    if (seen || (kind != api::ResourceKind::kAccelerator && !api::IsEndpoint(kind))) continue;
    seen = true;
    if (api::IsEndpoint(kind) && random() % 4 == 0) continue;
    container.devices[pool.resource] = std::min(size, pool.devices);
    (api::IsEndpoint(kind) ? demand.endpoints : demand.accelerators).push_back(pool.resource);
  }
  if (random() % 2 == 0) {
    demand.qos = policy::QosClass::kGuaranteed;
    container.requests["cpu"] = std::int64_t{size} * 4 * 1000;
    container.requests["memory"] = (std::int64_t{size} << 34) * 1000;
  }
  return std::make_shared<const policy::Demand>(std::move(demand));
}

// One node for a while. `late`: percent of the Pods that the kubelet has not admitted yet when the
// next is asked about.
void Live(const std::shared_ptr<const policy::Topology>& topology, unsigned late,
          std::mt19937& random, Counts& counts) {
  PossibleStates states(topology, {});
  std::vector<PossibleStates::Handle> running;
  std::vector<PossibleStates::Handle> waiting;
  std::vector<PossibleStates::Handle> leaving;
  for (int step = 0; step < 60; ++step) {
    if (!waiting.empty() && random() % 100 >= late) {
      for (const auto pod : waiting) {
        states.ShowAdmitted(pod);
        running.push_back(pod);
      }
      waiting.clear();
    }
    if (!leaving.empty() && random() % 100 >= late) {
      for (const auto pod : leaving) states.Remove(pod, /*never_admitted=*/false);
      leaving.clear();
    }
    if (!running.empty() && random() % 3 == 0) {
      const std::size_t at = random() % running.size();
      states.StartLeaving(running[at]);
      leaving.push_back(running[at]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const auto demand = RandomDemand(*topology, random);
    if (HoldsNothing(*topology, *demand)) continue;
    const NodeState state = states.Describe();
    const policy::Judgement judgement = JudgeOnNode(state, *demand, nullptr);
    ++counts.asked;
    counts.usages += static_cast<std::int64_t>(state.knowledge.usages.size());
    if (judgement.reason == policy::Reason::kSettling) ++counts.settling;
    if (!judgement.fits()) continue;
    ++counts.fits;
    waiting.push_back(states.AddWaiting(demand));
  }
}

int Run(const std::vector<std::string>& files, int rounds) {
  fmt::print("{:<28} {:<18} {:>9} {:>9} {:>9} {:>11} {:>13}\n", "FLEET FILE", "POLICY", "LATE",
             "ASKED", "FITS", "SETTLING", "STATES/NODE");
  for (const std::string& file : files) {
    const absl::StatusOr<FleetFile> fleet = LoadFleetFile(file);
    if (!fleet.ok()) {
      fmt::print(stderr, "{}\n", std::string(fleet.status().message()));
      return 1;
    }
    std::vector<std::shared_ptr<const policy::Topology>> shapes;
    for (const FleetNode& node : fleet->nodes) {
      if (std::find(shapes.begin(), shapes.end(), node.topology) == shapes.end()) {
        shapes.push_back(node.topology);
      }
    }
    for (const auto& topology : shapes) {
      for (const unsigned late : {10U, 50U}) {
        std::mt19937 random(42);
        Counts counts;
        for (int round = 0; round < rounds; ++round) Live(topology, late, random, counts);
        const double asked = static_cast<double>(std::max<std::int64_t>(counts.asked, 1));
        fmt::print("{:<28} {:<18} {:>8}% {:>9} {:>8.1f}% {:>10.2f}% {:>13.2f}\n",
                   file.substr(file.rfind('/') + 1),
                   std::string(policy::TopologyPolicyName(topology->kubelet().policy)), late,
                   counts.asked, 100.0 * static_cast<double>(counts.fits) / asked,
                   100.0 * static_cast<double>(counts.settling) / asked,
                   static_cast<double>(counts.usages) / asked);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace numafit::cache

int main(int argc, char** argv) {
  std::vector<std::string> files;
  int rounds = 50;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else {
      files.emplace_back(argv[i]);
    }
  }
  return numafit::cache::Run(files, rounds);
}
