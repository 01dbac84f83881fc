// Nominations: whose room the Fleet keeps.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "cache/fleet_impl.h"

namespace numafit::cache {

void FleetImpl::ReplaceNominees(const std::vector<api::Pod>& pods) {
  const api::MutexLock lock(write_);
  absl::flat_hash_set<std::string_view> listed;
  for (const api::Pod& pod : pods) listed.insert(pod.metadata.uid);
  std::vector<std::string> gone;
  for (const auto& [uid, node] : nominated_) {
    if (!listed.contains(uid)) gone.push_back(uid);
  }
  for (const std::string& uid : gone) EndNomination(uid);
  for (const api::Pod& pod : pods) Nominate(pod);
  Publish();
}

void FleetImpl::UpsertNominee(const api::Pod& pod) {
  const api::MutexLock lock(write_);
  Nominate(pod);
  Publish();
}

void FleetImpl::DeleteNominee(std::string_view uid) {
  const api::MutexLock lock(write_);
  EndNomination(uid);
  Publish();
}

int FleetImpl::NodeNominated(const api::Pod& pod) {
  const std::string& name = pod.status.nominated_node_name;
  const std::string& uid = pod.metadata.uid;
  if (!pod.node_name.empty() || name.empty() || uid.empty() || pod.IsTerminal()) return kNoNode;
  // Bound already, by news that came first.
  if (const auto bound = pods_.find(uid); bound != pods_.end() && bound->second->seen) {
    return kNoNode;
  }
  return FindOrAdd(name);
}

void FleetImpl::Nominate(const api::Pod& pod) {
  const std::string& uid = pod.metadata.uid;
  const int node = NodeNominated(pod);
  if (node == kNoNode) return EndNomination(uid);
  Nomination nomination = {.uid = uid,
                           .priority = pod.priority,
                           .creation_time = pod.metadata.creation_time,
                           .demand = DemandOfBound(pod)};
  // Most news of a nominee are about its conditions.
  if (const auto known = nominated_.find(uid); known != nominated_.end() && known->second == node) {
    const std::vector<Nomination> nominations = NominationsOf(node);
    if (std::find(nominations.begin(), nominations.end(), nomination) != nominations.end()) return;
  }
  EndNomination(uid);
  nominated_.emplace(uid, node);
  std::vector<Nomination> nominations = NominationsOf(node);
  nominations.push_back(std::move(nomination));
  SetNominations(node, std::move(nominations));
}

void FleetImpl::EndNomination(std::string_view uid) {
  const auto found = nominated_.find(std::string(uid));
  if (found == nominated_.end()) return;
  std::vector<Nomination> nominations = NominationsOf(found->second);
  std::erase_if(nominations, [uid](const Nomination& each) { return each.uid == uid; });
  SetNominations(found->second, std::move(nominations));
  nominated_.erase(found);
}

std::vector<Nomination> FleetImpl::NominationsOf(int node) {
  const std::shared_ptr<const Nominees>& nominees = Node(node).nominees;
  return nominees == nullptr ? std::vector<Nomination>() : nominees->nominations();
}

void FleetImpl::SetNominations(int node, std::vector<Nomination> nominations) {
  Node(node).nominees =
      nominations.empty() ? nullptr : std::make_shared<const Nominees>(std::move(nominations));
  Node(node).nominees_changed = true;
  MarkDirty(node);
}

}  // namespace numafit::cache
