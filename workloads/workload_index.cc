#include "workloads/workload_index.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace numafit::workloads {
namespace {

constexpr std::string_view kSliceAnnotation = "kueue.x-k8s.io/workload-slice-name";
constexpr std::string_view kJobUid = "kueue.x-k8s.io/job-uid";
constexpr std::string_view kProvisioning = "autoscaling.x-k8s.io/consume-provisioning-request";
constexpr std::string_view kHostname = "kubernetes.io/hostname";

std::string Path(std::string_view namespace_name, std::string_view name) {
  std::string path(namespace_name);
  path += '/';
  path += name;
  return path;
}

// Everything that is a Workload's owner as far as links go.
std::set<std::string> OwnersOf(const api::Workload& workload) {
  std::set<std::string> owners;
  for (const api::OwnerReference& owner : workload.metadata.owners) owners.insert(owner.uid);
  const auto job = workload.metadata.labels.find(kJobUid);
  if (job != workload.metadata.labels.end()) owners.insert(job->second);
  owners.erase("");
  return owners;
}

std::string SliceOf(const api::Workload& workload) {
  const auto slice = workload.metadata.annotations.find(kSliceAnnotation);
  return slice == workload.metadata.annotations.end() ? workload.metadata.name : slice->second;
}

const api::PodSetAssignment* AssignmentOf(const api::Workload& workload, std::string_view pod_set) {
  for (const api::PodSetAssignment& assignment : workload.assignments) {
    if (assignment.name == pod_set) return &assignment;
  }
  return nullptr;
}

// How many Pods of the set ought to exist.
int ExpectedOf(const api::Workload& workload, const api::PodSet& set) {
  int count = set.count;
  const api::PodSetAssignment* const assignment = AssignmentOf(workload, set.name);
  if (assignment != nullptr && assignment->count.has_value()) count = *assignment->count;
  const auto reclaimable = workload.reclaimable.find(set.name);
  if (reclaimable != workload.reclaimable.end()) count -= reclaimable->second;
  return std::max(0, count);
}

bool WaitsForNodes(const api::Workload& workload) {
  if (workload.has_unhealthy_nodes) return true;
  return std::any_of(
      workload.pod_sets.begin(), workload.pod_sets.end(),
      [](const api::PodSet& set) { return set.pod.metadata.annotations.contains(kProvisioning); });
}

bool IsPinnedByTopology(const api::Workload& workload, std::string_view pod_set) {
  const api::PodSetAssignment* const assignment = AssignmentOf(workload, pod_set);
  return assignment != nullptr && assignment->has_topology && !assignment->levels.empty() &&
         assignment->levels.back() == kHostname;
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "pending";
    case Phase::kAdmitted:
      return "admitted";
    case Phase::kEvicted:
      return "evicted";
    case Phase::kFinished:
      return "finished";
    case Phase::kElsewhere:
      return "elsewhere";
    case Phase::kInactive:
      return "inactive";
  }
  return "";
}

// While it is being evicted a Workload is Admitted and Evicted both (kueue.md 1).
Phase PhaseOf(const api::Workload& workload) {
  if (workload.Is("Finished")) return Phase::kFinished;
  if (!workload.active || workload.metadata.deletion_time != 0) return Phase::kInactive;
  if (workload.Is("Evicted")) return Phase::kEvicted;
  if (!workload.Is("Admitted")) return Phase::kPending;
  return workload.cluster_name.empty() ? Phase::kAdmitted : Phase::kElsewhere;
}

void WorkloadIndex::Link(const Entry& entry, bool add) {
  const api::Workload& workload = entry.workload;
  const std::string& uid = workload.metadata.uid;
  const auto link = [&](Links& links, const std::string& key) {
    if (add) {
      links[key].push_back(uid);
      return;
    }
    const auto found = links.find(key);
    if (found == links.end()) return;
    std::erase(found->second, uid);
    if (found->second.empty()) links.erase(found);
  };
  link(by_name_, workload.FullName());
  link(by_slice_, Path(workload.metadata.namespace_, SliceOf(workload)));
  for (const std::string& owner : OwnersOf(workload)) link(by_owner_, owner);
}

void WorkloadIndex::ReplaceWorkloads(std::vector<api::Workload> workloads) {
  workloads_.clear();
  by_name_.clear();
  by_slice_.clear();
  by_owner_.clear();
  for (api::Workload& workload : workloads) UpsertWorkload(std::move(workload));
}

void WorkloadIndex::UpsertWorkload(api::Workload workload) {
  const std::string uid = workload.metadata.uid;
  if (uid.empty()) return;
  DeleteWorkload(uid);
  auto entry = std::make_unique<Entry>();
  entry->phase = PhaseOf(workload);
  if (const api::WorkloadCondition* admitted = workload.Find("Admitted"); admitted != nullptr) {
    entry->admitted_since = admitted->since;
  }
  entry->accelerators = AcceleratorsOf(workload);
  entry->workload = std::move(workload);
  Link(*entry, true);
  workloads_[uid] = std::move(entry);
}

void WorkloadIndex::DeleteWorkload(std::string_view uid) {
  const auto found = workloads_.find(std::string(uid));
  if (found == workloads_.end()) return;
  Link(*found->second, false);
  workloads_.erase(found);
}

void WorkloadIndex::ReplacePods(std::vector<PodFacts> pods) {
  pods_.clear();
  for (PodFacts& pod : pods) UpsertPod(std::move(pod));
}

void WorkloadIndex::UpsertPod(PodFacts pod) {
  if (pod.uid.empty()) return;
  std::string uid = pod.uid;
  pods_.insert_or_assign(std::move(uid), std::move(pod));
}

void WorkloadIndex::DeletePod(std::string_view uid) {
  const auto found = pods_.find(std::string(uid));
  if (found != pods_.end()) pods_.erase(found);
}

// Of several that a link leads to: not finished before finished, with quota before without, the
// newest.
const WorkloadIndex::Entry* WorkloadIndex::Best(const std::vector<std::string>* uids) const {
  const Entry* best = nullptr;
  const auto rank = [](const Entry& entry) {
    return std::make_tuple(entry.phase != Phase::kFinished, entry.workload.Is("QuotaReserved"),
                           entry.workload.metadata.creation_time, entry.workload.metadata.uid);
  };
  for (const std::string& uid : *uids) {
    const Entry& entry = *workloads_.find(std::string(uid))->second;
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  }
  return best;
}

const WorkloadIndex::Entry* WorkloadIndex::Resolve(const PodFacts& pod) const {
  const auto by = [this](const Links& links, const std::string& key) -> const Entry* {
    const auto found = links.find(key);
    return found == links.end() ? nullptr : Best(&found->second);
  };
  const auto named = [&](const Links& links, const std::string& name) {
    return name.empty() ? nullptr : by(links, Path(pod.namespace_, name));
  };
  if (const Entry* entry = named(by_slice_, pod.slice); entry != nullptr) return entry;
  for (const std::string& name : {pod.workload, pod.group}) {
    if (const Entry* entry = named(by_name_, name); entry != nullptr) return entry;
  }
  for (const std::string& owner : pod.owners) {
    const Entry* const entry = by(by_owner_, owner);
    if (entry != nullptr && entry->workload.metadata.namespace_ == pod.namespace_) return entry;
  }
  return nullptr;
}

std::string WorkloadIndex::WorkloadOf(std::string_view pod_uid) const {
  const auto found = pods_.find(std::string(pod_uid));
  if (found == pods_.end()) return "";
  const Entry* const entry = Resolve(found->second);
  return entry == nullptr ? std::string() : entry->workload.metadata.uid;
}

std::int64_t WorkloadIndex::AcceleratorsOf(const api::Workload& workload) const {
  std::int64_t sum = 0;
  for (const api::PodSet& set : workload.pod_sets) {
    // Limits: a template has no defaulted requests, and for devices the two are equal.
    std::int64_t each = 0;
    for (const api::Container& container : set.pod.containers) {
      for (const auto& [resource, quantity] : container.resources.limits) {
        if (classes_.Classify(resource) != api::ResourceKind::kAccelerator) continue;
        each += quantity.value();
      }
    }
    sum += each * ExpectedOf(workload, set);
  }
  return sum;
}

WorkloadStatus WorkloadIndex::StatusOf(const Entry& entry,
                                       const std::vector<const PodFacts*>& members) const {
  const api::Workload& workload = entry.workload;
  WorkloadStatus status;
  status.namespace_ = workload.metadata.namespace_;
  status.name = workload.metadata.name;
  status.uid = workload.metadata.uid;
  status.cluster_queue = workload.cluster_queue;
  status.queue = workload.queue_name;
  status.phase = entry.phase;
  status.admitted_since = entry.admitted_since;
  status.accelerators = entry.accelerators;
  status.has_owner = !workload.metadata.owners.empty();
  status.waits_for_nodes = WaitsForNodes(workload);
  if (const auto* scheduled = workload.Find("PodsScheduled"); scheduled != nullptr) {
    status.pods_scheduled = scheduled->is_true;
  }
  for (const api::PodSet& set : workload.pod_sets) status.expected += ExpectedOf(workload, set);

  using Kind = std::tuple<std::string, PodState, std::string, std::string>;
  std::map<Kind, Blocked> blocked;
  const std::set<std::string> owners = OwnersOf(workload);
  int alive = 0;
  for (const PodFacts* pod : members) {
    const bool over = pod->state == PodState::kRefused || pod->state == PodState::kEnded;
    // Of an earlier cycle; but Pods that Kueue gates itself are older than their admission.
    const bool earlier = pod->creation_time < entry.admitted_since && !owners.contains(pod->uid);
    if (over && earlier) continue;
    ++status.pods[static_cast<std::size_t>(pod->state)];
    if (!over) ++alive;
    const bool is_blocked = pod->state == PodState::kUnschedulable ||
                            pod->state == PodState::kSchedulerError ||
                            pod->state == PodState::kRefused;
    if (!is_blocked) continue;
    const std::string pod_set = pod->pod_set.empty() && workload.pod_sets.size() == 1
                                    ? workload.pod_sets.front().name
                                    : pod->pod_set;
    const std::string shape = pod->demand == nullptr ? "" : pod->demand->Fingerprint();
    Blocked& kind = blocked[{pod_set, pod->state, pod->pinned_node, shape}];
    const std::int64_t since = std::max(entry.admitted_since, pod->creation_time);
    kind.since = kind.pods == 0 ? since : std::min(kind.since, since);
    ++kind.pods;
    if (!kind.example.empty() && kind.example < pod->name) continue;
    kind.pod_set = pod_set;
    kind.state = pod->state;
    kind.demand = pod->demand;
    kind.pinned_node = pod->pinned_node;
    kind.pinned_by_topology = !pod->pinned_node.empty() && IsPinnedByTopology(workload, pod_set);
    kind.example = pod->name;
    kind.message = pod->message;
  }
  for (auto& [key, kind] : blocked) status.blocked.push_back(std::move(kind));
  status.missing = std::max(0, status.expected - alive - status.In(PodState::kEnded));
  return status;
}

std::vector<WorkloadStatus> WorkloadIndex::Statuses() const {
  absl::flat_hash_map<const Entry*, std::vector<const PodFacts*>> members;
  for (const auto& [uid, pod] : pods_) {
    if (const Entry* entry = Resolve(pod); entry != nullptr) members[entry].push_back(&pod);
  }
  std::vector<WorkloadStatus> statuses;
  statuses.reserve(workloads_.size());
  for (const auto& [uid, entry] : workloads_) {
    statuses.push_back(StatusOf(*entry, members[entry.get()]));
  }
  std::sort(statuses.begin(), statuses.end(), [](const auto& a, const auto& b) {
    return std::tie(a.namespace_, a.name) < std::tie(b.namespace_, b.name);
  });
  return statuses;
}

}  // namespace numafit::workloads
