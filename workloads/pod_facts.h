// What a Pod says about the Workload that it belongs to, and about how far it has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/objects.h"
#include "api/resource_class.h"
#include "cache/demand.h"
#include "policy/demand.h"

namespace numafit::workloads {

// In the order in which a Pod goes through them (kueue.md 5).
enum class PodState {
  kGated,           // somebody's scheduling gate holds it back
  kUntried,         // no scheduler has looked at it yet, or has since it was ungated
  kUnschedulable,   // tried: no node
  kSchedulerError,  // tried: the scheduler, or an extender of it, failed
  kNominated,       // a node is being cleared for it
  kPlaced,          // it has a node
  kRefused,         // its kubelet refused it; it will never run
  kEnded,           // it ran, or is being deleted
};
inline constexpr int kPodStates = 8;
// "gated", "scheduler-error": the label in metrics and JSON.
[[nodiscard]] std::string_view PodStateName(PodState state);

// A plain value.
struct PodFacts {
  std::string uid;
  std::string namespace_;
  std::string name;
  PodState state = PodState::kUntried;
  // Of kUnschedulable and kSchedulerError what the scheduler said, of kRefused what the kubelet
  // said: "TopologyAffinityError: …".
  std::string message;
  std::string node;         // that it has, had, or is nominated to
  std::string pinned_node;  // the only node that its node selector allows (kubernetes.io/hostname)
  std::int64_t creation_time = 0;
  // Only of those that wait for a node or were refused: what they ask for.
  std::shared_ptr<const policy::Demand> demand;

  // --- what links it to its Workload, in this order (kueue.md 2) ---
  std::string slice;     // annotation kueue.x-k8s.io/workload-slice-name
  std::string workload;  // annotation kueue.x-k8s.io/workload
  std::string group;  // …/prebuilt-workload-name or …/pod-group-name, annotation before label
  std::vector<std::string> owners;                // uids: its own, and those of its owners
  std::optional<api::OwnerReference> controller;  // that of the owners which made it
  std::string pod_set;  // label kueue.x-k8s.io/podset; else annotation …/role-hash
};

// `classes` and `options` are those by which the extender reads Pods.
PodFacts FactsOf(const api::Pod& pod, const api::ResourceClasses& classes,
                 const cache::DemandOptions& options);

}  // namespace numafit::workloads
