// What a large cluster costs the extender: memory, changes of reports that it keeps up with, and
// whether filter calls notice.
//
// The real numafit-extender in a process of its own, with an inventory from NodeReports; the API
// server is made up (scale_load.h) and shares the machine with it. Filter calls come at a steady
// pace, first while nothing changes, then while reports do; at the end as many changes as the
// extender takes. Usage: scale_bench --extender FILE [--json] [--nodes N] [--rate N] [--seconds N]
// [--names N] [--calls-per-second N]
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "test/bench/scale_load.h"
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
  int nodes = 15'000;
  int rate = 1'500;
  int seconds = 20;
  int names = 5'000;
  int calls_per_second = 50;
};

double Seconds(Clock::duration time) {
  return duration<double>(time).count();
}

int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

bool Listens(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool listens = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return listens;
}

// The extender, from its start to the end of this object.
class Extender {
 public:
  Extender(const std::string& program, int api_port) {
    std::string folder = (std::filesystem::temp_directory_path() / "numafit-scale-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return;
    folder_ = folder;
    const std::string kubeconfig = folder_ + "/kubeconfig";
    std::ofstream(kubeconfig) << fmt::format(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n"
        "users: [{{name: u, user: {{}}}}]\n"
        "contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        api_port);
    std::vector<std::string> words = {program,
                                      "--inventory=reports",
                                      "--kubeconfig=" + kubeconfig,
                                      fmt::format("--listen=127.0.0.1:{}", port_),
                                      fmt::format("--read-listen=127.0.0.1:{}", read_port_),
                                      "--log-level=error"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, argv.data(), environ) != 0) {
      pid_ = -1;
    }
  }
  ~Extender() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  Extender(const Extender&) = delete;
  Extender& operator=(const Extender&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] bool runs() const { return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  [[nodiscard]] bool ready() const {
    return Listens(read_port_) && RawClient(read_port_).Get("/readyz").status == 200;
  }
  // A line of /proc/PID/status, in MB.
  [[nodiscard]] double Megabytes(std::string_view key) const {
    std::ifstream status(fmt::format("/proc/{}/status", pid_));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(key)) return std::atof(line.c_str() + key.size() + 1) / 1000;
    }
    return 0;
  }
  // CPU seconds so far.
  [[nodiscard]] double CpuSeconds() const {
    std::ifstream stat(fmt::format("/proc/{}/stat", pid_));
    std::string word;
    double ticks = 0;
    for (int i = 1; i <= 15 && stat >> word; ++i) {
      if (i == 14 || i == 15) ticks += std::atof(word.c_str());
    }
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  [[nodiscard]] double Metric(const std::string& name) const {
    const std::string text = "\n" + RawClient(read_port_).Get("/metrics").body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + name.size() + 2);
  }
  [[nodiscard]] double Applied() const {
    return Metric(R"(numafit_reports_total{result="applied"})");
  }

 private:
  const int port_ = FreePort();
  const int read_port_ = FreePort();
  std::string folder_;
  pid_t pid_ = -1;
};

std::string FilterBody(const Options& options, int devices, std::mt19937& random) {
  std::vector<int> nodes(static_cast<std::size_t>(options.nodes));
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<int>(i);
  std::shuffle(nodes.begin(), nodes.end(), random);
  std::string names;
  for (std::size_t i = 0; i < nodes.size() && i < static_cast<std::size_t>(options.names); ++i) {
    names += fmt::format("{}\"{}\"", i == 0 ? "" : ",", ScaleLoad::NodeName(nodes[i]));
  }
  return fmt::format(
      R"({{"Pod":{{"metadata":{{"name":"asks-{0}","namespace":"default","uid":"asks-{0}"}},)"
      R"("spec":{{"containers":[{{"name":"main","resources":{{"limits":{{"nvidia.com/gpu":"{0}",)"
      R"("device.gpustack.ai/rdma":"{0}"}}}}}}]}},"status":{{"phase":"Pending"}}}},)"
      R"("Nodes":null,"NodeNames":[{1}]}})",
      devices, names);
}

struct Latency {
  double p50 = 0;
  double p99 = 0;
  std::size_t calls = 0;
};

// Filter calls at their pace for so long, milliseconds each.
class Caller {
 public:
  Caller(const Options& options, int port) : options_(options), client_(port) {
    std::mt19937 random(11);
    for (const int devices : {1, 2, 4}) bodies_.push_back(FilterBody(options, devices, random));
  }

  Latency Run(double seconds) {
    std::vector<double> millis;
    const auto pause = duration<double>(1.0 / options_.calls_per_second);
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = 0; Seconds(Clock::now() - begin) < seconds; ++i) {
      std::this_thread::sleep_until(begin + pause * static_cast<double>(i));
      const Clock::time_point asked = Clock::now();
      const auto answer = client_.Post("/filter", bodies_[i % bodies_.size()]);
      millis.push_back(Seconds(Clock::now() - asked) * 1000);
      if (answer.status != 200) {
        fmt::print(stderr, "scale_bench: filter answers {}: {}\n", answer.status, answer.body);
        std::exit(1);
      }
    }
    std::sort(millis.begin(), millis.end());
    const auto at = [&](double share) {
      return millis[static_cast<std::size_t>(share * static_cast<double>(millis.size() - 1))];
    };
    return {at(0.5), at(0.99), millis.size()};
  }

 private:
  const Options& options_;
  RawClient client_;
  std::vector<std::string> bodies_;
};

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

void WaitUntilApplied(const Extender& extender, double count) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  while (extender.Applied() < count && Clock::now() < deadline) {
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

void RunBusy(const Options& options, ScaleLoad& load, const Extender& extender, Caller& caller,
             Result& result) {
  const double before = extender.Applied();
  const double cpu = extender.CpuSeconds();
  const std::int64_t sent_before = load.changes();
  const auto sent = [&] { return static_cast<double>(load.changes() - sent_before); };
  std::atomic<bool> stop = false;
  const Clock::time_point begin = Clock::now();
  std::thread changes([&] { SendAtRate(load, options.rate, stop); });
  std::thread watcher([&] {
    while (!stop) {
      const double applied = extender.Applied() - before;
      result.most_behind = std::max(result.most_behind, sent() - applied);
      std::this_thread::sleep_for(milliseconds(250));
    }
  });
  result.busy = caller.Run(options.seconds);
  result.applied_per_second = (extender.Applied() - before) / Seconds(Clock::now() - begin);
  result.cpu_share = (extender.CpuSeconds() - cpu) / Seconds(Clock::now() - begin);
  stop = true;
  changes.join();
  watcher.join();
  const Clock::time_point last = Clock::now();
  WaitUntilApplied(extender, before + sent());
  result.drain_seconds = Seconds(Clock::now() - last);
}

void RunFlood(const Options& options, ScaleLoad& load, const Extender& extender, Result& result) {
  const int flood = 10 * options.rate;
  const double before = extender.Applied();
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
  const Extender extender(options.extender, load.port());
  while (extender.runs() && !(extender.ready() && load.watched())) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (!extender.runs()) {
    fmt::print(stderr, "scale_bench: {} does not run\n", options.extender);
    std::exit(1);
  }
  result.ready_seconds = Seconds(Clock::now() - begin);
  result.rss_listed = extender.Megabytes("VmRSS");
  Caller caller(options, extender.port());
  caller.Run(1);  // every shape once
  result.quiet = caller.Run(options.seconds);
  RunBusy(options, load, extender, caller, result);
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
      options.names, r.quiet.p50, r.quiet.p99, r.quiet.calls, r.busy.p50, r.busy.p99, r.busy.calls,
      r.busy.p50 / r.quiet.p50, r.busy.p99 / r.quiet.p99);
  fmt::print("reports refused {:.0f}, predictions that failed {:.0f}\n", r.invalid, r.mismatches);
}

void PrintJson(const Options& options, const Result& r) {
  const auto latency = [](const Latency& each) -> nlohmann::json {
    return {{"p50", each.p50}, {"p99", each.p99}, {"calls", each.calls}};
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
