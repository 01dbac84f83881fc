#include "agent/report_loop.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "agent/folder_watch.h"
#include "agent/pacer.h"

namespace numafit::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kVersion = NUMAFIT_VERSION;

int WaitMillis(const Pacer& pacer, const Publisher& publisher, Clock::time_point now) {
  Clock::time_point next = pacer.Next();
  const std::optional<SteadyTime> attempt = publisher.NextAttempt();
  if (attempt.has_value()) next = std::min(next, *attempt);
  const std::optional<SteadyTime> look = publisher.NextLook();
  if (look.has_value()) next = std::min(next, *look);
  if (next <= now) return 0;
  // Rounded up, so that it is due when poll returns.
  return static_cast<int>(
             std::chrono::duration_cast<std::chrono::milliseconds>(next - now).count()) +
         1;
}

void TakeEvents(FolderWatch& watch, Pacer& pacer, Publisher& publisher) {
  for (const std::string& path : watch.Take()) {
    if (path.empty() || path.ends_with("/pod-resources/kubelet.sock")) {
      pacer.OnKubelet(Clock::now());
      publisher.LookSoon(Clock::now());
    } else {
      pacer.OnChange(Clock::now());
    }
  }
}

v1alpha1::NodeReportStatus WithVersion(v1alpha1::NodeReportStatus report) {
  report.set_agent_version(std::string(kVersion));
  return report;
}

void Look(Pacer::Look look, Collector& collector, Publisher& publisher, Pacer& pacer) {
  if (look == Pacer::Look::kPodsChanged) {
    if (collector.PodsChanged()) pacer.OnChange(Clock::now());
    return;
  }
  publisher.Offer(WithVersion(look == Pacer::Look::kEverything ? collector.Collect()
                                                               : collector.CollectPods()));
}

}  // namespace

void RunReports(const AgentConfig& config, Collector& collector, Publisher& publisher, int stop_fd,
                Health* health) {
  FolderWatch watch(collector.WatchedFolders());
  Pacer pacer({config.settle, config.min_interval, config.pods_poll, config.full_poll},
              Clock::now());
  publisher.OnLast([&collector](const v1alpha1::NodeReportStatus& last) {
    collector.Restore(last);
    return WithVersion(collector.CollectPods());
  });
  bool looked = false;
  for (;;) {
    std::array<pollfd, 3> fds = {
        {{stop_fd, POLLIN, 0}, {watch.fd(), POLLIN, 0}, {collector.kubelet_ended_fd(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), WaitMillis(pacer, publisher, Clock::now()));
    if (fds[0].revents != 0) return;
    TakeEvents(watch, pacer, publisher);
    if (fds[2].revents != 0) {
      collector.TakeKubeletEnd();
      pacer.OnKubeletEnd();
    }
    const Pacer::Look look = pacer.Due(Clock::now());
    if (look != Pacer::Look::kNothing) {
      if (look == Pacer::Look::kEverything) watch.Rearm();
      Look(look, collector, publisher, pacer);
      pacer.Done(look, Clock::now());
      if (look != Pacer::Look::kPodsChanged) looked = true;
      if (health != nullptr && look != Pacer::Look::kPodsChanged) health->Looked(Clock::now());
    }
    publisher.Publish(Clock::now());
    if (health != nullptr && looked) {
      health->Published(publisher.NextAttempt().has_value(), Clock::now());
    }
  }
}

}  // namespace numafit::agent
