#include "cache/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "cache/fleet_impl.h"
#include "cache/placement.h"
#include "cache/pod_status.h"

namespace numafit::cache {
namespace {

const std::string& KeyOf(const api::Pod& pod, std::string& storage) {
  if (!pod.metadata.uid.empty()) return pod.metadata.uid;
  storage = pod.FullName();
  return storage;
}

// A static Pod's uid is the hash of its file; the API server's object has another one.
std::string StaticUid(const api::Pod& pod) {
  const auto hash = pod.metadata.annotations.find("kubernetes.io/config.hash");
  return hash == pod.metadata.annotations.end() ? std::string() : hash->second;
}

// What nodes without an inventory look like: a machine without devices.
std::shared_ptr<const policy::Topology> NoMachine() {
  policy::TopologySpec spec;
  spec.numa.emplace_back();
  return *policy::Topology::Create(std::move(spec));
}

// By class, of a file's Pod. A device that an init container leaves to a later one counts once.
policy::DeviceHolding HeldDevices(const policy::Topology& topology,
                                  const decltype(FleetPod::devices)& devices) {
  absl::flat_hash_set<std::string> counted;
  std::map<int, int> held;
  for (const auto& [container, resources] : devices) {
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
  return holding;
}

// The same for people, by container.
std::vector<api::ContainerPlaces> FilePlaces(const policy::Topology& topology,
                                             const FleetPod& entry,
                                             const api::ResourceClasses& classes) {
  std::vector<api::ContainerPlaces> containers;
  const std::vector<api::Container>& inits = entry.pod.init_containers;
  for (const auto& [container, resources] : entry.devices) {
    const bool is_init = std::any_of(inits.begin(), inits.end(), [&name = container](auto& each) {
      return each.name == name && !each.restart_always;
    });
    api::ContainerPlaces places{.name = container, .init = is_init, .devices = {}};
    for (const auto& [resource, ids] : resources) {
      const api::ResourceKind kind = classes.Classify(resource);
      const bool is_accelerator = kind == api::ResourceKind::kAccelerator;
      if (!is_accelerator && !api::IsEndpoint(kind)) continue;
      const int pool = topology.FindPool(resource);
      for (const std::string& id : ids) {
        const int class_index = topology.FindDevice(pool, id).class_index;
        if (class_index < 0) continue;
        const auto& device_class = topology.classes()[static_cast<std::size_t>(class_index)];
        api::HeldPlace place{.resource = resource,
                             .is_accelerator = is_accelerator,
                             .numa_nodes = {},
                             .published = device_class.has_topology,
                             .count = 1};
        device_class.numa.ForEach([&](int numa) { place.numa_nodes.push_back(numa); });
        api::AddPlace(std::move(place), &places.devices);
      }
    }
    if (!places.devices.empty()) containers.push_back(std::move(places));
  }
  return containers;
}

}  // namespace

FleetImpl::FleetImpl(const api::ResourceClasses& classes, Options options, bool from_reports)
    : classes_(classes),
      options_(std::move(options)),
      from_reports_(from_reports),
      no_machine_(NoMachine()),
      reports_(classes),
      counts_(classes) {}

bool FleetImpl::UpsertPod(const api::Pod& pod) {
  const api::MutexLock lock(write_);
  std::string storage;
  const bool refused = NoteRefusal(pod, KeyOf(pod, storage));
  Upsert(pod);
  Publish();
  return refused;
}

bool FleetImpl::NoteRefusal(const api::Pod& pod, const std::string& key) {
  if (!RefusedAtAdmission(pod) || !pod.metadata.annotations.contains(kPlacementAnnotation)) {
    return false;
  }
  const auto found = pods_.find(key);
  if (found == pods_.end() || found->second->node == kNoNode || found->second->gone) return false;
  const PodEntry& entry = *found->second;
  // OutOf…: others were quicker; nothing is wrong with what is known of the devices.
  const bool ours = !pod.status.reason.starts_with("OutOf");
  if (ours && options_.cool_down_ms > 0 && options_.now_ms && entry.demand != nullptr) {
    Node(entry.node)
        .cool_downs.push_back(
            {entry.demand->Fingerprint(), options_.now_ms() + options_.cool_down_ms});
    MarkDirty(entry.node);
  }
  return true;
}

void FleetImpl::EndCoolDowns() {
  if (!options_.now_ms) return;
  const api::MutexLock lock(write_);
  const std::int64_t now = options_.now_ms();
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    const auto is_over = [now](const auto& each) { return each.until_ms <= now; };
    if (std::erase_if(Node(node).cool_downs, is_over) > 0) MarkDirty(node);
  }
  Publish();
}

void FleetImpl::DeletePod(const api::Pod& pod) {
  const api::MutexLock lock(write_);
  std::string storage;
  Forget(KeyOf(pod, storage), /*never_admitted=*/false);
  Publish();
}

int FleetImpl::AddNode(const std::string& name) {
  const auto index = static_cast<int>(nodes_.size());
  nodes_.push_back({.ledger = NodeLedger({options_.max_states, options_.max_unadmitted}),
                    .state = nullptr,
                    .contradictions = 0,
                    .cool_downs = {},
                    .nominees = nullptr,
                    .nominees_changed = false,
                    .counts = nullptr,
                    .facts = nullptr,
                    .report_error = {},
                    .clock_ahead_seconds = {},
                    .agent_lost_at_ms = {},
                    .agent_was_ready = false,
                    .stale = false,
                    .kubelet_away = false,
                    .dirty = false});
  // Readers find a state at every index.
  nodes_.back().state = table_.Intern(Describe(nodes_.back(), std::nullopt));
  const api::WriterLock publish(mutex_);
  names_.push_back(name);
  index_.emplace(names_.back(), index);
  states_.push_back(nodes_.back().state);
  ids_.push_back(nodes_.back().state->id);
  changes_.push_back(1);
  nominees_.emplace_back();
  size_.store(nodes_.size(), std::memory_order_release);
  return index;
}

int FleetImpl::FindOrAdd(const std::string& name) {
  const int index = Find(name, kNoNode);
  return index == kNoNode && from_reports_ ? AddNode(name) : index;
}

absl::Status FleetImpl::Load(const FleetFile& file) {
  const api::MutexLock lock(write_);
  for (const FleetNode& node : file.nodes) {
    if (Find(node.name, kNoNode) != kNoNode) {
      return absl::InvalidArgumentError(fmt::format("node {} is there twice", node.name));
    }
    const int index = AddNode(node.name);
    Ledger(index).SetTopology(node.topology);
    MarkDirty(index);
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
  PodEntry& pod = NewEntry("file:" + name, name, node);
  pod.demand = std::make_shared<const policy::Demand>(*std::move(demand));
  pod.from_file = true;
  NodeLedger& ledger = Ledger(node);
  if (entry.devices.empty()) {
    ledger.Add(pod);
    if (ledger.Contradicts(pod)) {
      return error(fmt::format("the kubelet of {} would not admit it", entry.pod.node_name));
    }
    ledger.ShowAdmitted(pod);
    return absl::OkStatus();
  }
  pod.admitted = true;
  pod.places = places_.Intern(FilePlaces(*ledger.topology(), entry, classes_));
  ledger.Add(pod, HeldDevices(*ledger.topology(), entry.devices));
  return absl::OkStatus();
}

PodEntry& FleetImpl::NewEntry(const std::string& key, std::string name, int node) {
  auto entry = std::make_unique<PodEntry>();
  entry->key = key;
  entry->name = std::move(name);
  entry->node = node;
  PodEntry& pod = *entry;
  pods_[key] = std::move(entry);
  if (node != kNoNode) MarkDirty(node);
  return pod;
}

void FleetImpl::Forget(const std::string& key, bool never_admitted) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  PodEntry& pod = *found->second;
  if (std::exchange(pod.reserved, false)) --reservations_;
  if (pod.node != kNoNode) {
    MarkDirty(pod.node);
    if (!Ledger(pod.node).End(pod, never_admitted)) return;
  }
  pods_.erase(found);
}

void FleetImpl::Erase(const std::vector<PodEntry*>& pods) {
  for (const PodEntry* pod : pods) {
    if (pod->reserved) --reservations_;
    pods_.erase(std::string(pod->key));
  }
}

std::shared_ptr<const policy::Demand> FleetImpl::DemandOfBound(const api::Pod& pod) {
  absl::StatusOr<policy::Demand> demand = DemandFromPod(pod, classes_, options_.demand);
  if (!demand.ok()) {
    // What it holds does not depend on annotations, and the API server lets no wrong quantity in.
    api::Pod plain = pod;
    plain.metadata.annotations.clear();
    demand = DemandFromPod(plain, classes_, options_.demand);
  }
  return demands_.Intern(demand.ok() ? *std::move(demand) : policy::Demand{});
}

void FleetImpl::AddBound(const api::Pod& pod, const std::string& key, int node) {
  PodEntry& entry = NewEntry(key, pod.FullName(), node);
  entry.demand = DemandOfBound(pod);
  entry.seen = true;
  entry.priority = pod.priority;
  entry.creation_time = pod.metadata.creation_time;
  entry.admitted = ShowsAdmission(pod);
  entry.leaving = pod.metadata.deletion_time != 0;
  entry.static_uid = StaticUid(pod);
  const auto placement = pod.metadata.annotations.find(kPlacementAnnotation);
  if (placement != pod.metadata.annotations.end()) entry.placement = placement->second;
  if (node != kNoNode) Ledger(node).Add(entry);
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
  EndNomination(pod.metadata.uid);
  const int node = FindOrAdd(pod.node_name);
  auto found = pods_.find(key);
  if (found != pods_.end() && found->second->node != node) {
    // Reserved here, bound there: the cluster is right.
    Forget(key, /*never_admitted=*/true);
    found = pods_.find(key);
  }
  if (found == pods_.end() && node != kNoNode) {
    if (PodEntry* const reported = FindReported(pod.FullName(), StaticUid(pod), node);
        reported != nullptr) {
      std::unique_ptr<PodEntry> entry = std::move(pods_.find(reported->key)->second);
      pods_.erase(reported->key);
      entry->key = key;
      entry->static_uid = StaticUid(pod);
      found = pods_.emplace(key, std::move(entry)).first;
    }
  }
  if (found == pods_.end()) {
    AddBound(pod, key, node);
    return;
  }
  PodEntry& entry = *found->second;
  entry.seen = true;
  entry.priority = pod.priority;
  entry.creation_time = pod.metadata.creation_time;
  if (node == kNoNode) return;
  NodeLedger& ledger = Ledger(node);
  if (entry.demand == nullptr) {
    ledger.Introduce(entry, DemandOfBound(pod));
    MarkDirty(node);
  }
  const bool is_leaving = pod.metadata.deletion_time != 0;
  if (entry.admitted == ShowsAdmission(pod) && entry.leaving == is_leaving) return;
  if (ShowsAdmission(pod)) ledger.ShowAdmitted(entry);
  if (is_leaving) ledger.StartLeaving(entry);
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
    const bool ours = entry->from_file || entry->reserved || entry->demand == nullptr;
    if (!ours && !listed.contains(key)) gone.push_back(key);
  }
  for (const std::string& key : gone) Forget(key, /*never_admitted=*/false);
  // Those that run first: fewer orders to look at.
  for (const bool admitted : {true, false}) {
    for (const api::Pod& pod : pods) {
      if (ShowsAdmission(pod) == admitted) Upsert(pod);
    }
  }
  // Pods that counts have been about all the time.
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    if (!Ledger(node).has_counts()) continue;
    Ledger(node).ObserveCounts(*Node(node).counts);
    MarkDirty(node);
  }
  Publish();
}

Fleet::ReserveResult FleetImpl::Reserve(std::string_view node, std::string_view uid,
                                        std::string_view pod_name, const policy::Demand& demand,
                                        std::int32_t priority) {
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
  result.judgement = JudgeOnNode(*Node(index).state, demand, nullptr);
  if (!result.judgement.fits()) return result;
  const NodeEntry& entry = Node(index);
  if (entry.nominees != nullptr &&
      !entry.nominees->LeavesRoom(*entry.state, uid, priority, demand)) {
    result.judgement.reason = policy::Reason::kKeptForNominee;
    return result;
  }
  PodEntry& pod = NewEntry(key, std::string(pod_name), index);
  pod.demand = demands_.Intern(demand);
  pod.reserved = true;
  ++reservations_;
  NodeLedger& ledger = Ledger(index);
  ledger.Add(pod);
  result.placement =
      PlacementJson(*ledger.topology(), demand, result.judgement.admission, ledger.HeldBy(pod));
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

absl::StatusOr<std::unique_ptr<Fleet>> Fleet::FromFile(const FleetFile& file,
                                                       const api::ResourceClasses& classes,
                                                       Options options) {
  auto fleet = std::make_unique<FleetImpl>(classes, std::move(options), /*from_reports=*/false);
  if (absl::Status status = fleet->Load(file); !status.ok()) return status;
  return absl::StatusOr<std::unique_ptr<Fleet>>(std::move(fleet));
}

std::unique_ptr<Fleet> Fleet::FromReports(const api::ResourceClasses& classes, Options options) {
  return std::make_unique<FleetImpl>(classes, std::move(options), /*from_reports=*/true);
}

}  // namespace numafit::cache
