// Kueue's Workloads and the Pods that belong to them.
//
// A Workload's Pods are found by what Kueue writes on them, else by their owners (kueue.md 2). A
// Pod belongs to one Workload at most, so that none is counted twice.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/workload.h"
#include "workloads/pod_facts.h"

namespace numafit::workloads {

// Where a Workload stands. Only kAdmitted ones have Pods that ought to run.
enum class Phase {
  kPending,  // no quota, or checks that are not ready: Kueue is waiting
  kAdmitted,
  kEvicted,  // its Pods are being stopped, or it waits for its next turn
  kFinished,
  kElsewhere,  // runs in another cluster (MultiKueue)
  kInactive,   // switched off, or being deleted
};
[[nodiscard]] std::string_view PhaseName(Phase phase);
[[nodiscard]] Phase PhaseOf(const api::Workload& workload);

// Pods that wait for a node, or were refused, and are alike: of one PodSet, with one demand, state
// and node selector.
struct Blocked {
  std::string pod_set;
  PodState state = PodState::kUnschedulable;
  std::shared_ptr<const policy::Demand> demand;  // null: it cannot be read
  std::string pinned_node;
  bool pinned_by_topology = false;  // by Kueue's topology-aware scheduling
  int pods = 0;
  // Since when the first of them could have run: its creation or the admission, whichever is later;
  // seconds since the epoch.
  std::int64_t since = 0;
  std::string example;  // one of them
  std::string message;  // what its scheduler or kubelet said
};

struct WorkloadStatus {
  std::string namespace_;
  std::string name;
  std::string uid;
  std::string cluster_queue;
  std::string queue;
  Phase phase = Phase::kPending;
  // When it was admitted, seconds since the epoch: together with the uid the name of this admission
  // cycle.
  std::int64_t admitted_since = 0;
  // Pods that ought to exist: admitted ones less those whose quota has been given back.
  int expected = 0;
  // Pods that exist, by PodState. Of those that ended only the ones that ended in this cycle.
  std::array<int, kPodStates> pods{};
  // Expected and not there (their controller has not made them, or cannot).
  int missing = 0;
  // Accelerators that its quota stands for.
  std::int64_t accelerators = 0;
  // By PodSet, then by the example's name.
  std::vector<Blocked> blocked;
  // Kueue's own condition PodsScheduled, where this Kueue has it.
  std::optional<bool> pods_scheduled;
  // Somebody makes its Pods: one without an owner has none, or makes them himself.
  bool has_owner = false;
  // Nodes are being made for it (ProvisioningRequest), or exchanged.
  bool waits_for_nodes = false;

  [[nodiscard]] std::string FullName() const { return namespace_ + "/" + name; }
  [[nodiscard]] int In(PodState state) const { return pods[static_cast<std::size_t>(state)]; }
};

// Not thread-safe.
class WorkloadIndex {
 public:
  explicit WorkloadIndex(api::ResourceClasses classes) : classes_(std::move(classes)) {}

  void ReplaceWorkloads(std::vector<api::Workload> workloads);
  void UpsertWorkload(api::Workload workload);
  void DeleteWorkload(std::string_view uid);
  void ReplacePods(std::vector<PodFacts> pods);
  void UpsertPod(PodFacts pod);
  void DeletePod(std::string_view uid);

  [[nodiscard]] std::size_t workloads() const { return workloads_.size(); }
  [[nodiscard]] std::size_t pods() const { return pods_.size(); }

  // Of all Workloads, by namespace and name.
  [[nodiscard]] std::vector<WorkloadStatus> Statuses() const;
  // The uid of the Workload that the Pod belongs to; empty: none.
  [[nodiscard]] std::string WorkloadOf(std::string_view pod_uid) const;

 private:
  struct Entry {
    api::Workload workload;
    Phase phase = Phase::kPending;
    std::int64_t admitted_since = 0;
    std::int64_t accelerators = 0;
  };
  void Link(const Entry& entry, bool add);
  [[nodiscard]] const Entry* Best(const std::vector<std::string>* uids) const;
  [[nodiscard]] const Entry* Resolve(const PodFacts& pod) const;
  [[nodiscard]] WorkloadStatus StatusOf(const Entry& entry,
                                        const std::vector<const PodFacts*>& members) const;
  [[nodiscard]] std::int64_t AcceleratorsOf(const api::Workload& workload) const;

  using Links = absl::flat_hash_map<std::string, std::vector<std::string>>;  // to Workloads' uids

  const api::ResourceClasses classes_;
  absl::flat_hash_map<std::string, std::unique_ptr<const Entry>> workloads_;  // by uid
  absl::flat_hash_map<std::string, PodFacts> pods_;                           // by uid
  Links by_name_;                                                             // namespace/name
  Links by_slice_;  // namespace/name of the first Workload of its chain
  Links by_owner_;  // owner's uid
};

}  // namespace numafit::workloads
