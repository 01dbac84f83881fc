// NodeResourceTopology objects, kept in the Fleet: the second source, for nodes without an agent.
// docs/node-resource-topology.md
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/mutex.h"
#include "api/node_resource_topology.h"
#include "cache/counts.h"
#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "kube/client.h"

namespace numafit::extender {

// Watches NodeResourceTopology objects and, for what these do not say (the kubelet's version, how
// many devices there are in all), Nodes. An object counts once its Node is known. Without the
// CustomResourceDefinition it says so once and goes on trying. Runs until it is destroyed.
class TopologySync {
 public:
  struct Parts {
    cache::Fleet& fleet;
    Metrics& metrics;
    DecisionLog& log;
  };
  // `client` and the parts outlive it.
  TopologySync(kube::Client& client, Parts parts);
  ~TopologySync();

  // Both lists have been read or refused: readiness waits for no more than that.
  [[nodiscard]] bool answered() const { return topologies_answered_ && nodes_answered_; }

 private:
  // What is known of one node, half of it maybe.
  struct Known {
    std::optional<api::NodeResourceTopology> topology;
    std::optional<cache::NodeFacts> facts;
  };

  void WatchTopologies(kube::Client& client);
  void WatchNodes(kube::Client& client);
  void ListTopologies(std::vector<api::NodeResourceTopology> topologies);
  void TakeTopology(api::NodeResourceTopology topology) NUMAFIT_REQUIRES(mutex_);
  void DropTopology(const std::string& node) NUMAFIT_REQUIRES(mutex_);
  void TakeNode(const api::Node& node);
  void Apply(const std::string& node, const Known& known) NUMAFIT_REQUIRES(mutex_);
  void TellState(const char* what, const absl::Status& status);

  Parts parts_;
  std::atomic<bool> topologies_answered_ = false;
  std::atomic<bool> nodes_answered_ = false;
  // Two watches; also keeps what they tell the fleet in order.
  api::Mutex mutex_;
  std::map<std::string, Known> known_ NUMAFIT_GUARDED_BY(mutex_);
  // Last: their threads use the above.
  std::unique_ptr<kube::Watch> nodes_;
  std::unique_ptr<kube::Watch> topologies_;
};

}  // namespace numafit::extender
