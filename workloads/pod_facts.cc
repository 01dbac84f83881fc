#include "workloads/pod_facts.h"

#include <utility>

#include "absl/status/statusor.h"
#include "cache/pod_status.h"

namespace numafit::workloads {
namespace {

constexpr std::string_view kSliceAnnotation = "kueue.x-k8s.io/workload-slice-name";
constexpr std::string_view kWorkloadAnnotation = "kueue.x-k8s.io/workload";
constexpr std::string_view kPrebuilt = "kueue.x-k8s.io/prebuilt-workload-name";
constexpr std::string_view kGroup = "kueue.x-k8s.io/pod-group-name";
constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
constexpr std::string_view kRoleHash = "kueue.x-k8s.io/role-hash";
constexpr std::string_view kHostname = "kubernetes.io/hostname";

std::string Find(const api::StringMap& map, std::string_view key) {
  const auto found = map.find(key);
  return found == map.end() ? std::string() : found->second;
}

// From Kueue 0.18 on names are annotations; before they were labels of the same keys.
std::string AnnotationOrLabel(const api::ObjectMeta& meta, std::string_view key) {
  std::string value = Find(meta.annotations, key);
  return value.empty() ? Find(meta.labels, key) : value;
}

const api::PodCondition* Scheduled(const api::Pod& pod) {
  for (const api::PodCondition& condition : pod.status.conditions) {
    if (condition.type == "PodScheduled") return &condition;
  }
  return nullptr;
}

PodState StateOf(const api::Pod& pod) {
  if (cache::RefusedAtAdmission(pod)) return PodState::kRefused;
  if (pod.IsTerminal() || pod.metadata.deletion_time != 0) return PodState::kEnded;
  if (!pod.node_name.empty()) return PodState::kPlaced;
  // The condition lags behind the gates: it says SchedulingGated until a scheduler has tried.
  if (!pod.scheduling_gates.empty()) return PodState::kGated;
  if (!pod.status.nominated_node_name.empty()) return PodState::kNominated;
  const api::PodCondition* const condition = Scheduled(pod);
  if (condition == nullptr || condition->status != "False") return PodState::kUntried;
  if (condition->reason == "Unschedulable") return PodState::kUnschedulable;
  if (condition->reason == "SchedulerError") return PodState::kSchedulerError;
  return PodState::kUntried;
}

}  // namespace

std::string_view PodStateName(PodState state) {
  switch (state) {
    case PodState::kGated:
      return "gated";
    case PodState::kUntried:
      return "untried";
    case PodState::kUnschedulable:
      return "unschedulable";
    case PodState::kSchedulerError:
      return "scheduler-error";
    case PodState::kNominated:
      return "nominated";
    case PodState::kPlaced:
      return "placed";
    case PodState::kRefused:
      return "refused";
    case PodState::kEnded:
      return "ended";
  }
  return "";
}

PodFacts FactsOf(const api::Pod& pod, const api::ResourceClasses& classes,
                 const cache::DemandOptions& options) {
  PodFacts facts;
  facts.uid = pod.metadata.uid;
  facts.namespace_ = pod.metadata.namespace_;
  facts.name = pod.metadata.name;
  facts.creation_time = pod.metadata.creation_time;
  facts.state = StateOf(pod);
  facts.node = pod.node_name.empty() ? pod.status.nominated_node_name : pod.node_name;
  facts.pinned_node = Find(pod.node_selector, kHostname);
  facts.slice = Find(pod.metadata.annotations, kSliceAnnotation);
  facts.workload = Find(pod.metadata.annotations, kWorkloadAnnotation);
  facts.group = AnnotationOrLabel(pod.metadata, kPrebuilt);
  if (facts.group.empty()) facts.group = AnnotationOrLabel(pod.metadata, kGroup);
  facts.pod_set = Find(pod.metadata.labels, kPodSetLabel);
  if (facts.pod_set.empty()) facts.pod_set = Find(pod.metadata.annotations, kRoleHash);
  // A plain Pod's Workload is owned by the Pod.
  facts.owners.push_back(pod.metadata.uid);
  for (const api::OwnerReference& owner : pod.metadata.owners) {
    facts.owners.push_back(owner.uid);
    if (owner.controller) facts.controller = owner;
  }

  const bool unschedulable =
      facts.state == PodState::kUnschedulable || facts.state == PodState::kSchedulerError;
  if (unschedulable) facts.message = Scheduled(pod)->message;
  if (facts.state == PodState::kRefused) {
    facts.message = pod.status.reason + ": " + pod.status.message;
  }
  if (unschedulable || facts.state == PodState::kRefused) {
    absl::StatusOr<policy::Demand> demand = cache::DemandFromPod(pod, classes, options);
    if (demand.ok()) facts.demand = std::make_shared<const policy::Demand>(*std::move(demand));
  }
  return facts;
}

}  // namespace numafit::workloads
