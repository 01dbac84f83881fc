// What one admission of a case costs the mirror; for hack/bench.sh policy, beside what it costs the
// kubelet's own code (test/oracle, `oracle time`).
//
//   admit_bench [--rounds N] < cases
//
// Cases as docs/case-format.md has them, with steps `admit` and `remove` alone. For each a line:
//   {"id": …, "admissions": N, "admitted": N, "medianMicros": X, "p99Micros": X}
// Timed is policy::Admit, once per admission and round, from the state that the steps before have
// left; of several outcomes the first is what happens.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "cli/admit/case.h"
#include "cli/admit/pod_demand.h"
#include "nlohmann/json.hpp"
#include "policy/admit.h"

namespace numafit::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Timed {
  std::vector<double> micros;
  int admitted = 0;
};

policy::TopologySpec SpecOf(const Case& played) {
  policy::TopologySpec spec = played.machine;
  spec.preferred_allocation = played.prefer;
  for (const auto& [resource, devices] : played.devices) {
    for (const CaseDevice& device : devices) {
      policy::DeviceSpec& added = spec.devices[resource].emplace_back();
      added.id = device.id;
      added.numa = device.numa;
      added.healthy = device.healthy;
    }
  }
  return spec;
}

absl::Status Play(const policy::Topology& topology, const Case& played, Timed& timed) {
  policy::Usage usage(topology);
  std::map<std::string, policy::Holding> held;
  for (const CaseStep& step : played.steps) {
    switch (step.kind) {
      case CaseStep::Kind::kRemove:
        usage.Release(topology, held[step.name]);
        held.erase(step.name);
        break;
      case CaseStep::Kind::kAdmit: {
        const policy::Demand demand = DemandOf(step.pod);
        const Clock::time_point start = Clock::now();
        const policy::AdmitResult result = policy::Admit(topology, usage, demand);
        const std::chrono::duration<double, std::micro> took = Clock::now() - start;
        timed.micros.push_back(took.count());
        const policy::Outcome& outcome = result.outcomes.front();
        policy::Apply(topology, outcome, usage);
        if (!outcome.admitted) break;
        ++timed.admitted;
        held[step.pod.name] = outcome.held;
        break;
      }
      default:
        return absl::InvalidArgumentError("only admit and remove can be timed");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Timed> Time(const Case& played, int rounds) {
  auto topology = policy::Topology::Create(SpecOf(played));
  if (!topology.ok()) return topology.status();
  Timed timed;
  for (int round = 0; round < rounds; ++round) {
    if (absl::Status status = Play(**topology, played, timed); !status.ok()) return status;
  }
  if (timed.micros.empty()) return absl::InvalidArgumentError("nothing is admitted");
  std::sort(timed.micros.begin(), timed.micros.end());
  return timed;
}

double At(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)];
}

int Run(std::istream& in, int rounds) {
  for (std::string line; std::getline(in, line);) {
    const ParsedCase parsed = ParseCase(line);
    const absl::StatusOr<Timed> timed = parsed.value.ok()
                                            ? Time(*parsed.value, rounds)
                                            : absl::StatusOr<Timed>(parsed.value.status());
    if (!timed.ok()) {
      std::cerr << "admit_bench: " << parsed.id << ": " << timed.status().message() << '\n';
      return 1;
    }
    nlohmann::ordered_json out;
    if (!parsed.id.empty()) out["id"] = nlohmann::json::parse(parsed.id);
    out["admissions"] = timed->micros.size();
    out["admitted"] = timed->admitted;
    out["medianMicros"] = At(timed->micros, 50);
    out["p99Micros"] = At(timed->micros, 99);
    std::cout << out.dump() << '\n' << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace numafit::cli

int main(int argc, char** argv) {
  int rounds = 1;
  if (argc == 3 && std::string(argv[1]) == "--rounds" && absl::SimpleAtoi(argv[2], &rounds) &&
      rounds > 0) {
    return numafit::cli::Run(std::cin, rounds);
  }
  if (argc == 1) return numafit::cli::Run(std::cin, rounds);
  std::cerr << "usage: admit_bench [--rounds N] < cases\n";
  return 2;
}
