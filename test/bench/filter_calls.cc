#include "test/bench/filter_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "test/bench/made_up_nodes.h"

namespace numafit::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

double Seconds(Clock::duration time) {
  return duration<double>(time).count();
}

std::string BodyOf(const FilterCalls::Options& options, int devices, std::mt19937& random) {
  std::vector<int> nodes(static_cast<std::size_t>(options.nodes));
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<int>(i);
  std::shuffle(nodes.begin(), nodes.end(), random);
  std::string names;
  for (std::size_t i = 0; i < nodes.size() && i < static_cast<std::size_t>(options.names); ++i) {
    names += fmt::format("{}\"{}\"", i == 0 ? "" : ",", NodeName(nodes[i]));
  }
  return fmt::format(
      R"({{"Pod":{{"metadata":{{"name":"asks-{0}","namespace":"default","uid":"asks-{0}"}},)"
      R"("spec":{{"containers":[{{"name":"main","resources":{{"limits":{{"nvidia.com/gpu":"{0}",)"
      R"("device.gpustack.ai/rdma":"{0}"}}}}}}]}},"status":{{"phase":"Pending"}}}},)"
      R"("Nodes":null,"NodeNames":[{1}]}})",
      devices, names);
}

}  // namespace

Latency LatencyOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.5), at(0.99), samples.back(), samples.size()};
}

FilterCalls::FilterCalls(const Options& options, int port) : options_(options), client_(port) {
  std::mt19937 random(11);
  for (const int devices : {1, 2, 4}) bodies_.push_back(BodyOf(options_, devices, random));
}

std::vector<double> FilterCalls::Run(double seconds) {
  std::vector<double> millis;
  const auto pause = duration<double>(1.0 / options_.per_second);
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; Seconds(Clock::now() - begin) < seconds; ++i) {
    std::this_thread::sleep_until(begin + pause * static_cast<double>(i));
    const Clock::time_point asked = Clock::now();
    const auto answer = client_.Post("/filter", bodies_[i % bodies_.size()]);
    millis.push_back(Seconds(Clock::now() - asked) * 1000);
    if (answer.status == 200) continue;
    fmt::print(stderr, "filter answers {}: {}\n", answer.status, answer.body);
    std::exit(1);
  }
  return millis;
}

}  // namespace numafit::bench
