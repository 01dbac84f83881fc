// numafit-extender: reads flags, starts the service, ends it on SIGTERM.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "extender/app.h"
#include "extender/config.h"
#include "fmt/format.h"

namespace {

// Kubernetes kills after its grace period, and people wait: requests in progress get this long.
constexpr std::int64_t kDrainMs = 1'500;
constexpr int kBadInput = 2;

int Run(const std::vector<std::string>& words) {
  using numafit::extender::App;
  using numafit::extender::CommandLine;
  const absl::StatusOr<CommandLine> line = numafit::extender::ParseCommandLine(words);
  if (!line.ok()) {
    fmt::print(stderr, "numafit-extender: {}\n", std::string(line.status().message()));
    return kBadInput;
  }
  if (line->help) {
    fmt::print("{}", numafit::extender::HelpText());
    return 0;
  }
  if (line->version) {
    fmt::print("numafit-extender {}\n", NUMAFIT_VERSION);
    return 0;
  }
  // Before any thread exists, so that all inherit it and only sigwait below sees the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::StatusOr<std::unique_ptr<App>> app = App::Start(line->config);
  if (!app.ok()) {
    fmt::print(stderr, "numafit-extender: {}\n", std::string(app.status().message()));
    return kBadInput;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  // A second one ends the process at once, the default way.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  // Where a bind still waits for the API server, nobody waits for it: what it did is read back from
  // the API server by whoever starts next.
  if (!(*app)->Drain(kDrainMs)) _exit(0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(std::vector<std::string>(argv + 1, argv + argc));
}
