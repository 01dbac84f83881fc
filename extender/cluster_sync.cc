#include "extender/cluster_sync.h"

#include <string>
#include <utility>
#include <vector>

#include "prometheus/counter.h"

namespace numafit::extender {

ClusterSync::ClusterSync(kube::Client& client, Parts parts) : parts_(parts) {
  kube::WatchHandlers<api::Pod> handlers;
  handlers.on_list = [this](std::vector<api::Pod> pods) {
    parts_.fleet.ReplacePods(pods);
    parts_.log.Write(LogLevel::kInfo,
                     LogLine("pods-listed").Int("pods", static_cast<std::int64_t>(pods.size())));
  };
  handlers.on_upsert = [this](api::Pod pod) {
    // Located by whoever bound it; an offer made to it is void.
    parts_.offers.Forget(pod.metadata.uid);
    parts_.wake_up.Forget(pod.metadata.uid);
    parts_.fleet.UpsertPod(pod);
  };
  handlers.on_delete = [this](api::Pod pod) { parts_.fleet.DeletePod(pod); };
  handlers.on_state = [this](const absl::Status& status) {
    if (status.ok()) {
      parts_.log.Write(LogLevel::kInfo, LogLine("api-server").Text("state", "connected"));
      return;
    }
    parts_.metrics.watch_interruptions_total->Increment();
    parts_.log.Write(LogLevel::kWarn, LogLine("api-server")
                                          .Text("state", "interrupted")
                                          .Text("error", std::string(status.message())));
  };
  kube::WatchOptions options;
  options.field_selector = "spec.nodeName!=";
  // While the API server is away filter goes on answering from what was last known, refusals too:
  // nothing wrong is bound (a bind needs the same server), and once its news is here the Pods that
  // were refused meanwhile are woken (wake_up.h). An Error instead would keep every Pod in the
  // scheduler's error back-off. So it matters to be back about as soon as the scheduler is.
  options.backoff_max_ms = 1'000;
  pods_ = kube::WatchPods(client, options, std::move(handlers));
}

ClusterSync::~ClusterSync() = default;

bool ClusterSync::synced() const {
  return pods_->synced();
}

}  // namespace numafit::extender
