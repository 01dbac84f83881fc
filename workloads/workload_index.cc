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

// The keys of links. A name counts within its namespace, and so does an owner: its Pods and its
// Workload are in the same.
std::string NameKey(std::string_view namespace_name, std::string_view name) {
  return "n/" + Path(namespace_name, name);
}
// By the name of the first Workload of its chain of slices.
std::string SliceKey(std::string_view namespace_name, std::string_view name) {
  return "s/" + Path(namespace_name, name);
}
std::string OwnerKey(std::string_view namespace_name, std::string_view uid) {
  return "o/" + Path(namespace_name, uid);
}

bool IsBlocked(PodState state) {
  return state == PodState::kUnschedulable || state == PodState::kSchedulerError ||
         state == PodState::kRefused;
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

const api::PodSetAssignment* AssignmentOf(const api::Workload& workload, std::string_view pod_set) {
  for (const api::PodSetAssignment& assignment : workload.assignments) {
    if (assignment.name == pod_set) return &assignment;
  }
  return nullptr;
}

int ExpectedPods(const api::Workload& workload, const api::PodSet& set) {
  int count = set.count;
  const api::PodSetAssignment* const assignment = AssignmentOf(workload, set.name);
  if (assignment != nullptr && assignment->count.has_value()) count = *assignment->count;
  const auto reclaimable = workload.reclaimable.find(set.name);
  if (reclaimable != workload.reclaimable.end()) count -= reclaimable->second;
  return std::max(0, count);
}

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

WorkloadIndex::WorkloadIndex(api::ResourceClasses classes, cache::DemandOptions options)
    : classes_(std::move(classes)), options_(std::move(options)) {}
WorkloadIndex::WorkloadIndex(WorkloadIndex&&) noexcept = default;
WorkloadIndex::~WorkloadIndex() = default;

WorkloadIndex::LinkNode* WorkloadIndex::LinkOf(std::string key) {
  return &*links_.try_emplace(std::move(key)).first;
}

void WorkloadIndex::Drop(LinkNode* link) {
  if (!link->second.workloads.empty() || !link->second.pods.empty()) return;
  links_.erase(links_.find(link->first));
}

void WorkloadIndex::AddLink(Member& pod, std::string key) {
  LinkNode* const link = LinkOf(std::move(key));
  if (link->second.pods.insert(&pod).second) pod.links.push_back(link);
}

void WorkloadIndex::LinkPod(Member& pod, PodFacts& facts) {
  if (!facts.slice.empty()) AddLink(pod, SliceKey(facts.namespace_, facts.slice));
  for (const std::string* name : {&facts.workload, &facts.group}) {
    if (!name->empty()) AddLink(pod, NameKey(facts.namespace_, *name));
  }
  pod.names = pod.links.size();
  for (const std::string& owner : facts.owners) {
    // Itself is looked up when it matters: few Pods own a Workload.
    if (!owner.empty() && owner != facts.uid) AddLink(pod, OwnerKey(facts.namespace_, owner));
  }
  pod.controller = nullptr;
  const bool has_controller = facts.controller.has_value() && !facts.controller->uid.empty();
  if (has_controller && facts.controller->uid != facts.uid) {
    pod.controller = LinkOf(OwnerKey(facts.namespace_, facts.controller->uid));
    auto& controller = pod.controller->second.controller;
    if (controller == nullptr || *controller != *facts.controller) {
      controller = std::make_unique<const api::OwnerReference>(*std::move(facts.controller));
    }
    LinkAbove(pod);
  }
  pod.links.shrink_to_fit();
}

void WorkloadIndex::LinkAbove(Member& pod) {
  for (const std::string& uid : chains_.Above(*pod.controller->second.controller)) {
    AddLink(pod, OwnerKey(pod.namespace_, uid));
  }
}

void WorkloadIndex::UnlinkPod(Member& pod) {
  for (LinkNode* link : pod.links) {
    link->second.pods.erase(&pod);
    Drop(link);
  }
  pod.links.clear();
  pod.controller = nullptr;
}

void WorkloadIndex::LinkWorkload(Entry& entry) {
  const api::ObjectMeta& meta = entry.workload.metadata;
  entry.links = {LinkOf(NameKey(meta.namespace_, meta.name)),
                 LinkOf(SliceKey(meta.namespace_, SliceOf(entry.workload)))};
  const std::set<std::string> owners = OwnersOf(entry.workload);
  for (const std::string& owner : owners) {
    entry.links.push_back(LinkOf(OwnerKey(meta.namespace_, owner)));
  }
  for (LinkNode* link : entry.links) link->second.workloads.push_back(&entry);
  for (const LinkNode* link : entry.links) {
    for (Member* pod : link->second.pods) Resolve(*pod, /*pod_changed=*/false);
  }
  for (const std::string& owner : owners) {
    const auto pod = pods_.find(owner);
    if (pod != pods_.end()) Resolve(*pod->second, /*pod_changed=*/false);
  }
}

void WorkloadIndex::UnlinkWorkload(Entry& entry) {
  for (LinkNode* link : entry.links) std::erase(link->second.workloads, &entry);
  // Each is taken out while it is given to another, or to none.
  while (!entry.members.empty()) {
    const auto pod = pods_.find((*entry.members.begin())->uid);
    Resolve(*pod->second, /*pod_changed=*/false);
  }
  for (LinkNode* link : entry.links) Drop(link);
}

void WorkloadIndex::ReplaceWorkloads(std::vector<api::Workload> workloads) {
  absl::flat_hash_set<std::string> listed;
  for (const api::Workload& workload : workloads) listed.insert(workload.metadata.uid);
  std::vector<std::string> gone;
  for (const auto& [uid, entry] : workloads_) {
    if (!listed.contains(uid)) gone.push_back(uid);
  }
  for (const std::string& uid : gone) DeleteWorkload(uid);
  for (api::Workload& workload : workloads) UpsertWorkload(std::move(workload));
}

void WorkloadIndex::UpsertWorkload(api::Workload workload) {
  const std::string uid = workload.metadata.uid;
  if (uid.empty()) return;
  std::unique_ptr<Entry>& slot = workloads_[uid];
  if (slot == nullptr) {
    slot = std::make_unique<Entry>();
    by_name_.clear();
  } else {
    UnlinkWorkload(*slot);
  }
  Entry& entry = *slot;
  entry.phase = PhaseOf(workload);
  const api::WorkloadCondition* const admitted = workload.Find("Admitted");
  entry.admitted_since = admitted == nullptr ? 0 : admitted->since;
  entry.accelerators = AcceleratorsOf(workload);
  entry.kinds.clear();
  for (const api::PodSet& set : workload.pod_sets) {
    PodsToPlace& kind = entry.kinds.emplace_back(KindOf(workload, set));
    kind.demand = Shared(std::move(kind.demand));
  }
  entry.workload = std::move(workload);
  LinkWorkload(entry);
  Touch(&entry);
}

void WorkloadIndex::DeleteWorkload(std::string_view uid) {
  const auto found = workloads_.find(std::string(uid));
  if (found == workloads_.end()) return;
  UnlinkWorkload(*found->second);
  workloads_.erase(found);
  by_name_.clear();
  ++version_;
}

void WorkloadIndex::ReplacePods(std::vector<PodFacts> pods) {
  absl::flat_hash_set<std::string_view> listed;
  for (const PodFacts& pod : pods) listed.insert(pod.uid);
  std::vector<std::string> gone;
  for (const auto& [uid, pod] : pods_) {
    if (!listed.contains(uid)) gone.emplace_back(uid);
  }
  for (const std::string& uid : gone) DeletePod(uid);
  for (PodFacts& pod : pods) UpsertPod(std::move(pod));
}

void WorkloadIndex::UpsertPod(PodFacts pod) {
  if (pod.uid.empty()) return;
  std::string host = pod.state == PodState::kPlaced ? pod.pinned_node : std::string();
  std::unique_ptr<const Trouble> trouble;
  if (IsBlocked(pod.state)) {
    trouble = std::make_unique<Trouble>(Trouble{.name = std::move(pod.name),
                                                .message = std::move(pod.message),
                                                .pinned_node = std::move(pod.pinned_node),
                                                .demand = Shared(std::move(pod.demand))});
  }
  auto found = pods_.find(pod.uid);
  if (found == pods_.end()) {
    auto made = std::make_unique<Member>();
    made->uid = pod.uid;
    found = pods_.emplace(made->uid, std::move(made)).first;
  }
  Member& member = *found->second;
  const bool is_same = member.state == pod.state && member.creation_time == pod.creation_time &&
                       member.pod_set == pod.pod_set && member.host == host &&
                       (member.trouble == nullptr) == (trouble == nullptr) &&
                       (trouble == nullptr || *member.trouble == *trouble);
  member.namespace_ = pod.namespace_;
  // Before the old links go: what both have stays.
  std::vector<LinkNode*> before = std::exchange(member.links, {});
  for (LinkNode* link : before) link->second.pods.erase(&member);
  LinkPod(member, pod);
  for (LinkNode* link : before) {
    if (std::find(member.links.begin(), member.links.end(), link) == member.links.end()) Drop(link);
  }
  member.pod_set = std::move(pod.pod_set);
  member.host = std::move(host);
  member.state = pod.state;
  member.creation_time = pod.creation_time;
  member.trouble = std::move(trouble);
  Resolve(member, !is_same);
}

void WorkloadIndex::DeletePod(std::string_view uid) {
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  Member& pod = *found->second;
  UnlinkPod(pod);
  if (pod.workload != nullptr) {
    pod.workload->members.erase(&pod);
    Touch(pod.workload);
  }
  pods_.erase(found);
}

void WorkloadIndex::Touch(Entry* entry) {
  if (entry == nullptr) return;
  entry->status.reset();
  ++version_;
}

void WorkloadIndex::Resolve(Member& pod, bool pod_changed) {
  Entry* const entry = Find(pod);
  if (entry == pod.workload) {
    if (pod_changed) Touch(entry);
    return;
  }
  if (pod.workload != nullptr) pod.workload->members.erase(&pod);
  if (entry != nullptr) entry->members.insert(&pod);
  Touch(pod.workload);
  Touch(entry);
  pod.workload = entry;
}

std::shared_ptr<const policy::Demand> WorkloadIndex::Shared(
    std::shared_ptr<const policy::Demand> demand) {
  if (demand == nullptr) return nullptr;
  constexpr std::size_t kAtLeast = 64;
  if (shapes_.size() >= std::max(kAtLeast, most_shapes_)) {
    absl::erase_if(shapes_, [](const auto& shape) { return shape.second.use_count() == 1; });
    most_shapes_ = 2 * shapes_.size();
  }
  return shapes_.try_emplace(demand->Fingerprint(), demand).first->second;
}

// Of several that a link leads to: not finished before finished, with quota before without, the
// newest.
WorkloadIndex::Entry* WorkloadIndex::Best(const Link& link) {
  if (link.workloads.size() == 1) return link.workloads.front();
  Entry* best = nullptr;
  const auto rank = [](const Entry& entry) {
    return std::make_tuple(entry.phase != Phase::kFinished, entry.workload.Is("QuotaReserved"),
                           entry.workload.metadata.creation_time, entry.workload.metadata.uid);
  };
  for (Entry* entry : link.workloads) {
    if (best == nullptr || rank(*entry) > rank(*best)) best = entry;
  }
  return best;
}

WorkloadIndex::Entry* WorkloadIndex::Find(const Member& pod) const {
  const auto first = [&](std::size_t begin, std::size_t end) -> Entry* {
    for (std::size_t i = begin; i < end; ++i) {
      if (Entry* entry = Best(pod.links[i]->second); entry != nullptr) return entry;
    }
    return nullptr;
  };
  if (Entry* entry = first(0, pod.names); entry != nullptr) return entry;
  // A plain Pod's Workload is owned by the Pod.
  const auto own = links_.find(OwnerKey(pod.namespace_, pod.uid));
  if (own != links_.end()) {
    if (Entry* entry = Best(own->second); entry != nullptr) return entry;
  }
  return first(pod.names, pod.links.size());
}

std::string WorkloadIndex::WorkloadOf(std::string_view pod_uid) const {
  const auto found = pods_.find(pod_uid);
  if (found == pods_.end() || found->second->workload == nullptr) return "";
  return found->second->workload->workload.metadata.uid;
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
    sum += each * ExpectedPods(workload, set);
  }
  return sum;
}

WorkloadStatus WorkloadIndex::StatusOf(const Entry& entry) {
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
  for (const api::PodSet& set : workload.pod_sets) status.expected += ExpectedPods(workload, set);

  // Demands that are alike are one object.
  using Kind = std::tuple<std::string_view, PodState, std::string_view, const policy::Demand*>;
  std::map<Kind, Blocked> blocked;
  const std::set<std::string> owners = OwnersOf(workload);
  int alive = 0;
  for (const Member* pod : entry.members) {
    const bool over = pod->state == PodState::kRefused || pod->state == PodState::kEnded;
    // Of an earlier cycle; but Pods that Kueue gates itself are older than their admission.
    const bool earlier = pod->creation_time < entry.admitted_since && !owners.contains(pod->uid);
    if (over && earlier) continue;
    ++status.pods[static_cast<std::size_t>(pod->state)];
    if (!over) ++alive;
    if (pod->trouble == nullptr) continue;
    const Trouble& trouble = *pod->trouble;
    const std::string& pod_set = pod->pod_set.empty() && workload.pod_sets.size() == 1
                                     ? workload.pod_sets.front().name
                                     : pod->pod_set;
    Blocked& kind = blocked[{pod_set, pod->state, trouble.pinned_node, trouble.demand.get()}];
    const std::int64_t since = std::max(entry.admitted_since, pod->creation_time);
    kind.since = kind.pods == 0 ? since : std::min(kind.since, since);
    ++kind.pods;
    if (!kind.example.empty() && kind.example < trouble.name) continue;
    kind.pod_set = pod_set;
    kind.state = pod->state;
    kind.demand = trouble.demand;
    kind.pinned_node = trouble.pinned_node;
    kind.pinned_by_topology = !trouble.pinned_node.empty() && IsPinnedByTopology(workload, pod_set);
    kind.example = trouble.name;
    kind.message = trouble.message;
  }
  for (auto& [key, kind] : blocked) status.blocked.push_back(std::move(kind));
  std::sort(status.blocked.begin(), status.blocked.end(), [](const Blocked& a, const Blocked& b) {
    return std::tie(a.pod_set, a.example) < std::tie(b.pod_set, b.example);
  });
  status.missing = std::max(0, status.expected - alive - status.In(PodState::kEnded));
  return status;
}

std::vector<WorkloadStatus> WorkloadIndex::Statuses() const {
  if (by_name_.empty()) {
    for (const auto& [uid, entry] : workloads_) by_name_.push_back(entry.get());
    std::sort(by_name_.begin(), by_name_.end(), [](const Entry* a, const Entry* b) {
      const api::ObjectMeta& left = a->workload.metadata;
      const api::ObjectMeta& right = b->workload.metadata;
      return std::tie(left.namespace_, left.name, left.uid) <
             std::tie(right.namespace_, right.name, right.uid);
    });
  }
  std::vector<WorkloadStatus> statuses;
  statuses.reserve(by_name_.size());
  for (Entry* entry : by_name_) {
    if (!entry->status.has_value()) entry->status = StatusOf(*entry);
    statuses.push_back(*entry->status);
  }
  return statuses;
}

std::vector<OwnerQuestion> WorkloadIndex::OwnersToRead(
    std::size_t most, std::int64_t now, std::vector<WorkloadStatus>* statuses) const {
  const auto lacks_pods = [](const WorkloadStatus& status) {
    return status.phase == Phase::kAdmitted && status.missing > 0 && status.has_owner;
  };
  absl::flat_hash_set<std::string> lacking;
  for (const WorkloadStatus& status : *statuses) {
    if (lacks_pods(status)) lacking.insert(status.namespace_);
  }
  if (lacking.empty()) return {};
  // By how urgent they are, each once: several controllers may have the same one above them.
  std::map<std::pair<int, std::string>, OwnerQuestion> questions;
  absl::flat_hash_set<std::string> unread;
  for (const auto& [key, link] : links_) {
    if (link.controller == nullptr) continue;
    const Member* lost = nullptr;
    for (const Member* pod : link.pods) {
      const bool is_lost = pod->workload == nullptr && pod->controller != nullptr &&
                           &pod->controller->second == &link && pod->state != PodState::kEnded;
      if (is_lost && (lost == nullptr || pod->trouble != nullptr)) lost = pod;
      if (lost != nullptr && lost->trouble != nullptr) break;
    }
    if (lost == nullptr || !lacking.contains(lost->namespace_)) continue;
    std::optional<OwnerChains::Unread> next = chains_.NextUnread(*link.controller, now);
    if (!next.has_value()) continue;
    if (next->is_new) unread.insert(lost->namespace_);
    const int rank = (next->is_new ? 0 : 2) + (lost->trouble != nullptr ? 0 : 1);
    std::string uid = next->owner.uid;
    questions.try_emplace({rank, std::move(uid)},
                          OwnerQuestion{lost->namespace_, std::move(next->owner)});
  }
  for (WorkloadStatus& status : *statuses) {
    status.has_unread_owners = lacks_pods(status) && unread.contains(status.namespace_);
  }
  std::vector<OwnerQuestion> first;
  for (auto& [rank, question] : questions) {
    if (first.size() == most) break;
    first.push_back(std::move(question));
  }
  return first;
}

void WorkloadIndex::LearnOwner(const OwnerQuestion& question,
                               std::optional<api::OwnerReference> controller, std::int64_t now) {
  const bool is_known = controller.has_value();
  chains_.Learn(question.owner.uid, std::move(controller), now);
  // So that the next question of the chain is asked soon.
  ++version_;
  if (!is_known) return;
  const auto link = links_.find(OwnerKey(question.namespace_, question.owner.uid));
  if (link == links_.end()) return;
  const std::vector<Member*> pods(link->second.pods.begin(), link->second.pods.end());
  for (Member* pod : pods) {
    if (pod->controller == nullptr) continue;
    LinkAbove(*pod);
    Resolve(*pod, /*pod_changed=*/false);
  }
}

}  // namespace numafit::workloads
