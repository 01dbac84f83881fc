// What a large cluster costs the extender: memory, changes of reports that it keeps up with, and
// whether filter calls notice.
//
// The real numafit-extender in a process of its own, with an inventory from NodeReports; the API
// server is made up (scale_load.h) and shares the machine with it. Filter calls come at a steady
// pace, first while nothing changes, then while reports do; at the end as many changes as the
// extender takes. Usage: scale_bench --extender FILE [--json] [--nodes N] [--rate N] [--seconds N]
// [--names N] [--calls-per-second N]
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "test/bench/extender_process.h"
#include "test/bench/filter_calls.h"
#include "test/bench/scale_load.h"

namespace numafit::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;

struct Options {
  std::string extender;
  bool as_json = false;
  int nodes = 15'000;
  int rate = 1'500;
  int seconds = 20;
  int names = 5'000;
  int calls_per_second = 50;
};

double Seconds(Clock::duration time) {
  return duration<double>(time).count();
}

struct Result {
  int pods = 0;
  std::size_t report_bytes = 0;
  double ready_seconds = 0;
  double rss_listed = 0;
  double rss_end = 0;
  double rss_peak = 0;
  Latency quiet;
  Latency busy;
  double applied_per_second = 0;
  double most_behind = 0;    // changes sent and not applied, at worst
  double drain_seconds = 0;  // from the last change until it is applied
  double cpu_share = 0;      // of one core, while changes come
  double most_per_second = 0;
  double mismatches = 0;
  double invalid = 0;
};

double Applied(const ExtenderProcess& extender) {
  return extender.Metric(R"(numafit_reports_total{result="applied"})");
}

void WaitUntilApplied(const ExtenderProcess& extender, double count) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  while (Applied(extender) < count && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Changes at the rate until told to stop.
void SendAtRate(ScaleLoad& load, int rate, const std::atomic<bool>& stop) {
  const Clock::time_point begin = Clock::now();
  for (std::int64_t sent = 0; !stop;) {
    const auto due = static_cast<std::int64_t>(Seconds(Clock::now() - begin) * rate);
    for (; sent < due; ++sent) load.Change();
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void RunBusy(const Options& options, ScaleLoad& load, const ExtenderProcess& extender,
             FilterCalls& calls, Result& result) {
  const double before = Applied(extender);
  const double cpu = extender.CpuSeconds();
  const std::int64_t sent_before = load.changes();
  const auto sent = [&] { return static_cast<double>(load.changes() - sent_before); };
  std::atomic<bool> stop = false;
  const Clock::time_point begin = Clock::now();
  std::thread changes([&] { SendAtRate(load, options.rate, stop); });
  std::thread watcher([&] {
    while (!stop) {
      const double applied = Applied(extender) - before;
      result.most_behind = std::max(result.most_behind, sent() - applied);
      std::this_thread::sleep_for(milliseconds(250));
    }
  });
  result.busy = LatencyOf(calls.Run(options.seconds));
  result.applied_per_second = (Applied(extender) - before) / Seconds(Clock::now() - begin);
  result.cpu_share = (extender.CpuSeconds() - cpu) / Seconds(Clock::now() - begin);
  stop = true;
  changes.join();
  watcher.join();
  const Clock::time_point last = Clock::now();
  WaitUntilApplied(extender, before + sent());
  result.drain_seconds = Seconds(Clock::now() - last);
}

void RunFlood(const Options& options, ScaleLoad& load, const ExtenderProcess& extender,
              Result& result) {
  const int flood = 10 * options.rate;
  const double before = Applied(extender);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < flood; ++i) load.Change();
  WaitUntilApplied(extender, before + flood);
  result.most_per_second = flood / Seconds(Clock::now() - begin);
}

Result Run(const Options& options) {
  Result result;
  ScaleLoad load(options.nodes);
  result.pods = load.pods();
  result.report_bytes = load.report_bytes();
  const Clock::time_point begin = Clock::now();
  const ExtenderProcess extender(options.extender, load.port());
  while (extender.runs() && !(extender.ready() && load.watched())) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (!extender.runs()) {
    fmt::print(stderr, "scale_bench: {} does not run\n", options.extender);
    std::exit(1);
  }
  result.ready_seconds = Seconds(Clock::now() - begin);
  result.rss_listed = extender.Megabytes("VmRSS");
  FilterCalls calls({options.nodes, options.names, options.calls_per_second}, extender.port());
  calls.Run(1);  // every shape once
  result.quiet = LatencyOf(calls.Run(options.seconds));
  RunBusy(options, load, extender, calls, result);
  RunFlood(options, load, extender, result);
  result.rss_end = extender.Megabytes("VmRSS");
  result.rss_peak = extender.Megabytes("VmHWM");
  result.mismatches = extender.Metric(R"(numafit_predictions_total{result="mismatch"})");
  result.invalid = extender.Metric(R"(numafit_reports_total{result="invalid"})");
  return result;
}

void Print(const Options& options, const Result& r) {
  fmt::print("{} nodes, {} Pods, reports of {} bytes; ready {:.1f} s after its start\n",
             options.nodes, r.pods, r.report_bytes, r.ready_seconds);
  fmt::print("memory (RSS)   {:.0f} MB once listed, {:.0f} MB at the end, {:.0f} MB at most\n",
             r.rss_listed, r.rss_end, r.rss_peak);
  fmt::print(
      "changes        {:.0f}/s applied of {}/s for {} s, {:.0f} behind at worst, the last "
      "{:.2f} s after it was sent; {:.0f} % of a core; {:.0f}/s at most\n",
      r.applied_per_second, options.rate, options.seconds, r.most_behind, r.drain_seconds,
      r.cpu_share * 100, r.most_per_second);
  fmt::print(
      "filter         {} names; without changes p50 {:.2f} ms, p99 {:.2f} ms ({} calls); "
      "with them {:.2f} ms, {:.2f} ms ({} calls): {:.2f} and {:.2f} times as long\n",
      options.names, r.quiet.p50, r.quiet.p99, r.quiet.count, r.busy.p50, r.busy.p99, r.busy.count,
      r.busy.p50 / r.quiet.p50, r.busy.p99 / r.quiet.p99);
  fmt::print("reports refused {:.0f}, predictions that failed {:.0f}\n", r.invalid, r.mismatches);
}

void PrintJson(const Options& options, const Result& r) {
  const auto latency = [](const Latency& each) -> nlohmann::json {
    return {{"p50", each.p50}, {"p99", each.p99}, {"calls", each.count}};
  };
  const nlohmann::json out = {
      {"nodes", options.nodes},
      {"pods", r.pods},
      {"reportBytes", r.report_bytes},
      {"readySeconds", r.ready_seconds},
      {"rssMegabytes", {{"listed", r.rss_listed}, {"end", r.rss_end}, {"peak", r.rss_peak}}},
      {"changesPerSecond",
       {{"asked", options.rate}, {"applied", r.applied_per_second}, {"most", r.most_per_second}}},
      {"mostBehind", r.most_behind},
      {"drainSeconds", r.drain_seconds},
      {"cpuShare", r.cpu_share},
      {"filterMillis",
       {{"names", options.names}, {"quiet", latency(r.quiet)}, {"busy", latency(r.busy)}}},
      {"filterRatio", {{"p50", r.busy.p50 / r.quiet.p50}, {"p99", r.busy.p99 / r.quiet.p99}}},
      {"reportsInvalid", r.invalid},
      {"predictionMismatches", r.mismatches}};
  fmt::print("{}\n", out.dump(2));
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      options.as_json = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* const value = argv[++i];
    if (word == "--extender") {
      options.extender = value;
      continue;
    }
    int* const number = word == "--nodes"              ? &options.nodes
                        : word == "--rate"             ? &options.rate
                        : word == "--seconds"          ? &options.seconds
                        : word == "--names"            ? &options.names
                        : word == "--calls-per-second" ? &options.calls_per_second
                                                       : nullptr;
    if (number == nullptr || (*number = std::atoi(value)) < 1) return false;
  }
  return !options.extender.empty();
}

}  // namespace
}  // namespace numafit::bench

int main(int argc, char** argv) {
  numafit::bench::Options options;
  if (!numafit::bench::Parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: scale_bench --extender FILE [--json] [--nodes N] [--rate N] [--seconds N] "
               "[--names N] [--calls-per-second N]\n");
    return 2;
  }
  const numafit::bench::Result result = numafit::bench::Run(options);
  if (options.as_json) {
    numafit::bench::PrintJson(options, result);
  } else {
    numafit::bench::Print(options, result);
  }
  return 0;
}
