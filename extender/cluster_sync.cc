#include "extender/cluster_sync.h"

#include <algorithm>
#include <utility>

#include "prometheus/counter.h"

namespace numafit::extender {
namespace {

constexpr std::string_view kNameLabel = "app.kubernetes.io/name";
constexpr std::string_view kKueue = "kueue.x-k8s.io/";
constexpr std::string_view kAgentName = "numafit-agent";

bool IsAgent(const api::Pod& pod) {
  const auto name = pod.metadata.labels.find(kNameLabel);
  return name != pod.metadata.labels.end() && name->second == kAgentName;
}

bool IsReady(const api::Pod& pod) {
  return std::any_of(
      pod.status.conditions.begin(), pod.status.conditions.end(),
      [](const api::PodCondition& each) { return each.type == "Ready" && each.status == "True"; });
}

// What is looked at of a Pod's metadata, so that a list of all of them does not hold the rest.
void DropWhatIsNotRead(api::Pod& pod) {
  // Kueue's are what workloads::FactsOf looks at, and whether a Pod without a node was tried.
  std::erase_if(pod.metadata.labels, [](const auto& each) {
    return each.first != kNameLabel && !each.first.starts_with(kKueue);
  });
  std::erase_if(pod.metadata.annotations, [](const auto& each) {
    return !each.first.starts_with("numafit.io/") && !each.first.starts_with(kKueue) &&
           each.first != "kubernetes.io/config.hash";
  });
  if (!IsAgent(pod) && !pod.node_name.empty()) pod.status.conditions.clear();
}

kube::WatchOptions Options() {
  kube::WatchOptions options;
  // While the API server is away filter goes on answering from what was last known, refusals too:
  // nothing wrong is bound (a bind needs the same server), and once its news is here the Pods that
  // were refused meanwhile are woken (wake_up.h). An Error instead would keep every Pod in the
  // scheduler's error back-off. So it matters to be back about as soon as the scheduler is.
  options.backoff_max_ms = 1'000;
  return options;
}

}  // namespace

ClusterSync::ClusterSync(kube::Client& client, Parts parts, Sources sources) : parts_(parts) {
  WatchPods(client);
  WatchNominees(client);
  if (sources.with_reports) WatchReports(client);
  if (sources.with_counts) {
    counts_ = std::make_unique<TopologySync>(
        client, TopologySync::Parts{parts.fleet, parts.metrics, parts.log});
  }
}

ClusterSync::~ClusterSync() = default;

bool ClusterSync::synced() const {
  return pods_->synced() && nominees_->synced() && (reports_ == nullptr || reports_->synced()) &&
         (counts_ == nullptr || counts_->answered());
}

std::function<void(const absl::Status&)> ClusterSync::OnState(const char* what) {
  // Until it has a list it is not up. A first list is no change of its state.
  parts_.metrics.SetWatch(what, /*broken=*/true);
  return [this, what](const absl::Status& status) {
    parts_.metrics.SetWatch(what, !status.ok());
    if (status.ok()) {
      parts_.log.Write(LogLevel::kInfo,
                       LogLine("api-server").Text("watch", what).Text("state", "connected"));
      return;
    }
    parts_.metrics.watch_interruptions_total->Increment();
    parts_.log.Write(LogLevel::kWarn, LogLine("api-server")
                                          .Text("watch", what)
                                          .Text("state", "interrupted")
                                          .Text("error", std::string(status.message())));
  };
}

void ClusterSync::WatchPods(kube::Client& client) {
  kube::WatchHandlers<api::Pod> handlers;
  handlers.on_page = [](std::vector<api::Pod>& pods) {
    for (api::Pod& pod : pods) DropWhatIsNotRead(pod);
  };
  handlers.on_list = [this](std::vector<api::Pod> pods) {
    parts_.metrics.SetWatch("pods", /*broken=*/false);
    parts_.fleet.ReplacePods(pods);
    for (const api::Pod& pod : pods) SeePod(pod, /*deleted=*/false);
    if (parts_.workloads != nullptr) parts_.workloads->ReplacePods(pods);
    parts_.log.Write(LogLevel::kInfo,
                     LogLine("pods-listed").Int("pods", static_cast<std::int64_t>(pods.size())));
  };
  // One that has got a node counts in the fleet before its Workload has a Pod less to place, and
  // the other way round when it ends: in between it counts twice, and never not at all.
  handlers.on_upsert = [this](const api::Pod& pod) {
    const bool ends = pod.IsTerminal() || pod.metadata.deletion_time != 0;
    if (parts_.workloads != nullptr && ends) parts_.workloads->SeePod(pod);
    TakePod(pod);
    if (parts_.workloads != nullptr && !ends) parts_.workloads->SeePod(pod);
  };
  handlers.on_delete = [this](api::Pod pod) {
    if (parts_.workloads != nullptr) parts_.workloads->ForgetPod(pod.metadata.uid);
    if (pod.node_name.empty()) return;
    parts_.fleet.DeletePod(pod);
    SeePod(pod, /*deleted=*/true);
  };
  handlers.on_state = OnState("pods");
  kube::WatchOptions options = Options();
  if (parts_.workloads == nullptr) options.field_selector = "spec.nodeName!=";
  pods_ = kube::WatchPods(client, options, std::move(handlers));
}

void ClusterSync::WatchNominees(kube::Client& client) {
  kube::WatchHandlers<api::Pod> handlers;
  handlers.on_list = [this](std::vector<api::Pod> pods) {
    parts_.metrics.SetWatch("nominated-pods", /*broken=*/false);
    parts_.fleet.ReplaceNominees(pods);
  };
  handlers.on_upsert = [this](const api::Pod& pod) { parts_.fleet.UpsertNominee(pod); };
  handlers.on_delete = [this](const api::Pod& pod) {
    parts_.fleet.DeleteNominee(pod.metadata.uid);
  };
  handlers.on_state = OnState("nominated-pods");
  kube::WatchOptions options = Options();
  options.field_selector = "spec.nodeName=,status.nominatedNodeName!=";
  nominees_ = kube::WatchPods(client, options, std::move(handlers));
}

void ClusterSync::TakePod(const api::Pod& pod) {
  if (pod.node_name.empty()) return;
  // Located by whoever bound it; an offer made to it is void.
  parts_.offers.Forget(pod.metadata.uid);
  parts_.wake_up.Forget(pod.metadata.uid);
  if (parts_.fleet.UpsertPod(pod)) {
    parts_.metrics.CountRefusal(pod.status.reason);
    parts_.log.Write(LogLevel::kWarn, LogLine("kubelet-refused")
                                          .Text("pod", pod.FullName())
                                          .Text("node", pod.node_name)
                                          .Text("reason", pod.status.reason)
                                          .Text("message", pod.status.message));
  }
  SeePod(pod, /*deleted=*/false);
}

void ClusterSync::SeePod(const api::Pod& pod, bool deleted) {
  if (!IsAgent(pod) || pod.node_name.empty()) return;
  parts_.fleet.SetAgentReady(pod.node_name, !deleted && !pod.IsTerminal() && IsReady(pod));
}

void ClusterSync::WatchReports(kube::Client& client) {
  kube::WatchHandlers<api::NodeReport> handlers;
  // A report is a few KB, in memory some more: of a large cluster they are taken page by page.
  handlers.on_page = [this](std::vector<api::NodeReport>& reports) {
    for (api::NodeReport& report : reports) {
      TakeReport(report);
      report.status.reset();
      report.metadata.labels.clear();
      report.metadata.annotations.clear();
    }
  };
  handlers.on_list = [this](std::vector<api::NodeReport> reports) {
    parts_.metrics.SetWatch("reports", /*broken=*/false);
    std::set<std::string> gone = std::exchange(reported_, {});
    for (const api::NodeReport& report : reports) {
      gone.erase(report.metadata.name);
      reported_.insert(report.metadata.name);
    }
    for (const std::string& node : gone) DropReport(node);
    parts_.log.Write(
        LogLevel::kInfo,
        LogLine("reports-listed").Int("reports", static_cast<std::int64_t>(reports.size())));
  };
  handlers.on_upsert = [this](api::NodeReport report) { TakeReport(report); };
  handlers.on_delete = [this](api::NodeReport report) { DropReport(report.metadata.name); };
  handlers.on_state = OnState("reports");
  reports_ = kube::WatchNodeReports(client, Options(), std::move(handlers));
}

void ClusterSync::TakeReport(const api::NodeReport& report) {
  const std::string& node = report.metadata.name;
  reported_.insert(node);
  cache::Fleet::ReportNews news;
  if (report.status == nullptr) {
    news.error = std::string(report.problem.message());
    parts_.fleet.RefuseReport(node, news.error);
  } else {
    news = parts_.fleet.UpsertReport(node, *report.status);
  }
  if (!news.error.empty()) {
    parts_.metrics.reports_total.invalid->Increment();
    parts_.log.Write(LogLevel::kWarn,
                     LogLine("report-refused").Text("node", node).Text("error", news.error));
    return;
  }
  if (!news.applied) {
    parts_.log.Write(LogLevel::kWarn,
                     LogLine("report-outdated").Text("node", node).Text("error", news.outdated));
  }
  (news.applied ? parts_.metrics.reports_total.applied : parts_.metrics.reports_total.outdated)
      ->Increment();
  parts_.metrics.predictions_total.confirmed->Increment(news.confirmed);
  for (const auto& told : news.misaligned) TellMisaligned(node, told);
  for (const cache::Fleet::ReportNews::Difference& difference : news.differences) {
    parts_.metrics.predictions_total.mismatch->Increment();
    parts_.log.Write(LogLevel::kWarn, LogLine("prediction-mismatch")
                                          .Text("node", node)
                                          .Text("pod", difference.pod)
                                          .Text("foretold", difference.foretold)
                                          .Text("observed", difference.observed));
  }
}

void ClusterSync::TellMisaligned(const std::string& node,
                                 const cache::Fleet::ReportNews::Misaligned& told) {
  parts_.log.Write(
      LogLevel::kWarn,
      LogLine("misaligned").Text("node", node).Text("pod", told.pod).Text("devices", told.text));
  const std::size_t slash = told.pod.find('/');
  kube::EventRequest event;
  event.kind = "Pod";
  event.object_namespace = told.pod.substr(0, slash);
  event.name = told.pod.substr(slash + 1);
  event.uid = told.uid;
  event.reason = "DevicesMisaligned";
  event.action = "Observed";
  event.note = "accelerators and endpoints lie on different NUMA nodes: " + told.text;
  event.warning = true;
  event.controller = "numafit.io/extender";
  event.instance = "numafit-extender";
  // The same time whoever posts it and however often: it stays one Event.
  event.time_micros = told.creation_time * 1'000'000;
  parts_.events.Post(std::move(event));
}

void ClusterSync::DropReport(const std::string& node) {
  reported_.erase(node);
  parts_.fleet.DeleteReport(node);
  parts_.log.Write(LogLevel::kWarn, LogLine("report-gone").Text("node", node));
}

}  // namespace numafit::extender
