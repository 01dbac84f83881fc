#include "extender/kueue_setup.h"

#include <algorithm>
#include <utility>

#include "prometheus/counter.h"

namespace numafit::extender {
namespace {

kube::WatchOptions Options() {
  kube::WatchOptions options;
  options.backoff_max_ms = 1'000;
  return options;
}

// Only what a NodeTable keeps: 15,000 Nodes are never all here as they came.
void Trim(api::Node& node) {
  node.metadata.annotations.clear();
  node.capacity.clear();
  node.conditions.clear();
}

// The inventory may watch the Nodes, too.
std::string_view MetricName(std::string_view what) {
  return what == "nodes" ? "kueue-nodes" : what;
}

}  // namespace

KueueSetup::KueueSetup(Parts parts, const std::string& version, std::function<void()> changed)
    : parts_(parts), changed_(std::move(changed)) {
  const auto add = [this](const char* what, std::unique_ptr<kube::Watch> watch) {
    watches_.emplace_back(what, std::move(watch));
  };
  add("clusterqueues", kube::WatchClusterQueues(parts_.client, version, Options(),
                                                HandlersFor("clusterqueues", &Snapshot::queues)));
  add("resourceflavors",
      kube::WatchResourceFlavors(parts_.client, version, Options(),
                                 HandlersFor("resourceflavors", &Snapshot::flavors)));
  add("admissionchecks",
      kube::WatchAdmissionChecks(parts_.client, version, Options(),
                                 HandlersFor("admissionchecks", &Snapshot::checks)));
  WatchNodes();
}

KueueSetup::~KueueSetup() {
  std::vector<std::string> names;
  for (const auto& [what, watch] : watches_) names.push_back(what);
  // Their threads tell the metrics.
  watches_.clear();
  for (const std::string& what : names) parts_.metrics.ForgetWatch(MetricName(what));
}

std::function<void(const absl::Status&)> KueueSetup::OnState(const char* what) {
  return [this, what](const absl::Status& status) {
    parts_.log.Write(status.ok() ? LogLevel::kInfo : LogLevel::kWarn,
                     LogLine("api-server")
                         .Text("watch", what)
                         .Text("state", status.ok() ? "connected" : "interrupted")
                         .Text("error", std::string(status.message())));
    if (!status.ok()) parts_.metrics.watch_interruptions_total->Increment();
    parts_.metrics.SetWatch(MetricName(what), !status.ok());
    const api::MutexLock lock(mutex_);
    states_[what] = status;
  };
}

template <typename T>
kube::WatchHandlers<T> KueueSetup::HandlersFor(const char* what,
                                               std::map<std::string, T> Snapshot::*objects) {
  kube::WatchHandlers<T> handlers;
  const auto take = [objects](Snapshot& now, T object) {
    std::string name = object.metadata.name;
    if (object.problem.ok()) {
      (now.*objects).insert_or_assign(std::move(name), std::move(object));
    } else {
      (now.*objects).erase(name);
    }
  };
  handlers.on_list = [this, what, objects, take](std::vector<T> list) {
    parts_.metrics.SetWatch(MetricName(what), /*broken=*/false);
    {
      const api::MutexLock lock(mutex_);
      (now_.*objects).clear();
      for (T& object : list) take(now_, std::move(object));
    }
    changed_();
  };
  handlers.on_upsert = [this, what, take](T object) {
    if (!object.problem.ok()) {
      parts_.log.Write(LogLevel::kWarn, LogLine("kueue-object-unreadable")
                                            .Text("kind", what)
                                            .Text("name", object.metadata.name)
                                            .Text("error", std::string(object.problem.message())));
    }
    {
      const api::MutexLock lock(mutex_);
      take(now_, std::move(object));
    }
    changed_();
  };
  handlers.on_delete = [this, objects](T object) {
    {
      const api::MutexLock lock(mutex_);
      (now_.*objects).erase(object.metadata.name);
    }
    changed_();
  };
  handlers.on_state = OnState(what);
  return handlers;
}

void KueueSetup::WatchNodes() {
  kube::WatchHandlers<api::Node> handlers;
  handlers.on_page = [](std::vector<api::Node>& page) {
    std::for_each(page.begin(), page.end(), Trim);
  };
  handlers.on_list = [this](const std::vector<api::Node>& list) {
    parts_.metrics.SetWatch(MetricName("nodes"), /*broken=*/false);
    {
      const api::MutexLock lock(mutex_);
      now_.nodes.Replace(list);
    }
    changed_();
  };
  // A Node's heartbeats are no news: only what the table keeps is.
  handlers.on_upsert = [this](const api::Node& node) {
    bool changed = false;
    {
      const api::MutexLock lock(mutex_);
      changed = now_.nodes.Upsert(node);
    }
    if (changed) changed_();
  };
  handlers.on_delete = [this](const api::Node& node) {
    {
      const api::MutexLock lock(mutex_);
      now_.nodes.Delete(node.metadata.name);
    }
    changed_();
  };
  handlers.on_state = OnState("nodes");
  watches_.emplace_back("nodes", kube::WatchNodes(parts_.client, Options(), std::move(handlers)));
}

KueueSetup::Snapshot KueueSetup::Read() const {
  const api::MutexLock lock(mutex_);
  return now_;
}

bool KueueSetup::synced() const {
  return std::all_of(watches_.begin(), watches_.end(),
                     [](const auto& watch) { return watch.second->synced(); });
}

absl::Status KueueSetup::StateOf(std::initializer_list<std::string_view> what) const {
  for (const auto& [name, watch] : watches_) {
    const bool asked = std::find(what.begin(), what.end(), name) != what.end();
    if (!asked || watch->synced()) continue;
    const api::MutexLock lock(mutex_);
    const auto state = states_.find(name);
    if (state != states_.end() && !state->second.ok()) return state->second;
    return absl::UnavailableError(name + " have not been read yet");
  }
  return absl::OkStatus();
}

}  // namespace numafit::extender
