#include "agent/pod_join.h"

#include <algorithm>
#include <utility>

namespace numafit::agent {
namespace {

using DeviceKey = std::pair<std::string, std::string>;  // resource, id

// A device belongs to one Pod at a time, so any common one will do; the container's name guards
// against an entry of a Pod that has ended.
std::string ByDevices(const ListedPod& pod,
                      const std::map<DeviceKey, std::map<std::string, std::string>>& holders) {
  for (const ListedContainer& container : pod.containers) {
    for (const auto& [resource, devices] : container.devices) {
      for (const auto& [id, topology] : devices) {
        const auto holder = holders.find({resource, id});
        if (holder == holders.end()) continue;
        const auto uid = holder->second.find(container.name);
        if (uid != holder->second.end()) return uid->second;
      }
    }
  }
  return {};
}

std::string ByCpus(const ListedPod& pod, const CpuState& state) {
  for (const ListedContainer& container : pod.containers) {
    if (container.cpus.empty()) continue;
    for (const auto& [uid, containers] : state.containers) {
      const auto found = containers.find(container.name);
      if (found != containers.end() && found->second == container.cpus) return uid;
    }
  }
  return {};
}

std::set<std::string> AllUids(const Observations& seen) {
  std::set<std::string> uids;
  if (seen.checkpoint.has_value()) {
    for (const DeviceCheckpoint::Entry& entry : seen.checkpoint->entries) {
      uids.insert(entry.pod_uid);
    }
  }
  if (seen.cpus.has_value()) {
    for (const auto& [uid, containers] : seen.cpus->containers) uids.insert(uid);
    for (const auto& [uid, cpus] : seen.cpus->pods) uids.insert(uid);
  }
  if (seen.memory.has_value()) {
    for (const auto& [uid, containers] : seen.memory->containers) uids.insert(uid);
    for (const auto& [uid, blocks] : seen.memory->pods) uids.insert(uid);
  }
  return uids;
}

}  // namespace

std::map<std::string, HeldIds> HeldByUid(const Observations& seen, const JoinedPods& joined) {
  std::map<std::string, HeldIds> held;
  if (!seen.checkpoint.has_value()) return held;
  // Also among UIDs that no list tells about each device has one holder: the first.
  std::map<DeviceKey, std::string> owners;
  for (std::size_t i = 0; i < joined.uids.size(); ++i) {
    // A Pod whose UID is not known owns what it is listed with under a name that no UID has.
    const std::string owner =
        joined.uids[i].empty() ? "listed " + std::to_string(i) : joined.uids[i];
    for (const ListedContainer& container : (*seen.pods)[i].containers) {
      for (const auto& [resource, devices] : container.devices) {
        for (const auto& [id, topology] : devices) owners.try_emplace({resource, id}, owner);
      }
    }
  }
  for (const DeviceCheckpoint::Entry& entry : seen.checkpoint->entries) {
    for (const auto& [id, nodes] : entry.devices) {
      const auto owner = owners.try_emplace({entry.resource, id}, entry.pod_uid).first;
      if (owner->second != entry.pod_uid) continue;
      held[entry.pod_uid][entry.container][entry.resource].insert(id);
    }
  }
  return held;
}

JoinedPods JoinPods(const Observations& seen) {
  JoinedPods joined;
  const std::set<std::string> all = AllUids(seen);
  if (!seen.pods.has_value()) {
    joined.nameless.assign(all.begin(), all.end());
    return joined;
  }
  std::map<DeviceKey, std::map<std::string, std::string>> holders;  // container to UID
  if (seen.checkpoint.has_value()) {
    for (const DeviceCheckpoint::Entry& entry : seen.checkpoint->entries) {
      for (const auto& [id, nodes] : entry.devices) {
        holders[{entry.resource, id}][entry.container] = entry.pod_uid;
      }
    }
  }
  std::map<PodName, std::vector<std::string>> by_name;
  for (const auto& [uid, name] : seen.pod_names) by_name[name].push_back(uid);

  std::set<std::string> taken;
  bool all_known = true;
  for (const ListedPod& pod : *seen.pods) {
    std::string uid = ByDevices(pod, holders);
    if (uid.empty() && seen.cpus.has_value()) uid = ByCpus(pod, *seen.cpus);
    if (uid.empty()) {
      const auto named = by_name.find({pod.namespace_, pod.name});
      if (named != by_name.end()) {
        // Folders of a former Pod of that name may still be there. One that holds something is
        // the better guess; with several it is none.
        std::vector<std::string> candidates = named->second;
        if (candidates.size() > 1) {
          std::erase_if(candidates, [&](const std::string& u) { return all.count(u) == 0; });
        }
        if (candidates.size() == 1) uid = candidates.front();
      }
    }
    all_known = all_known && !uid.empty();
    if (!uid.empty()) taken.insert(uid);
    joined.uids.push_back(std::move(uid));
  }
  if (all_known) return joined;
  std::set<PodName> listed_without_uid;
  for (std::size_t i = 0; i < seen.pods->size(); ++i) {
    if (joined.uids[i].empty()) {
      listed_without_uid.insert({(*seen.pods)[i].namespace_, (*seen.pods)[i].name});
    }
  }
  for (const std::string& uid : all) {
    if (taken.count(uid) != 0) continue;
    const auto name = seen.pod_names.find(uid);
    const bool ended = name != seen.pod_names.end() && listed_without_uid.count(name->second) == 0;
    if (!ended) joined.nameless.push_back(uid);
  }
  return joined;
}

}  // namespace numafit::agent
