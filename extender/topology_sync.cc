#include "extender/topology_sync.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "prometheus/counter.h"

namespace numafit::extender {
namespace {

kube::WatchOptions Options(int backoff_max_ms) {
  kube::WatchOptions options;
  options.backoff_max_ms = backoff_max_ms;
  return options;
}

// While the definition is not installed there is nothing to hurry for.
constexpr int kTopologyBackoffMs = 30'000;
constexpr int kNodeBackoffMs = 1'000;

}  // namespace

TopologySync::TopologySync(kube::Client& client, Parts parts) : parts_(parts) {
  WatchNodes(client);
  WatchTopologies(client);
}

TopologySync::~TopologySync() = default;

void TopologySync::WatchTopologies(kube::Client& client) {
  kube::WatchHandlers<api::NodeResourceTopology> handlers;
  handlers.on_list = [this](std::vector<api::NodeResourceTopology> topologies) {
    parts_.metrics.SetWatch("node-resource-topologies", /*broken=*/false);
    ListTopologies(std::move(topologies));
    topologies_answered_ = true;
  };
  handlers.on_upsert = [this](api::NodeResourceTopology topology) {
    const api::MutexLock lock(mutex_);
    TakeTopology(std::move(topology));
  };
  handlers.on_delete = [this](api::NodeResourceTopology topology) {
    const api::MutexLock lock(mutex_);
    DropTopology(topology.metadata.name);
  };
  handlers.on_state = [this](const absl::Status& status) {
    TellState("node-resource-topologies", status);
    if (!status.ok()) topologies_answered_ = true;
  };
  topologies_ =
      kube::WatchNodeResourceTopologies(client, Options(kTopologyBackoffMs), std::move(handlers));
}

void TopologySync::WatchNodes(kube::Client& client) {
  kube::WatchHandlers<api::Node> handlers;
  handlers.on_list = [this](std::vector<api::Node> nodes) {
    parts_.metrics.SetWatch("nodes", /*broken=*/false);
    for (const api::Node& node : nodes) TakeNode(node);
    nodes_answered_ = true;
  };
  handlers.on_upsert = [this](api::Node node) { TakeNode(node); };
  // A node that is gone is offered no more; its object, if anybody leaves it, says what it says.
  handlers.on_delete = [](api::Node) {};
  handlers.on_state = [this](const absl::Status& status) {
    TellState("nodes", status);
    if (!status.ok()) nodes_answered_ = true;
  };
  nodes_ = kube::WatchNodes(client, Options(kNodeBackoffMs), std::move(handlers));
}

void TopologySync::TellState(const char* what, const absl::Status& status) {
  // No definition is no interruption.
  const bool missing = absl::IsNotFound(status);
  parts_.metrics.SetWatch(what, !status.ok() && !missing);
  if (status.ok()) {
    parts_.log.Write(LogLevel::kInfo,
                     LogLine("api-server").Text("watch", what).Text("state", "connected"));
    return;
  }
  if (!missing) parts_.metrics.watch_interruptions_total->Increment();
  parts_.log.Write(LogLevel::kWarn, LogLine("api-server")
                                        .Text("watch", what)
                                        .Text("state", missing ? "not-installed" : "interrupted")
                                        .Text("error", std::string(status.message())));
}

void TopologySync::ListTopologies(std::vector<api::NodeResourceTopology> topologies) {
  const api::MutexLock lock(mutex_);
  absl::flat_hash_set<std::string> listed;
  for (const api::NodeResourceTopology& each : topologies) listed.insert(each.metadata.name);
  std::vector<std::string> gone;
  for (const auto& [node, known] : known_) {
    if (known.topology.has_value() && !listed.contains(node)) gone.push_back(node);
  }
  for (const std::string& node : gone) DropTopology(node);
  const auto count = static_cast<std::int64_t>(topologies.size());
  for (api::NodeResourceTopology& each : topologies) TakeTopology(std::move(each));
  parts_.log.Write(LogLevel::kInfo,
                   LogLine("node-resource-topologies-listed").Int("objects", count));
}

void TopologySync::TakeTopology(api::NodeResourceTopology topology) {
  const std::string node = topology.metadata.name;
  // Nothing else of these is looked at; they can be long.
  topology.metadata.labels.clear();
  topology.metadata.annotations.clear();
  Known& known = known_[node];
  known.topology = std::move(topology);
  Apply(node, known);
}

void TopologySync::DropTopology(const std::string& node) {
  const auto found = known_.find(node);
  if (found == known_.end() || !found->second.topology.has_value()) return;
  found->second.topology.reset();
  parts_.fleet.DeleteCounts(node);
  parts_.log.Write(LogLevel::kInfo, LogLine("node-resource-topology-gone").Text("node", node));
}

void TopologySync::TakeNode(const api::Node& node) {
  const api::MutexLock lock(mutex_);
  Known& known = known_[node.metadata.name];
  cache::NodeFacts facts = cache::FactsOf(node);
  // A Node changes often, and seldom in these.
  if (known.facts == facts) return;
  known.facts = std::move(facts);
  Apply(node.metadata.name, known);
}

void TopologySync::Apply(const std::string& node, const Known& known) {
  if (!known.topology.has_value() || !known.facts.has_value()) return;
  const std::string error = parts_.fleet.UpsertCounts(*known.topology, *known.facts);
  if (error.empty()) {
    parts_.metrics.node_resource_topologies_total.applied->Increment();
    return;
  }
  parts_.metrics.node_resource_topologies_total.invalid->Increment();
  parts_.log.Write(
      LogLevel::kWarn,
      LogLine("node-resource-topology-refused").Text("node", node).Text("error", error));
}

}  // namespace numafit::extender
