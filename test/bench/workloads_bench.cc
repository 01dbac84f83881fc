// What 5,000 of Kueue's Workloads and their 50,000 Pods cost the extender: memory, the time until
// one that cannot be placed is flagged, and whether filter calls notice.
//
// The real numafit-extender in a process of its own, with an inventory from NodeReports; the API
// server is made up (workload_load.h) and shares the machine with it. First one that ignores Kueue,
// then one that watches it. To that one Workloads happen: each is admitted, its Pods are made,
// tried in vain, and once it is flagged it is evicted; meanwhile kubelets write the status of Pods
// that run. Filter calls come at a steady pace in turns of a few seconds with and without all that.
// Usage: workloads_bench --extender FILE [--json] [--workloads N] [--pods N] [--rate N]
// [--updates N] [--seconds N] [--names N] [--calls-per-second N]
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "test/bench/extender_process.h"
#include "test/bench/filter_calls.h"
#include "test/bench/workload_load.h"
#include "test/extender/http/http_client.h"

namespace numafit::bench {
namespace {

using extender::http::RawClient;
using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;

struct Options {
  std::string extender;
  bool as_json = false;
  int workloads = 5'000;
  int pods = 10;      // each
  int rate = 10;      // Workloads a second that are admitted and get stuck
  int updates = 200;  // a second, of Pods that run
  int seconds = 40;   // of filter calls, half of them while Workloads change
  int names = 5'000;
  int calls_per_second = 50;
};

constexpr double kTurnSeconds = 4;

double Seconds(Clock::duration time) {
  return duration<double>(time).count();
}

// What happens to Workloads, on the thread that calls Run, and how soon the extender shows it.
class Churn {
 public:
  Churn(const Options& options, WorkloadLoad& load, int read_port)
      : options_(options), load_(load), client_(read_port), free_since_(Slots()) {}

  // Until told to stop, and then until nothing is under way any more.
  void Run(const std::atomic<bool>& stop) {
    const Clock::time_point begin = Clock::now();
    std::int64_t begun = 0;
    std::int64_t touched = 0;
    while (!stop || !under_way_.empty()) {
      const double now = Seconds(Clock::now() - begin);
      for (; !stop && static_cast<double>(touched) < now * options_.updates; ++touched)
        load_.Touch();
      for (; !stop && static_cast<double>(begun) < now * options_.rate; ++begun) Begin();
      for (auto one = under_way_.begin(); one != under_way_.end();) {
        one = Go(*one) ? under_way_.erase(one) : one + 1;
      }
      std::this_thread::sleep_for(milliseconds(25));
    }
  }

  [[nodiscard]] const std::vector<double>& flagged() const { return flagged_; }
  [[nodiscard]] const std::vector<double>& cleared() const { return cleared_; }
  [[nodiscard]] int skipped() const { return skipped_; }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  enum class Stage { kMade, kTried, kEvicted };
  struct One {
    int number = 0;
    Stage stage = Stage::kMade;
    Clock::time_point since;
  };

  std::vector<Clock::time_point> Slots() const {
    return std::vector<Clock::time_point>(static_cast<std::size_t>(load_.going_round()));
  }

  void Begin() {
    const int number = next_;
    // Kueue's times have seconds: two admissions of one Workload have to differ.
    if (Clock::now() - free_since_[static_cast<std::size_t>(number)] < milliseconds(1'500)) {
      ++skipped_;
      return;
    }
    next_ = (next_ + 1) % load_.going_round();
    load_.Admit(number);
    under_way_.push_back({number, Stage::kMade, Clock::now()});
    free_since_[static_cast<std::size_t>(number)] = Clock::time_point::max() - milliseconds(2'000);
  }

  [[nodiscard]] bool IsFlagged(int number) {
    const auto answer = client_.Get("/v1/workloads?name=" + load_.NameOf(number));
    return answer.body.find("\"cause\":") != std::string::npos;
  }

  // True: it is through.
  bool Go(One& one) {
    const double waited = Seconds(Clock::now() - one.since);
    if (one.stage == Stage::kMade) {
      if (waited < 0.3) return false;
      load_.Refuse(one.number);
      one = {one.number, Stage::kTried, Clock::now()};
      return false;
    }
    const bool is_flagged = IsFlagged(one.number);
    const bool awaited = one.stage == Stage::kTried;
    if (is_flagged != awaited && waited < 60) return false;
    failed_ += is_flagged == awaited ? 0 : 1;
    if (awaited) {
      flagged_.push_back(Seconds(Clock::now() - one.since) * 1000);
      load_.Evict(one.number);
      one = {one.number, Stage::kEvicted, Clock::now()};
      return false;
    }
    cleared_.push_back(Seconds(Clock::now() - one.since) * 1000);
    free_since_[static_cast<std::size_t>(one.number)] = Clock::now();
    return true;
  }

  const Options& options_;
  WorkloadLoad& load_;
  RawClient client_;
  std::vector<Clock::time_point> free_since_;
  int next_ = 0;
  std::vector<One> under_way_;
  std::vector<double> flagged_;
  std::vector<double> cleared_;
  int skipped_ = 0;
  int failed_ = 0;
};

struct Result {
  int nodes = 0;
  int pods = 0;
  int blocked = 0;
  int going_round = 0;
  double rss_without = 0;  // Kueue ignored
  Latency without;
  double cpu_without = 0;
  double ready_seconds = 0;
  double first_flags_seconds = 0;  // from its start until all that are stuck are flagged
  double rss_end = 0;
  double rss_peak = 0;
  Latency quiet;
  Latency busy;
  double cpu_quiet = 0;  // of one core
  double cpu_busy = 0;
  Latency flagged;  // milliseconds from a Pod's news to the flag
  Latency cleared;
  int skipped = 0;
  int failed = 0;
};

void AwaitReady(const ExtenderProcess& extender, const WorkloadLoad& load, bool workloads) {
  while (extender.runs() && !(extender.ready() && load.watched(workloads))) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (extender.runs()) return;
  fmt::print(stderr, "workloads_bench: the extender does not run\n");
  std::exit(1);
}

FilterCalls CallsTo(const Options& options, const WorkloadLoad& load, int port) {
  return FilterCalls({load.nodes(), options.names, options.calls_per_second}, port);
}

// One that ignores Kueue: its Pods without a node do not interest it either.
void RunWithout(const Options& options, const WorkloadLoad& load, Result& result) {
  const ExtenderProcess extender(options.extender, load.port(), "kueue: ignore\n");
  AwaitReady(extender, load, /*workloads=*/false);
  FilterCalls calls = CallsTo(options, load, extender.port());
  calls.Run(1);  // every shape once
  const double cpu = extender.CpuSeconds();
  result.without = LatencyOf(calls.Run(2 * kTurnSeconds));
  result.rss_without = extender.Megabytes("VmRSS");
  result.cpu_without = (extender.CpuSeconds() - cpu) / (2 * kTurnSeconds);
}

int FlaggedNow(const ExtenderProcess& extender) {
  const std::string text = RawClient(extender.read_port()).Get("/metrics").body;
  int sum = 0;
  constexpr std::string_view kSeries = "\nnumafit_workloads_unplaceable{";
  for (std::size_t at = text.find(kSeries); at != std::string::npos;
       at = text.find(kSeries, at + 1)) {
    sum += std::atoi(text.c_str() + text.find("} ", at) + 2);
  }
  return sum;
}

void RunTurns(const Options& options, const ExtenderProcess& extender, FilterCalls& calls,
              Churn& churn, Result& result) {
  std::vector<double> quiet;
  std::vector<double> busy;
  double cpu_quiet = 0;
  double cpu_busy = 0;
  int turns = 0;
  for (double left = options.seconds; left > 0; left -= 2 * kTurnSeconds) {
    ++turns;
    double cpu = extender.CpuSeconds();
    const std::vector<double> without = calls.Run(kTurnSeconds);
    quiet.insert(quiet.end(), without.begin(), without.end());
    cpu_quiet += extender.CpuSeconds() - cpu;
    std::atomic<bool> stop = false;
    std::thread changes([&] { churn.Run(stop); });
    cpu = extender.CpuSeconds();
    const std::vector<double> with = calls.Run(kTurnSeconds);
    busy.insert(busy.end(), with.begin(), with.end());
    cpu_busy += extender.CpuSeconds() - cpu;
    stop = true;
    changes.join();
  }
  result.quiet = LatencyOf(std::move(quiet));
  result.busy = LatencyOf(std::move(busy));
  result.cpu_quiet = cpu_quiet / (turns * kTurnSeconds);
  result.cpu_busy = cpu_busy / (turns * kTurnSeconds);
}

void RunWith(const Options& options, WorkloadLoad& load, Result& result) {
  const Clock::time_point begin = Clock::now();
  const ExtenderProcess extender(options.extender, load.port());
  AwaitReady(extender, load, /*workloads=*/true);
  result.ready_seconds = Seconds(Clock::now() - begin);
  while (FlaggedNow(extender) < load.blocked() && Seconds(Clock::now() - begin) < 120) {
    std::this_thread::sleep_for(milliseconds(100));
  }
  result.first_flags_seconds = Seconds(Clock::now() - begin);
  FilterCalls calls = CallsTo(options, load, extender.port());
  calls.Run(1);
  Churn churn(options, load, extender.read_port());
  RunTurns(options, extender, calls, churn, result);
  result.flagged = LatencyOf(churn.flagged());
  result.cleared = LatencyOf(churn.cleared());
  result.skipped = churn.skipped();
  result.failed = churn.failed();
  result.rss_end = extender.Megabytes("VmRSS");
  result.rss_peak = extender.Megabytes("VmHWM");
}

Result Run(const Options& options) {
  Result result;
  WorkloadLoad load(options.workloads, options.pods);
  result.nodes = load.nodes();
  result.pods = load.pods();
  result.blocked = load.blocked();
  result.going_round = load.going_round();
  RunWithout(options, load, result);
  RunWith(options, load, result);
  return result;
}

void Print(const Options& options, const Result& r) {
  fmt::print("{} Workloads, {} of them stuck, with {} Pods on {} nodes; {} more that go round\n",
             options.workloads, r.blocked, r.pods, r.nodes, r.going_round);
  fmt::print(
      "memory (RSS)   {:.0f} MB, {:.0f} MB with Kueue ignored; {:.0f} MB at most, while lists are "
      "read\n",
      r.rss_end, r.rss_without, r.rss_peak);
  fmt::print("after a start  ready in {:.1f} s, all that are stuck flagged in {:.1f} s\n",
             r.ready_seconds, r.first_flags_seconds);
  fmt::print(
      "flags          of {} a second: seen p50 {:.0f} ms, p99 {:.0f} ms, at most {:.0f} ms after "
      "the Pod's news ({}); gone {:.0f}, {:.0f}, {:.0f} ms after the eviction; {} not begun, {} "
      "never seen\n",
      options.rate, r.flagged.p50, r.flagged.p99, r.flagged.most, r.flagged.count, r.cleared.p50,
      r.cleared.p99, r.cleared.most, r.skipped, r.failed);
  fmt::print(
      "filter         {} names; without changes p50 {:.2f} ms, p99 {:.2f} ms ({} calls), with them "
      "{:.2f} ms, {:.2f} ms ({} calls): {:.2f} and {:.2f} times as long; Kueue ignored {:.2f} ms, "
      "{:.2f} ms\n",
      options.names, r.quiet.p50, r.quiet.p99, r.quiet.count, r.busy.p50, r.busy.p99, r.busy.count,
      r.busy.p50 / r.quiet.p50, r.busy.p99 / r.quiet.p99, r.without.p50, r.without.p99);
  fmt::print(
      "CPU            {:.0f} % of a core without changes, {:.0f} % with them, {:.0f} % with "
      "Kueue ignored, filter calls included\n",
      r.cpu_quiet * 100, r.cpu_busy * 100, r.cpu_without * 100);
}

void PrintJson(const Options& options, const Result& r) {
  const auto latency = [](const Latency& each) -> nlohmann::json {
    return {{"p50", each.p50}, {"p99", each.p99}, {"max", each.most}, {"count", each.count}};
  };
  const nlohmann::json out = {
      {"nodes", r.nodes},
      {"workloads", options.workloads},
      {"blocked", r.blocked},
      {"goingRound", r.going_round},
      {"pods", r.pods},
      {"readySeconds", r.ready_seconds},
      {"firstFlagsSeconds", r.first_flags_seconds},
      {"rssMegabytes",
       {{"ignoringKueue", r.rss_without}, {"end", r.rss_end}, {"peak", r.rss_peak}}},
      {"flagMillis", latency(r.flagged)},
      {"clearMillis", latency(r.cleared)},
      {"notBegun", r.skipped},
      {"neverSeen", r.failed},
      {"cpuShare",
       {{"ignoringKueue", r.cpu_without}, {"quiet", r.cpu_quiet}, {"busy", r.cpu_busy}}},
      {"filterMillis",
       {{"names", options.names},
        {"ignoringKueue", latency(r.without)},
        {"quiet", latency(r.quiet)},
        {"busy", latency(r.busy)}}},
      {"filterRatio", {{"p50", r.busy.p50 / r.quiet.p50}, {"p99", r.busy.p99 / r.quiet.p99}}}};
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
    int* const number = word == "--workloads"          ? &options.workloads
                        : word == "--pods"             ? &options.pods
                        : word == "--rate"             ? &options.rate
                        : word == "--updates"          ? &options.updates
                        : word == "--seconds"          ? &options.seconds
                        : word == "--names"            ? &options.names
                        : word == "--calls-per-second" ? &options.calls_per_second
                                                       : nullptr;
    if (number == nullptr || (*number = std::atoi(value)) < 1) return false;
  }
  // Of fewer none is stuck and none goes round.
  return !options.extender.empty() && options.workloads >= 20;
}

}  // namespace
}  // namespace numafit::bench

int main(int argc, char** argv) {
  numafit::bench::Options options;
  if (!numafit::bench::Parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: workloads_bench --extender FILE [--json] [--workloads N (20 or more)] "
               "[--pods N] [--rate N] [--updates N] [--seconds N] [--names N] "
               "[--calls-per-second N]\n");
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
