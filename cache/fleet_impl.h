// How the Fleet is made. Only for cache/fleet*.cc; the contract is in cache/fleet.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/demand_table.h"
#include "cache/fleet.h"
#include "cache/node_ledger.h"
#include "cache/nominees.h"
#include "cache/report.h"
#include "cache/state_table.h"

namespace numafit::cache {

inline constexpr int kNoNode = -1;

using PodEntry = LedgerPod;

struct NodeEntry {
  NodeLedger ledger;
  std::shared_ptr<const NodeState> state;
  int contradictions = 0;
  struct CoolDown {
    std::string shape;  // policy::Demand::Fingerprint
    std::int64_t until_ms = 0;
  };
  std::vector<CoolDown> cool_downs;
  std::shared_ptr<const Nominees> nominees;  // null: it has none
  bool nominees_changed = false;             // since readers saw them
  std::unique_ptr<CountedNode> counts;       // used while there is no report; null: there are none
  // For people (NodeView).
  std::shared_ptr<const ReportFacts> facts;
  std::string report_error;
  std::optional<std::int64_t> clock_ahead_seconds;
  std::optional<std::int64_t> agent_lost_at_ms;
  bool agent_was_ready = false;
  bool stale = false;
  bool kubelet_away = false;  // said the last report
  bool dirty = false;
};

// Lock order: write_, then mutex_. Everything that changes runs under write_, so that what takes
// time (admissions) keeps no reader waiting; mutex_ is held exclusively only to publish.
class FleetImpl final : public Fleet {
 public:
  FleetImpl(const api::ResourceClasses& classes, Options options, bool from_reports);

  absl::Status Load(const FleetFile& file);

  ReportNews UpsertReport(const std::string& node,
                          const v1alpha1::NodeReportStatus& report) override;
  void RefuseReport(const std::string& node, const std::string& error) override;
  void DeleteReport(const std::string& node) override;
  std::string UpsertCounts(const api::NodeResourceTopology& counts,
                           const NodeFacts& facts) override;
  void DeleteCounts(const std::string& node) override;
  void SetAgentReady(const std::string& node, bool is_ready) override;

  void ReplacePods(const std::vector<api::Pod>& pods) override;
  bool UpsertPod(const api::Pod& pod) override;
  void DeletePod(const api::Pod& pod) override;
  void EndCoolDowns() override;
  void ReplaceNominees(const std::vector<api::Pod>& pods) override;
  void UpsertNominee(const api::Pod& pod) override;
  void DeleteNominee(std::string_view uid) override;

  ReserveResult Reserve(std::string_view node, std::string_view uid, std::string_view pod_name,
                        const policy::Demand& demand, std::int32_t priority) override;
  void Commit(std::string_view uid) override;
  void Release(std::string_view uid) override;
  policy::Judgement JudgeWithout(std::string_view node, const std::vector<std::string>& uids,
                                 const policy::Demand& demand) const override;
  std::vector<Victim> VictimsOn(std::string_view node) const override;
  std::unique_ptr<WhatIf> MakeWhatIf(const policy::ScoreStrategy* strategy) const override;

  // For WhatIf. A valid index; takes write_.
  struct NodeCopy {
    std::optional<PossibleStates> states;  // none: no inventory
    NodeState shown;                       // without id
  };
  [[nodiscard]] NodeCopy CopyNode(int index) const NUMAFIT_EXCLUDES(write_);

  std::size_t size() const override { return size_.load(std::memory_order_acquire); }
  int FindNode(const ReadGuard&, std::string_view name, int hint) const override {
    return Find(name, hint);
  }
  std::string_view NodeName(const ReadGuard&, int index) const override { return Name(index); }
  const NodeState* State(const ReadGuard&, int index) const override
      NUMAFIT_TSA(no_thread_safety_analysis) {
    return states_[static_cast<std::size_t>(index)].get();
  }
  const std::uint64_t* StateIds(const ReadGuard&) const override
      NUMAFIT_TSA(no_thread_safety_analysis) {
    return ids_.data();
  }
  const std::uint64_t* Changes(const ReadGuard&) const override
      NUMAFIT_TSA(no_thread_safety_analysis) {
    return changes_.data();
  }
  bool HasNominees(const ReadGuard&) const override NUMAFIT_TSA(no_thread_safety_analysis) {
    return nominated_nodes_ > 0;
  }
  const Nominees* NomineesOf(const ReadGuard&, int index) const override
      NUMAFIT_TSA(no_thread_safety_analysis) {
    return nominees_[static_cast<std::size_t>(index)].get();
  }
  std::vector<NodeView> Snapshot() const override;
  Stats stats() const override;

 private:
  struct Hash {
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  const std::string& Name(int index) const { return names_[static_cast<std::size_t>(index)]; }
  NodeEntry& Node(int index) NUMAFIT_REQUIRES(write_) {
    return nodes_[static_cast<std::size_t>(index)];
  }
  NodeLedger& Ledger(int index) NUMAFIT_REQUIRES(write_) { return Node(index).ledger; }
  int Find(std::string_view name, int hint) const {
    if (hint >= 0 && static_cast<std::size_t>(hint) < names_.size() &&
        names_[static_cast<std::size_t>(hint)] == name) {
      return hint;
    }
    const auto found = index_.find(name);
    return found == index_.end() ? kNoNode : found->second;
  }

  int AddNode(const std::string& name) NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  // The node's number; in a fleet of reports a new one where it has none yet.
  int FindOrAdd(const std::string& name) NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  absl::Status AddFilePod(const FleetPod& entry) NUMAFIT_REQUIRES(write_);
  // Whether it is one that we had let in and that its kubelet has refused.
  bool NoteRefusal(const api::Pod& pod, const std::string& key) NUMAFIT_REQUIRES(write_);
  void Upsert(const api::Pod& pod) NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  PodEntry& NewEntry(const std::string& key, std::string name, int node) NUMAFIT_REQUIRES(write_);
  void AddBound(const api::Pod& pod, const std::string& key, int node) NUMAFIT_REQUIRES(write_);
  // The entry that a report made for this Pod without knowing its uid; null: there is none.
  PodEntry* FindReported(const std::string& name, const std::string& static_uid, int node)
      NUMAFIT_REQUIRES(write_);
  PodEntry& EntryFor(const ReportedPod& reported, int node) NUMAFIT_REQUIRES(write_);
  std::shared_ptr<const policy::Demand> DemandOfBound(const api::Pod& pod) NUMAFIT_REQUIRES(write_);
  // What the time of a report says about the clock of its node. `is_next`: it is the one after the
  // last, so it was made a moment ago.
  void CompareClocks(const ReportFacts& facts, bool is_next, NodeEntry& entry) const;
  void Forget(const std::string& key, bool never_admitted) NUMAFIT_REQUIRES(write_);
  void Erase(const std::vector<PodEntry*>& pods) NUMAFIT_REQUIRES(write_);
  void MarkDirty(int node) NUMAFIT_REQUIRES(write_);
  // kNoNode: it is no nominee.
  int NodeNominated(const api::Pod& pod) NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  void Nominate(const api::Pod& pod) NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  void EndNomination(std::string_view uid) NUMAFIT_REQUIRES(write_);
  std::vector<Nomination> NominationsOf(int node) NUMAFIT_REQUIRES(write_);
  void SetNominations(int node, std::vector<Nomination> nominations) NUMAFIT_REQUIRES(write_);
  // What readers see of a node whose ledger says this.
  NodeState Describe(const NodeEntry& entry, std::optional<NodeState> told) const
      NUMAFIT_REQUIRES(write_);
  void Publish() NUMAFIT_REQUIRES(write_) NUMAFIT_EXCLUDES(mutex_);
  NodeView View(int node) const NUMAFIT_REQUIRES(write_);

  const api::ResourceClasses classes_;
  const Options options_;
  const bool from_reports_;
  const std::shared_ptr<const policy::Topology> no_machine_;
  // Changed under write_ and mutex_ together; either is enough to read.
  std::deque<std::string> names_;
  absl::flat_hash_map<std::string_view, int, Hash, std::equal_to<std::string_view>> index_;
  std::atomic<std::size_t> size_{0};

  mutable api::Mutex write_;
  std::vector<NodeEntry> nodes_ NUMAFIT_GUARDED_BY(write_);
  absl::flat_hash_map<std::string, std::unique_ptr<PodEntry>> pods_ NUMAFIT_GUARDED_BY(write_);
  std::vector<int> dirty_ NUMAFIT_GUARDED_BY(write_);
  DemandTable demands_ NUMAFIT_GUARDED_BY(write_);
  StateTable table_ NUMAFIT_GUARDED_BY(write_);
  ReportReader reports_ NUMAFIT_GUARDED_BY(write_);
  ReportReader counts_ NUMAFIT_GUARDED_BY(write_);
  PlacesTable places_ NUMAFIT_GUARDED_BY(write_);  // of a file's Pods
  // Node by uid.
  absl::flat_hash_map<std::string, int> nominated_ NUMAFIT_GUARDED_BY(write_);
  std::size_t reservations_ NUMAFIT_GUARDED_BY(write_) = 0;
  std::int64_t contradictions_ NUMAFIT_GUARDED_BY(write_) = 0;

  std::vector<std::shared_ptr<const NodeState>> states_ NUMAFIT_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> ids_ NUMAFIT_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> changes_ NUMAFIT_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const Nominees>> nominees_ NUMAFIT_GUARDED_BY(mutex_);
  std::size_t nominated_nodes_ NUMAFIT_GUARDED_BY(mutex_) = 0;
};

}  // namespace numafit::cache
