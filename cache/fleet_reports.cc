// The Fleet and the reports of node agents.
#include <fmt/format.h>

#include <utility>

#include "cache/fleet_impl.h"
#include "cache/placement.h"

namespace numafit::cache {
namespace {

// A Pod that a report lists without a uid, until the API server shows it.
constexpr std::string_view kReportedKey = "reported:";

}  // namespace

PodEntry* FleetImpl::FindReported(const std::string& name, const std::string& static_uid,
                                  int node) {
  for (const std::string& key : {static_uid, std::string(kReportedKey) + name}) {
    const auto found = pods_.find(key);
    if (found != pods_.end() && found->second->node == node) return found->second.get();
  }
  return nullptr;
}

PodEntry& FleetImpl::EntryFor(const ReportedPod& reported, int node) {
  const auto known = pods_.find(reported.uid);
  if (known != pods_.end() && known->second->node == node) return *known->second;
  for (PodEntry* pod : Ledger(node).pods()) {
    if (reported.uid.empty() ? pod->name == reported.name : pod->static_uid == reported.uid) {
      return *pod;
    }
  }
  if (!reported.uid.empty() && known == pods_.end()) {
    return NewEntry(reported.uid, reported.name, node);
  }
  const std::string key = std::string(kReportedKey) + reported.name;
  const auto found = pods_.find(key);
  return found != pods_.end() && found->second->node == node ? *found->second
                                                             : NewEntry(key, reported.name, node);
}

Fleet::ReportNews FleetImpl::UpsertReport(const std::string& node,
                                          const v1alpha1::NodeReportStatus& report) {
  const api::MutexLock lock(write_);
  ReportNews news;
  absl::StatusOr<ReportedNode> read = reports_.Read(report);
  if (!read.ok()) {
    news.error = std::string(read.status().message());
    if (const int known = Find(node, kNoNode); known != kNoNode) {
      Node(known).report_error = news.error;
    }
    return news;
  }
  const int index = FindOrAdd(node);
  if (index == kNoNode) {
    news.error = fmt::format("node {} is not in the fleet file", node);
    return news;
  }
  NodeLedger& ledger = Ledger(index);
  if (ledger.IsOutdated(*read)) {
    news.outdated = fmt::format("status.generation: {}, where {} of the same boot is known",
                                read->generation, ledger.generation());
    return news;
  }
  CompareClocks(read->facts, ledger.IsNext(*read), Node(index));
  Node(index).facts = std::make_shared<const ReportFacts>(std::move(read->facts));
  Node(index).report_error.clear();
  std::vector<PodEntry*> listed;
  for (const ReportedPod& pod : read->pods) listed.push_back(&EntryFor(pod, index));
  const NodeLedger::Comparison comparison = ledger.Observe(*read, listed);
  Node(index).kubelet_away = read->kubelet_away;
  news.applied = true;
  news.confirmed = comparison.confirmed;
  for (const NodeLedger::Comparison::Difference& difference : comparison.differences) {
    ReportNews::Difference& told = news.differences.emplace_back();
    told.pod = difference.pod->name;
    told.observed = HoldingText(*read->topology, difference.pod->held.devices);
    for (const policy::DeviceHolding& foretold : difference.foretold) {
      if (!told.foretold.empty()) told.foretold += " or ";
      told.foretold += HoldingText(*read->topology, foretold);
    }
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    PodEntry& pod = *listed[i];
    if (read->pods[i].places == nullptr || !pod.seen || pod.misalignment_told) continue;
    std::string misaligned = api::MisalignedText(*read->pods[i].places);
    if (misaligned.empty()) continue;
    pod.misalignment_told = true;
    news.misaligned.push_back({pod.name, pod.key, pod.creation_time, std::move(misaligned)});
  }
  Erase(comparison.ended);
  MarkDirty(index);
  Publish();
  return news;
}

void FleetImpl::CompareClocks(const ReportFacts& facts, bool is_next, NodeEntry& entry) const {
  if (!options_.wall_ms || facts.observed_time == 0) return;
  const std::int64_t ahead = facts.observed_time - options_.wall_ms() / 1000;
  // A report of the future is one of a wrong clock, whenever it comes.
  if (is_next || ahead > 0) entry.clock_ahead_seconds = ahead;
}

void FleetImpl::RefuseReport(const std::string& node, const std::string& error) {
  const api::MutexLock lock(write_);
  const int index = Find(node, kNoNode);
  if (index != kNoNode) Node(index).report_error = error;
}

void FleetImpl::DeleteReport(const std::string& node) {
  const api::MutexLock lock(write_);
  const int index = Find(node, kNoNode);
  if (index == kNoNode) return;
  Node(index).report_error.clear();
  if (!Ledger(index).has_report()) return;
  Node(index).facts.reset();
  Node(index).clock_ahead_seconds.reset();
  Node(index).kubelet_away = false;
  Erase(Ledger(index).LoseReport());
  if (const auto& counts = Node(index).counts; counts != nullptr) {
    Ledger(index).ObserveCounts(*counts);
  }
  MarkDirty(index);
  Publish();
}

std::string FleetImpl::UpsertCounts(const api::NodeResourceTopology& counts,
                                    const NodeFacts& facts) {
  const api::MutexLock lock(write_);
  absl::StatusOr<CountedNode> read = ReadCounts(counts, facts, classes_, counts_);
  if (!read.ok()) return std::string(read.status().message());
  const int index = FindOrAdd(counts.metadata.name);
  if (index == kNoNode) {
    return fmt::format("node {} is not in the fleet file", counts.metadata.name);
  }
  NodeEntry& entry = Node(index);
  entry.counts = std::make_unique<CountedNode>(*std::move(read));
  if (entry.ledger.has_report()) return "";
  entry.ledger.ObserveCounts(*entry.counts);
  MarkDirty(index);
  Publish();
  return "";
}

void FleetImpl::DeleteCounts(const std::string& node) {
  const api::MutexLock lock(write_);
  const int index = Find(node, kNoNode);
  if (index == kNoNode) return;
  NodeEntry& entry = Node(index);
  entry.counts = nullptr;
  if (!entry.ledger.has_counts()) return;
  Erase(entry.ledger.LoseReport());
  MarkDirty(index);
  Publish();
}

void FleetImpl::SetAgentReady(const std::string& node, bool is_ready) {
  const api::MutexLock lock(write_);
  const int index = FindOrAdd(node);
  if (index == kNoNode) return;
  const bool was_ready = std::exchange(Node(index).agent_was_ready, is_ready);
  if (Node(index).stale == !is_ready) return;
  Node(index).stale = !is_ready;
  Node(index).agent_lost_at_ms.reset();
  if (was_ready && options_.now_ms) Node(index).agent_lost_at_ms = options_.now_ms();
  Erase(Ledger(index).SetCurrent(is_ready));
  MarkDirty(index);
  Publish();
}

}  // namespace numafit::cache
