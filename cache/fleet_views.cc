// What readers see of the Fleet.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "cache/fleet_impl.h"

namespace numafit::cache {
namespace {

// Snapshot lets others in after this many nodes.
constexpr std::size_t kSnapshotChunk = 128;

PodOnNode::State StateOf(const PodEntry& pod) {
  if (pod.reserved) return PodOnNode::State::kReserved;
  const bool vanished = pod.listed_before && !pod.listed;
  if (pod.leaving || pod.gone || vanished) return PodOnNode::State::kLeaving;
  if (pod.listed || pod.places != nullptr) return PodOnNode::State::kObserved;
  return PodOnNode::State::kPredicted;
}

}  // namespace

std::string_view PodStateName(PodOnNode::State state) {
  switch (state) {
    case PodOnNode::State::kReserved:
      return "reserved";
    case PodOnNode::State::kPredicted:
      return "predicted";
    case PodOnNode::State::kObserved:
      return "observed";
    case PodOnNode::State::kLeaving:
      return "leaving";
  }
  return "";
}

NodeState FleetImpl::Describe(const NodeEntry& entry, std::optional<NodeState> state) const {
  if (state) {
    // Counts are no agent's.
    const bool is_stale = entry.stale && !state->counts_only;
    // Of an agent that is lost nobody hears that the kubelet is back.
    if (entry.kubelet_away && !entry.stale) state->barrier = policy::Reason::kKubeletAway;
    if (is_stale && options_.refuse_stale) state->barrier = policy::Reason::kStaleReport;
    for (const NodeEntry::CoolDown& each : entry.cool_downs) state->cooling.insert(each.shape);
    return *std::move(state);
  }
  NodeState nothing;
  nothing.topology = no_machine_;
  nothing.knowledge.usages.emplace_back(*no_machine_);
  nothing.barrier = policy::Reason::kNoReport;
  return nothing;
}

policy::Judgement FleetImpl::JudgeWithout(std::string_view node,
                                          const std::vector<std::string>& uids,
                                          const policy::Demand& demand) const {
  const api::MutexLock lock(write_);
  const int index = Find(node, kNoNode);
  if (index == kNoNode) {
    policy::Judgement unknown;
    unknown.reason = policy::Reason::kNoReport;
    return unknown;
  }
  const NodeEntry& entry = nodes_[static_cast<std::size_t>(index)];
  return JudgeOnNode(Describe(entry, entry.ledger.DescribeWithout(uids)), demand, nullptr);
}

std::vector<Fleet::Victim> FleetImpl::VictimsOn(std::string_view node) const {
  const api::MutexLock lock(write_);
  std::vector<Victim> victims;
  const int index = Find(node, kNoNode);
  if (index == kNoNode) return victims;
  for (const PodEntry* pod : nodes_[static_cast<std::size_t>(index)].ledger.pods()) {
    const bool stays = pod->seen && !pod->leaving && !pod->gone && !pod->reserved;
    if (stays && pod->handle != PodEntry::kHoldsNothing) {
      victims.push_back({pod->key, pod->priority});
    }
  }
  return victims;
}

void FleetImpl::Publish() {
  // States that are let go of are destroyed after the readers are let in again.
  std::vector<std::shared_ptr<const NodeState>> old;
  std::vector<int> changed;
  for (const int node : dirty_) {
    NodeEntry& entry = Node(node);
    entry.dirty = false;
    const int contradictions = entry.ledger.Contradictions();
    contradictions_ += contradictions - entry.contradictions;
    entry.contradictions = contradictions;
    std::shared_ptr<const NodeState> state =
        table_.Intern(Describe(entry, entry.ledger.Describe()));
    if (!std::exchange(entry.nominees_changed, false) && state == entry.state) continue;
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
    ++changes_[at];
    if (nominees_[at] != nullptr) --nominated_nodes_;
    nominees_[at] = nodes_[at].nominees;
    if (nominees_[at] != nullptr) ++nominated_nodes_;
  }
}

NodeView FleetImpl::View(int node) const {
  const NodeEntry& entry = nodes_[static_cast<std::size_t>(node)];
  NodeView view;
  view.name = Name(node);
  view.state = entry.state;
  view.stale = entry.stale && !entry.state->counts_only;
  if (entry.agent_lost_at_ms) view.agent_lost_ms = options_.now_ms() - *entry.agent_lost_at_ms;
  view.facts = entry.facts;
  view.nominees = entry.nominees;
  view.report_error = entry.report_error;
  view.clock_ahead_seconds = entry.clock_ahead_seconds;
  for (const PodEntry* pod : entry.ledger.pods()) {
    PodOnNode shown;
    shown.name = pod->name;
    shown.uid = pod->key;
    shown.state = StateOf(*pod);
    shown.admitted = pod->admitted || pod->listed;
    if (pod->demand != nullptr) shown.demand = *pod->demand;
    shown.may_hold = entry.ledger.HeldBy(*pod);
    shown.places = pod->places;
    view.pods.push_back(std::move(shown));
  }
  return view;
}

std::vector<NodeView> FleetImpl::Snapshot() const {
  std::vector<NodeView> views;
  views.reserve(size());
  while (views.size() < size()) {
    const api::MutexLock lock(write_);
    const std::size_t end = std::min(size(), views.size() + kSnapshotChunk);
    while (views.size() < end) views.push_back(View(static_cast<int>(views.size())));
  }
  if (from_reports_) {
    std::erase_if(views, [](const NodeView& view) {
      return !view.state->HasInventory() && view.pods.empty() && view.report_error.empty();
    });
    // Reports come in any order.
    std::sort(views.begin(), views.end(),
              [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
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
    for (const NodeEntry& node : nodes_) {
      stats.misaligned_containers += node.ledger.misaligned_containers();
      stats.reported_nodes += node.ledger.has_report() ? 1 : 0;
      stats.counted_nodes += node.ledger.has_counts() ? 1 : 0;
    }
    // One that has neither report nor Pods any more is gone: it keeps its number, and that is all.
    stats.unreported_nodes =
        static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
          return !node.state->HasInventory() && !node.ledger.pods().empty();
        }));
    stats.nodes = static_cast<std::size_t>(std::count_if(
        nodes_.begin(), nodes_.end(), [](const auto& node) { return node.state->HasInventory(); }));
    stats.cooling_nodes = static_cast<std::size_t>(std::count_if(
        nodes_.begin(), nodes_.end(), [](const auto& node) { return !node.cool_downs.empty(); }));
    stats.stale_nodes =
        static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
          return node.stale && node.ledger.has_report();
        }));
  }
  const api::ReaderLock lock(mutex_);
  if (!from_reports_) stats.file_nodes = stats.nodes;
  absl::flat_hash_set<std::uint64_t> distinct;
  for (const std::shared_ptr<const NodeState>& state : states_) {
    distinct.insert(state->id);
    if (state->knowledge.settling) ++stats.settling_nodes;
    if (state->barrier == policy::Reason::kKubeletAway) ++stats.away_nodes;
  }
  stats.distinct_states = distinct.size();
  return stats;
}

}  // namespace numafit::cache
