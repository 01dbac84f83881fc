// The API server's Pods and NodeReports, kept in the Fleet.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/event_poster.h"
#include "extender/metrics.h"
#include "extender/offers.h"
#include "extender/topology_sync.h"
#include "extender/wake_up.h"
#include "extender/workload_service.h"
#include "kube/client.h"

namespace numafit::extender {

// Watches every Pod that has a node (with Workloads: every Pod), those that are nominated to one,
// and, for an inventory from reports,
// every NodeReport. A node's report counts as current while its agent's Pod (label
// app.kubernetes.io/name=numafit-agent) is ready, or as long as no such Pod was ever seen there.
// Runs until it is destroyed.
class ClusterSync {
 public:
  struct Parts {
    cache::Fleet& fleet;
    Offers& offers;
    WakeUp& wake_up;
    EventPoster& events;
    Metrics& metrics;
    DecisionLog& log;
    // Is told of every Pod, also of those without a node; null: nobody asks about Workloads.
    WorkloadService* workloads = nullptr;
  };
  // Where the inventory comes from. `with_counts` only beside reports.
  struct Sources {
    bool with_reports = false;
    bool with_counts = false;  // topology_sync.h
  };
  // `client` and the parts outlive it.
  ClusterSync(kube::Client& client, Parts parts, Sources sources);
  ~ClusterSync();

  // Every list has been read (counts: or cannot be): what the fleet says is as current as the API
  // server's news.
  [[nodiscard]] bool synced() const;

 private:
  void WatchPods(kube::Client& client);
  void WatchNominees(kube::Client& client);
  void WatchReports(kube::Client& client);
  [[nodiscard]] std::function<void(const absl::Status&)> OnState(const char* what);
  void TakePod(const api::Pod& pod);
  void SeePod(const api::Pod& pod, bool deleted);
  void TakeReport(const api::NodeReport& report);
  void DropReport(const std::string& node);
  void TellMisaligned(const std::string& node, const cache::Fleet::ReportNews::Misaligned& told);

  Parts parts_;
  std::set<std::string> reported_;  // used by the thread of reports_ alone
  std::unique_ptr<kube::Watch> pods_;
  std::unique_ptr<kube::Watch> nominees_;
  std::unique_ptr<kube::Watch> reports_;  // null: the inventory is a file
  std::unique_ptr<TopologySync> counts_;  // null: nobody asks for them
};

}  // namespace numafit::extender
