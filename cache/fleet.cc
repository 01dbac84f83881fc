#include "cache/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cache/placement.h"
#include "cache/pod_status.h"
#include "cache/possible_states.h"
#include "cache/state_table.h"

namespace numafit::cache {
namespace {

constexpr PossibleStates::Handle kHoldsNothing = -1;
constexpr int kNoNode = -1;
// Snapshot lets others in after this many nodes.
constexpr std::size_t kSnapshotChunk = 128;

const std::string& KeyOf(const api::Pod& pod, std::string& storage) {
  if (!pod.metadata.uid.empty()) return pod.metadata.uid;
  storage = pod.FullName();
  return storage;
}

struct PodEntry {
  std::string key;
  std::string name;
  int node = kNoNode;
  std::shared_ptr<const policy::Demand> demand;
  PossibleStates::Handle handle = kHoldsNothing;
  bool from_file = false;
  bool seen = false;      // the watch has shown it on its node
  bool reserved = false;  // a bind in flight
  bool admitted = false;
};

struct NodeEntry {
  PossibleStates states;
  std::vector<PodEntry*> pods;
  std::shared_ptr<const NodeState> state;
  int contradictions = 0;
  bool dirty = false;
};

// Lock order: write_, then mutex_. Everything that changes runs under write_, so that what takes
// time (admissions) keeps no reader waiting; mutex_ is held exclusively only to publish.
class FleetImpl final : public Fleet {
 public:
  FleetImpl(const api::ResourceClasses& classes, Options options)
      : classes_(classes), options_(std::move(options)) {}

  absl::Status Load(const FleetFile& file);

  void ReplacePods(const std::vector<api::Pod>& pods) override;
  void UpsertPod(const api::Pod& pod) override {
    const api::MutexLock lock(write_);
    Upsert(pod);
    Publish();
  }
  void DeletePod(const api::Pod& pod) override {
    const api::MutexLock lock(write_);
    std::string storage;
    Forget(KeyOf(pod, storage), /*never_admitted=*/false);
    Publish();
  }

  ReserveResult Reserve(std::string_view node, std::string_view uid, std::string_view pod_name,
                        const policy::Demand& demand) override;
  void Commit(std::string_view uid) override;
  void Release(std::string_view uid) override;

  std::size_t size() const override { return names_.size(); }
  int FindNode(const ReadGuard&, std::string_view name, int hint) const override {
    return Find(name, hint);
  }
  std::string_view NodeName(const ReadGuard&, int index) const override {
    return names_[static_cast<std::size_t>(index)];
  }
  const NodeState* State(const ReadGuard&, int index) const override
      NUMAFIT_TSA(no_thread_safety_analysis) {
    return states_[static_cast<std::size_t>(index)].get();
  }
  const std::uint64_t* StateIds(const ReadGuard&) const override
      NUMAFIT_TSA(no_thread_safety_analysis) {
    return ids_.data();
  }
  std::vector<NodeView> Snapshot() const override;
  Stats stats() const override;

 private:
  struct Hash {
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  int Find(std::string_view name, int hint) const {
    if (hint >= 0 && static_cast<std::size_t>(hint) < names_.size() &&
        names_[static_cast<std::size_t>(hint)] == name) {
      return hint;
    }
    const auto found = index_.find(name);
    return found == index_.end() ? kNoNode : found->second;
  }

  absl::Status AddFilePod(const FleetPod& entry) NUMAFIT_REQUIRES(write_);
  void Upsert(const api::Pod& pod) NUMAFIT_REQUIRES(write_);
  PodEntry& NewEntry(const std::string& key, std::string name, int node,
                     std::shared_ptr<const policy::Demand> demand) NUMAFIT_REQUIRES(write_);
  void AddBound(const api::Pod& pod, const std::string& key, int node) NUMAFIT_REQUIRES(write_);
  policy::Demand DemandOfBound(const api::Pod& pod) const;
  void Forget(const std::string& key, bool never_admitted) NUMAFIT_REQUIRES(write_);
  void MarkDirty(int node) NUMAFIT_REQUIRES(write_);
  void Publish() NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  NodeView View(int node) const NUMAFIT_REQUIRES(write_);

  const api::ResourceClasses classes_;
  const Options options_;
  // Written by Load only.
  std::deque<std::string> names_;
  absl::flat_hash_map<std::string_view, int, Hash, std::equal_to<std::string_view>> index_;

  mutable api::Mutex write_;
  std::vector<NodeEntry> nodes_ NUMAFIT_GUARDED_BY(write_);
  absl::flat_hash_map<std::string, std::unique_ptr<PodEntry>> pods_ NUMAFIT_GUARDED_BY(write_);
  std::vector<int> dirty_ NUMAFIT_GUARDED_BY(write_);
  StateTable table_ NUMAFIT_GUARDED_BY(write_);
  std::size_t reservations_ NUMAFIT_GUARDED_BY(write_) = 0;
  std::int64_t contradictions_ NUMAFIT_GUARDED_BY(write_) = 0;

  std::vector<std::shared_ptr<const NodeState>> states_ NUMAFIT_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> ids_ NUMAFIT_GUARDED_BY(mutex_);
};

absl::Status FleetImpl::Load(const FleetFile& file) {
  const api::MutexLock lock(write_);
  const PossibleStates::Limits limits{options_.max_states, options_.max_unadmitted};
  for (const FleetNode& node : file.nodes) {
    const auto index = static_cast<int>(names_.size());
    names_.push_back(node.name);
    if (!index_.emplace(names_.back(), index).second) {
      return absl::InvalidArgumentError(fmt::format("node {} is there twice", node.name));
    }
    nodes_.push_back({.states = PossibleStates(node.topology, limits),
                      .pods = {},
                      .state = nullptr,
                      .contradictions = 0,
                      .dirty = false});
    MarkDirty(index);
  }
  {
    const api::WriterLock publish(mutex_);
    states_.resize(nodes_.size());
    ids_.resize(nodes_.size());
  }
  for (const FleetPod& entry : file.pods) {
    if (absl::Status status = AddFilePod(entry); !status.ok()) return status;
  }
  Publish();
  return absl::OkStatus();
}

absl::Status FleetImpl::AddFilePod(const FleetPod& entry) {
  const std::string name = entry.pod.FullName();
  const auto error = [&](const std::string& message) {
    return absl::InvalidArgumentError(
        fmt::format("line {}: Pod {}: {}", entry.line, name, message));
  };
  const int node = Find(entry.pod.node_name, kNoNode);
  if (node == kNoNode) return error(fmt::format("no node {}", entry.pod.node_name));
  absl::StatusOr<policy::Demand> demand = DemandFromPod(entry.pod, classes_, options_.demand);
  if (!demand.ok()) return error(std::string(demand.status().message()));
  PodEntry& pod = NewEntry("file:" + name, name, node,
                           std::make_shared<const policy::Demand>(*std::move(demand)));
  pod.from_file = true;
  pod.admitted = true;
  PossibleStates& states = nodes_[static_cast<std::size_t>(node)].states;
  const policy::Topology& topology = *nodes_[static_cast<std::size_t>(node)].states.topology();
  if (HoldsNothing(topology, *pod.demand)) return absl::OkStatus();
  if (entry.devices.empty()) {
    pod.handle = states.AddWaiting(pod.demand);
    if (states.Contradicts(pod.handle)) {
      return error(fmt::format("the kubelet of {} would not admit it", entry.pod.node_name));
    }
    states.ShowAdmitted(pod.handle);
    return absl::OkStatus();
  }
  // A device that an init container leaves to a later one counts once.
  absl::flat_hash_set<std::string> counted;
  std::map<int, int> held;
  for (const auto& [container, resources] : entry.devices) {
    for (const auto& [resource, ids] : resources) {
      const int pool = topology.FindPool(resource);
      for (const std::string& id : ids) {
        if (!counted.insert(fmt::format("{}\n{}", resource, id)).second) continue;
        const int class_index = topology.FindDevice(pool, id).class_index;
        if (class_index >= 0) ++held[class_index];
      }
    }
  }
  policy::DeviceHolding holding;
  for (const auto& [class_index, count] : held) holding.push_back({class_index, count});
  pod.handle = states.AddRunning(pod.demand, {holding});
  return absl::OkStatus();
}

PodEntry& FleetImpl::NewEntry(const std::string& key, std::string name, int node,
                              std::shared_ptr<const policy::Demand> demand) {
  auto entry = std::make_unique<PodEntry>();
  entry->key = key;
  entry->name = std::move(name);
  entry->node = node;
  entry->demand = std::move(demand);
  PodEntry& pod = *entry;
  pods_[key] = std::move(entry);
  if (node != kNoNode) {
    nodes_[static_cast<std::size_t>(node)].pods.push_back(&pod);
    MarkDirty(node);
  }
  return pod;
}

void FleetImpl::Forget(const std::string& key, bool never_admitted) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  const PodEntry& pod = *found->second;
  if (pod.reserved) --reservations_;
  if (pod.node != kNoNode) {
    NodeEntry& node = nodes_[static_cast<std::size_t>(pod.node)];
    if (pod.handle != kHoldsNothing) node.states.Remove(pod.handle, never_admitted);
    node.pods.erase(std::find(node.pods.begin(), node.pods.end(), &pod));
    MarkDirty(pod.node);
  }
  pods_.erase(found);
}

policy::Demand FleetImpl::DemandOfBound(const api::Pod& pod) const {
  absl::StatusOr<policy::Demand> demand = DemandFromPod(pod, classes_, options_.demand);
  if (demand.ok()) return *std::move(demand);
  // What it holds does not depend on annotations, and the API server lets no wrong quantity in.
  api::Pod plain = pod;
  plain.metadata.annotations.clear();
  demand = DemandFromPod(plain, classes_, options_.demand);
  return demand.ok() ? *std::move(demand) : policy::Demand{};
}

void FleetImpl::AddBound(const api::Pod& pod, const std::string& key, int node) {
  PodEntry& entry = NewEntry(key, pod.FullName(), node,
                             std::make_shared<const policy::Demand>(DemandOfBound(pod)));
  entry.seen = true;
  entry.admitted = ShowsAdmission(pod);
  if (node == kNoNode) return;
  PossibleStates& states = nodes_[static_cast<std::size_t>(node)].states;
  if (HoldsNothing(*states.topology(), *entry.demand)) return;
  if (!entry.admitted) {
    entry.handle = states.AddWaiting(entry.demand);
    if (pod.metadata.deletion_time != 0) states.StartLeaving(entry.handle);
    return;
  }
  const auto placement = pod.metadata.annotations.find(kPlacementAnnotation);
  std::vector<policy::DeviceHolding> held;
  if (placement != pod.metadata.annotations.end()) {
    held = HeldFromPlacement(*states.topology(), *entry.demand, placement->second);
  }
  entry.handle = states.AddRunning(entry.demand, held);
  if (pod.metadata.deletion_time != 0) states.StartLeaving(entry.handle);
}

void FleetImpl::Upsert(const api::Pod& pod) {
  std::string storage;
  const std::string& key = KeyOf(pod, storage);
  if (pod.IsTerminal()) {
    Forget(key, RefusedAtAdmission(pod));
    return;
  }
  // Not bound yet; what we have reserved for it stays.
  if (pod.node_name.empty()) return;
  const int node = Find(pod.node_name, kNoNode);
  auto found = pods_.find(key);
  if (found != pods_.end() && found->second->node != node) {
    // Reserved here, bound there: the cluster is right.
    Forget(key, /*never_admitted=*/true);
    found = pods_.end();
  }
  if (found == pods_.end()) {
    AddBound(pod, key, node);
    return;
  }
  PodEntry& entry = *found->second;
  entry.seen = true;
  const bool newly_admitted = !entry.admitted && ShowsAdmission(pod);
  entry.admitted |= newly_admitted;
  if (node == kNoNode || entry.handle == kHoldsNothing) return;
  PossibleStates& states = nodes_[static_cast<std::size_t>(node)].states;
  const bool newly_leaving = pod.metadata.deletion_time != 0 && !states.IsLeaving(entry.handle);
  if (!newly_admitted && !newly_leaving) return;
  if (newly_admitted) states.ShowAdmitted(entry.handle);
  if (newly_leaving) states.StartLeaving(entry.handle);
  MarkDirty(node);
}

void FleetImpl::ReplacePods(const std::vector<api::Pod>& pods) {
  const api::MutexLock lock(write_);
  absl::flat_hash_set<std::string> listed;
  std::string storage;
  for (const api::Pod& pod : pods) listed.insert(KeyOf(pod, storage));
  std::vector<std::string> gone;
  for (const auto& [key, entry] : pods_) {
    // A Pod exists before it is bound: one that we have bound and that the list does not have at
    // all was deleted, one that it has without a node was listed before the bind.
    if (!entry->from_file && !entry->reserved && !listed.contains(key)) gone.push_back(key);
  }
  for (const std::string& key : gone) Forget(key, /*never_admitted=*/false);
  // Those that run first: fewer orders to look at.
  for (const bool admitted : {true, false}) {
    for (const api::Pod& pod : pods) {
      if (ShowsAdmission(pod) == admitted) Upsert(pod);
    }
  }
  Publish();
}

Fleet::ReserveResult FleetImpl::Reserve(std::string_view node, std::string_view uid,
                                        std::string_view pod_name, const policy::Demand& demand) {
  const api::MutexLock lock(write_);
  ReserveResult result;
  const int index = Find(node, kNoNode);
  if (index == kNoNode) {
    result.judgement.reason = policy::Reason::kNoReport;
    result.error = fmt::format("node {} is not in the inventory", node);
    return result;
  }
  const std::string key(uid);
  if (const auto found = pods_.find(key); found != pods_.end()) {
    if (found->second->node == index) {
      result.already_here = true;
      return result;
    }
    const int other = found->second->node;
    result.judgement.reason = policy::Reason::kKubeletRefuses;
    result.error = fmt::format("Pod {} holds a place on node {} already", pod_name,
                               other == kNoNode ? std::string("outside the inventory")
                                                : names_[static_cast<std::size_t>(other)]);
    return result;
  }
  NodeEntry& entry = nodes_[static_cast<std::size_t>(index)];
  result.judgement = JudgeOnNode(*entry.state, demand, nullptr);
  if (!result.judgement.fits()) return result;
  PodEntry& pod =
      NewEntry(key, std::string(pod_name), index, std::make_shared<const policy::Demand>(demand));
  pod.reserved = true;
  ++reservations_;
  std::vector<policy::DeviceHolding> held = {policy::DeviceHolding{}};
  if (!HoldsNothing(*entry.states.topology(), demand)) {
    pod.handle = entry.states.AddWaiting(pod.demand);
    held = entry.states.HeldBy(pod.handle);
  }
  result.placement =
      PlacementJson(*entry.states.topology(), demand, result.judgement.admission, held);
  Publish();
  return result;
}

void FleetImpl::Commit(std::string_view uid) {
  const api::MutexLock lock(write_);
  const auto found = pods_.find(std::string(uid));
  if (found == pods_.end() || !found->second->reserved) return;
  found->second->reserved = false;
  --reservations_;
}

void FleetImpl::Release(std::string_view uid) {
  const api::MutexLock lock(write_);
  const std::string key(uid);
  const auto found = pods_.find(key);
  if (found == pods_.end() || !found->second->reserved) return;
  if (found->second->seen) {
    // The bind did happen, whatever the answer was.
    found->second->reserved = false;
    --reservations_;
    return;
  }
  Forget(key, /*never_admitted=*/true);
  Publish();
}

void FleetImpl::MarkDirty(int node) {
  NodeEntry& entry = nodes_[static_cast<std::size_t>(node)];
  if (!entry.dirty) dirty_.push_back(node);
  entry.dirty = true;
}

void FleetImpl::Publish() {
  // States that are let go of are destroyed after the readers are let in again.
  std::vector<std::shared_ptr<const NodeState>> old;
  std::vector<int> changed;
  for (const int node : dirty_) {
    NodeEntry& entry = nodes_[static_cast<std::size_t>(node)];
    entry.dirty = false;
    const auto contradictions = static_cast<int>(
        std::count_if(entry.pods.begin(), entry.pods.end(), [&](const PodEntry* pod) {
          return pod->handle != kHoldsNothing && entry.states.Contradicts(pod->handle);
        }));
    contradictions_ += contradictions - entry.contradictions;
    entry.contradictions = contradictions;
    std::shared_ptr<const NodeState> state = table_.Intern(entry.states.Describe());
    if (state == entry.state) continue;
    old.push_back(std::exchange(entry.state, std::move(state)));
    changed.push_back(node);
  }
  dirty_.clear();
  if (changed.empty()) return;
  const api::WriterLock publish(mutex_);
  for (const int node : changed) {
    const auto at = static_cast<std::size_t>(node);
    states_[at] = nodes_[at].state;
    ids_[at] = nodes_[at].state->id;
  }
}

NodeView FleetImpl::View(int node) const {
  const NodeEntry& entry = nodes_[static_cast<std::size_t>(node)];
  NodeView view;
  view.name = names_[static_cast<std::size_t>(node)];
  view.state = entry.state;
  for (const PodEntry* pod : entry.pods) {
    PodOnNode shown;
    shown.name = pod->name;
    shown.uid = pod->key;
    shown.reserved = pod->reserved;
    shown.admitted = pod->admitted;
    shown.demand = *pod->demand;
    if (pod->handle != kHoldsNothing) {
      const std::vector<policy::DeviceHolding> held = entry.states.HeldBy(pod->handle);
      if (held.size() == 1) shown.held = held.front();
    }
    view.pods.push_back(std::move(shown));
  }
  return view;
}

std::vector<NodeView> FleetImpl::Snapshot() const {
  std::vector<NodeView> views;
  views.reserve(names_.size());
  while (views.size() < names_.size()) {
    const api::MutexLock lock(write_);
    const std::size_t end = std::min(names_.size(), views.size() + kSnapshotChunk);
    while (views.size() < end) views.push_back(View(static_cast<int>(views.size())));
  }
  return views;
}

Fleet::Stats FleetImpl::stats() const {
  Stats stats;
  {
    const api::MutexLock lock(write_);
    stats.pods = pods_.size();
    stats.reservations = reservations_;
    stats.contradictions = static_cast<std::size_t>(std::max<std::int64_t>(0, contradictions_));
  }
  const api::ReaderLock lock(mutex_);
  stats.nodes = states_.size();
  absl::flat_hash_set<std::uint64_t> distinct;
  for (const std::shared_ptr<const NodeState>& state : states_) {
    distinct.insert(state->id);
    if (state->knowledge.settling) ++stats.settling_nodes;
  }
  stats.distinct_states = distinct.size();
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Fleet>> Fleet::FromFile(const FleetFile& file,
                                                       const api::ResourceClasses& classes,
                                                       Options options) {
  auto fleet = std::make_unique<FleetImpl>(classes, std::move(options));
  if (absl::Status status = fleet->Load(file); !status.ok()) return status;
  return absl::StatusOr<std::unique_ptr<Fleet>>(std::move(fleet));
}

}  // namespace numafit::cache
