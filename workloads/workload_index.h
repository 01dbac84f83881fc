// Kueue's Workloads and the Pods that belong to them.
//
// A Workload's Pods are found by what Kueue writes on them, else by their owners (kueue.md 2). A
// Pod belongs to one Workload at most, so that none is counted twice.
//
// What is counted is remembered: news of a Pod costs a look at its own Workload, news of a Workload
// one at the Pods that may be its. Per Pod that has a node, or no scheduler has tried, some 300
// bytes are kept.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "api/workload.h"
#include "cache/demand.h"
#include "workloads/owner_chain.h"
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

// What was admitted of a PodSet; null: nothing.
[[nodiscard]] const api::PodSetAssignment* AssignmentOf(const api::Workload& workload,
                                                        std::string_view pod_set);
// How many Pods of it ought to exist: those admitted (absent: all) less those whose quota has been
// given back.
[[nodiscard]] int ExpectedPods(const api::Workload& workload, const api::PodSet& set);

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
  // There are Pods in its namespace whose owners have still to be read: they may be its. Filled by
  // WorkloadIndex::OwnersToRead.
  bool has_unread_owners = false;

  [[nodiscard]] std::string FullName() const { return namespace_ + "/" + name; }
  [[nodiscard]] int In(PodState state) const { return pods[static_cast<std::size_t>(state)]; }
};

// Pods of one PodSet that have no node yet and may go to the same nodes.
struct PodsToPlace {
  std::string pod_set;
  std::shared_ptr<const policy::Demand> demand;  // null: it cannot be read, see `problem`
  std::string problem;
  int pods = 0;
  // Node labels: of the template's node selector and of the topology assignment.
  api::StringMap node_selector;
  // Whose node labels come on top, each once.
  std::vector<std::string> flavors;
};

// A Workload that holds quota and is meant to run here: it is admitted, or waits for its checks.
struct QuotaHolder {
  std::string namespace_;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string cluster_queue;
  std::int32_t priority = 0;
  std::int64_t quota_since = 0;  // seconds since the epoch
  bool admitted = false;
  std::vector<api::AdmissionCheckState> checks;
  // Those that ask for devices, by PodSet. Of an admitted one without the Pods that have a node.
  std::vector<PodsToPlace> to_place;

  [[nodiscard]] std::string FullName() const { return namespace_ + "/" + name; }
};

struct QuotaUse;  // workloads/quota.h

// Not thread-safe, not even its const functions.
class WorkloadIndex {
 public:
  // `classes` and `options` are those by which the extender reads Pods.
  explicit WorkloadIndex(api::ResourceClasses classes, cache::DemandOptions options = {});
  WorkloadIndex(WorkloadIndex&&) noexcept;
  ~WorkloadIndex();

  void ReplaceWorkloads(std::vector<api::Workload> workloads);
  void UpsertWorkload(api::Workload workload);
  void DeleteWorkload(std::string_view uid);
  void ReplacePods(std::vector<PodFacts> pods);
  void UpsertPod(PodFacts pod);
  void DeletePod(std::string_view uid);

  [[nodiscard]] std::size_t workloads() const { return workloads_.size(); }
  [[nodiscard]] std::size_t pods() const { return pods_.size(); }

  // Changes whenever Statuses() or QuotaHolders() may say something else. Begins at 0.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // Of all Workloads, by namespace and name.
  [[nodiscard]] std::vector<WorkloadStatus> Statuses() const;
  // By namespace and name.
  [[nodiscard]] std::vector<QuotaHolder> QuotaHolders() const;
  // Of every PodSet with accelerators that quota is reserved for, or was until it ended; those that
  // are alike may share an entry. In no order.
  [[nodiscard]] std::vector<QuotaUse> QuotaUses() const;
  // The uid of the Workload that the Pod belongs to; empty: none.
  [[nodiscard]] std::string WorkloadOf(std::string_view pod_uid) const;

  // What to read to find the Workloads of Pods that nothing leads to one: at most so many, first
  // those of Pods that wait or were refused. Only of Pods in a namespace where an admitted Workload
  // lacks some, as of the last Statuses(); says in `statuses`, which are those, for which
  // namespaces there is anything that was never answered. `now`: seconds since the epoch.
  [[nodiscard]] std::vector<OwnerQuestion> OwnersToRead(
      std::size_t most, std::int64_t now, std::vector<WorkloadStatus>* statuses) const;
  // The answer, as OwnerChains::Learn.
  void LearnOwner(const OwnerQuestion& question, std::optional<api::OwnerReference> controller,
                  std::int64_t now);

 private:
  struct Entry;
  struct Member;
  // What leads from Pods to Workloads, and who is at its ends. There while somebody is.
  struct Link {
    std::vector<Entry*> workloads;
    absl::flat_hash_set<Member*> pods;
    // Of an owner that is the controller of some of them: what they call it.
    std::unique_ptr<const api::OwnerReference> controller;
  };
  // By what it is, see the functions that make keys. Addresses of its elements stay.
  using Links = std::unordered_map<std::string, Link>;
  using LinkNode = Links::value_type;

  struct Entry {
    api::Workload workload;
    Phase phase = Phase::kPending;
    std::int64_t admitted_since = 0;
    std::int64_t accelerators = 0;
    std::vector<PodsToPlace> kinds;  // one per PodSet: what its Pods ask for
    std::vector<LinkNode*> links;
    absl::flat_hash_set<const Member*> members;  // its Pods
    // What StatusOf says; empty: not asked since something changed.
    std::optional<WorkloadStatus> status;
  };
  // What there is to say of a Pod that waits for a node or was refused.
  struct Trouble {
    std::string name;
    std::string message;
    std::string pinned_node;
    std::shared_ptr<const policy::Demand> demand;
    friend bool operator==(const Trouble&, const Trouble&) = default;
  };
  // A Pod, reduced to what is counted.
  struct Member {
    std::string uid;
    std::string namespace_;
    std::string pod_set;
    std::string host;  // of one with a node: what it is pinned to
    PodState state = PodState::kUntried;
    std::int64_t creation_time = 0;
    std::unique_ptr<const Trouble> trouble;
    // Names first, then owners, but for itself, then those above its controller; each in the order
    // in which they count.
    std::vector<LinkNode*> links;
    std::size_t names = 0;
    LinkNode* controller = nullptr;  // one of links
    Entry* workload = nullptr;
  };

  LinkNode* LinkOf(std::string key);
  void Drop(LinkNode* link);
  void LinkPod(Member& pod, PodFacts& facts);
  void AddLink(Member& pod, std::string key);
  void LinkAbove(Member& pod);
  void UnlinkPod(Member& pod);
  void LinkWorkload(Entry& entry);
  void UnlinkWorkload(Entry& entry);
  [[nodiscard]] static Entry* Best(const Link& link);
  [[nodiscard]] Entry* Find(const Member& pod) const;
  // Gives the Pod to the Workload that it belongs to now. Not changed in itself it matters only
  // where that is another one.
  void Resolve(Member& pod, bool pod_changed);
  void Touch(Entry* entry);
  [[nodiscard]] std::shared_ptr<const policy::Demand> Shared(
      std::shared_ptr<const policy::Demand> demand);
  [[nodiscard]] static WorkloadStatus StatusOf(const Entry& entry);
  [[nodiscard]] std::int64_t AcceleratorsOf(const api::Workload& workload) const;
  [[nodiscard]] PodsToPlace KindOf(const api::Workload& workload, const api::PodSet& set) const;

  const api::ResourceClasses classes_;
  const cache::DemandOptions options_;
  absl::flat_hash_map<std::string, std::unique_ptr<Entry>> workloads_;   // by uid
  absl::flat_hash_map<std::string_view, std::unique_ptr<Member>> pods_;  // by Member::uid
  Links links_;
  OwnerChains chains_;
  // Demands of Pods by their fingerprints: those of a Workload are mostly alike.
  absl::flat_hash_map<std::string, std::shared_ptr<const policy::Demand>> shapes_;
  std::size_t most_shapes_ = 0;  // then those that nobody has any more are looked for
  std::uint64_t version_ = 0;
  mutable std::vector<Entry*> by_name_;  // workloads_ in the order of Statuses(); empty: not sorted
};

}  // namespace numafit::workloads
