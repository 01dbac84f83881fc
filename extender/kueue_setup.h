// What administrators have set up of Kueue: its queues, flavors and checks, and the Nodes that
// flavors stand for.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "api/kueue_objects.h"
#include "api/mutex.h"
#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "kube/client.h"
#include "workloads/node_table.h"

namespace numafit::extender {

// Watches Nodes, ClusterQueues, ResourceFlavors and AdmissionChecks. Runs until it is destroyed.
// Thread-safe.
class KueueSetup {
 public:
  struct Parts {
    kube::Client& client;
    Metrics& metrics;
    DecisionLog& log;
  };
  // `version` of Kueue's API. `changed` is called after each change, from the watches' threads.
  KueueSetup(Parts parts, const std::string& version, std::function<void()> changed);
  ~KueueSetup();

  // By name; objects that cannot be read are left out.
  struct Snapshot {
    std::map<std::string, api::ClusterQueue> queues;
    std::map<std::string, api::ResourceFlavor> flavors;
    std::map<std::string, api::AdmissionCheck> checks;
    workloads::NodeTable nodes;
  };
  [[nodiscard]] Snapshot Read() const;
  // Every list has been read. Not for `changed`, which may come before all watches are there.
  [[nodiscard]] bool synced() const;
  // OK: these lists ("clusterqueues", "resourceflavors", "admissionchecks", "nodes") have been
  // read. Else what the API server says about one that has not, Unavailable where it has not
  // answered yet.
  [[nodiscard]] absl::Status StateOf(std::initializer_list<std::string_view> what) const;

 private:
  template <typename T>
  kube::WatchHandlers<T> HandlersFor(const char* what, std::map<std::string, T> Snapshot::*objects);
  void WatchNodes();
  [[nodiscard]] std::function<void(const absl::Status&)> OnState(const char* what);

  const Parts parts_;
  const std::function<void()> changed_;
  mutable api::Mutex mutex_;
  Snapshot now_ NUMAFIT_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status, std::less<>> states_ NUMAFIT_GUARDED_BY(mutex_);
  // By what they watch. Last: their threads use the above.
  std::vector<std::pair<std::string, std::unique_ptr<kube::Watch>>> watches_;
};

}  // namespace numafit::extender
