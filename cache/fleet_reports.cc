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
  std::vector<PodEntry*> listed;
  for (const ReportedPod& pod : read->pods) listed.push_back(&EntryFor(pod, index));
  const NodeLedger::Comparison comparison = ledger.Observe(*read, listed);
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
    if (read->pods[i].misaligned.empty() || !pod.seen || pod.misalignment_told) continue;
    pod.misalignment_told = true;
    news.misaligned.push_back({pod.name, pod.key, pod.creation_time, read->pods[i].misaligned});
  }
  Erase(comparison.ended);
  MarkDirty(index);
  Publish();
  return news;
}

void FleetImpl::DeleteReport(const std::string& node) {
  const api::MutexLock lock(write_);
  const int index = Find(node, kNoNode);
  if (index == kNoNode || !Ledger(index).has_report()) return;
  Erase(Ledger(index).LoseReport());
  MarkDirty(index);
  Publish();
}

void FleetImpl::SetAgentReady(const std::string& node, bool is_ready) {
  const api::MutexLock lock(write_);
  const int index = FindOrAdd(node);
  if (index == kNoNode || Node(index).stale == !is_ready) return;
  Node(index).stale = !is_ready;
  Erase(Ledger(index).SetCurrent(is_ready));
  MarkDirty(index);
  Publish();
}

}  // namespace numafit::cache
