#include "agent/device_memory.h"

#include <algorithm>
#include <utility>

namespace numafit::agent {
namespace {

// Ids of devices that a former agent has lost; no plugin counts that far.
constexpr int kFirstLost = 990'000'000;

const Device* Find(const DeviceTable& table, const std::string& resource, const std::string& id) {
  const auto devices = table.find(resource);
  if (devices == table.end()) return nullptr;
  const auto device = devices->second.find(id);
  return device == devices->second.end() ? nullptr : &device->second;
}

std::size_t CountHealthy(const std::map<std::string, Device>& devices) {
  return static_cast<std::size_t>(std::count_if(
      devices.begin(), devices.end(), [](const auto& entry) { return entry.second.healthy; }));
}

// What plugins have registered and PodResources does not show.
void AddRegistered(const DeviceMemory::News& news, const DeviceTable& before, DeviceTable* next) {
  if (news.checkpoint == nullptr) return;
  for (const auto& [resource, ids] : news.checkpoint->registered) {
    std::map<std::string, Device>& devices = (*next)[resource];
    const bool alive =
        news.allocatable != nullptr && (news.checkpoint_is_current || CountHealthy(devices) > 0);
    if (!alive) continue;
    for (const std::string& id : ids) {
      if (devices.count(id) != 0) continue;
      const Device* known = Find(before, resource, id);
      const bool had_topology =
          known != nullptr && (!known->topology.published || !known->topology.numa_nodes.empty());
      if (!had_topology) devices[id] = Device{{true, {}}, true};
    }
  }
}

// Devices that somebody holds, with what the holder's entry says about them.
DeviceTopologies HeldDevices(const DeviceMemory::News& news) {
  DeviceTopologies held;
  if (news.pods != nullptr) {
    for (const ListedPod& pod : *news.pods) {
      for (const ListedContainer& container : pod.containers) {
        for (const auto& [resource, devices] : container.devices) {
          held[resource].insert(devices.begin(), devices.end());
        }
      }
    }
  }
  if (news.checkpoint != nullptr) {
    for (const DeviceCheckpoint::Entry& entry : news.checkpoint->entries) {
      for (const auto& [id, nodes] : entry.devices) {
        held[entry.resource].try_emplace(id, DeviceTopology{!nodes.empty(), nodes});
      }
    }
  }
  return held;
}

}  // namespace

// `now`: the table with what is there for certain; gets what has gone and still counts.
void DeviceMemory::KeepAbsent(const News& news, const DeviceTable& now, DeviceTable* next) {
  for (const auto& [resource, devices] : table_) {
    const bool dropped = news.checkpoint != nullptr && news.checkpoint_is_current &&
                         news.allocatable != nullptr && now.count(resource) == 0;
    if (dropped) {
      most_healthy_.erase(resource);
      last_gone_.erase(resource);
      continue;
    }
    std::vector<std::string>& gone = last_gone_[resource];
    for (const auto& [id, device] : devices) {
      if (Find(now, resource, id) != nullptr) continue;
      if (std::find(gone.begin(), gone.end(), id) == gone.end()) gone.push_back(id);
    }
    std::erase_if(gone, [&](const std::string& id) {
      return Find(now, resource, id) != nullptr || Find(table_, resource, id) == nullptr;
    });
    std::size_t room = devices.size();
    if (news.allocatable != nullptr) {
      const auto present = now.find(resource);
      const std::size_t taken = present == now.end() ? 0 : present->second.size();
      const std::size_t most = std::max(most_healthy_[resource], taken);
      room = most - taken;
    }
    if (gone.size() > room)
      gone.erase(gone.begin(), gone.end() - static_cast<std::ptrdiff_t>(room));
    for (const std::string& id : gone) {
      Device device = *Find(table_, resource, id);
      device.healthy = device.healthy && news.allocatable == nullptr;
      (*next)[resource][id] = device;
    }
  }
}

void DeviceMemory::Restore(const v1alpha1::NodeReportStatus& last, EndpointOf endpoint_of) {
  endpoint_of_ = std::move(endpoint_of);
  restored_.clear();
  for (const v1alpha1::Resource& resource : last.resources()) {
    std::vector<Lost>& groups = restored_[resource.name()];
    for (const v1alpha1::DeviceGroup& group : resource.groups()) {
      const DeviceTopology topology{!group.no_topology(),
                                    {group.numa_nodes().begin(), group.numa_nodes().end()}};
      groups.push_back({group.endpoint(), topology, group.count(), !group.unhealthy()});
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Lost& a, const Lost& b) { return a.healthy < b.healthy; });
  }
}

// What a former agent knew and is not in `next`.
void DeviceMemory::AddLost(const News& news, DeviceTable* next) {
  for (auto& [resource, groups] : std::exchange(restored_, {})) {
    const auto present = next->find(resource);
    // The kubelet has dropped it meanwhile.
    if (present == next->end() && news.checkpoint_is_current) continue;
    std::size_t known = 0;
    for (const Lost& group : groups) known += static_cast<std::size_t>(group.count);
    std::map<std::string, Device>& devices = (*next)[resource];
    for (const auto& [id, device] : devices) {
      const std::string endpoint = endpoint_of_(resource, id);
      // Those that were healthy first: what is there now most likely was so.
      for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
        if (group->count == 0 || group->endpoint != endpoint ||
            group->topology != device.topology) {
          continue;
        }
        --group->count;
        break;
      }
    }
    int number = 0;
    for (const Lost& group : groups) {
      for (int i = 0; i < group.count && devices.size() < known; ++i) {
        // Nothing but the part before "::" means anything (api::EndpointKey).
        const std::string id = group.endpoint + "::" + std::to_string(kFirstLost + number++);
        devices[id] = Device{group.topology, false};
        lost_[resource][id] = group.endpoint;
        last_gone_[resource].push_back(id);
      }
    }
    std::size_t& most = most_healthy_[resource];
    most = std::max(most, devices.size());
  }
}

// Devices that have come where a former agent had lost one.
void DeviceMemory::ForgetFound(const DeviceTable& now) {
  for (auto& [resource, lost] : lost_) {
    const auto devices = now.find(resource);
    if (devices == now.end()) continue;
    std::map<std::string, Device>& before = table_[resource];
    for (const auto& [id, device] : devices->second) {
      if (lost.empty()) break;
      if (before.count(id) != 0) continue;
      const std::string endpoint = endpoint_of_(resource, id);
      const auto found = std::find_if(lost.begin(), lost.end(), [&](const auto& entry) {
        const auto known = before.find(entry.first);
        return entry.second == endpoint && known != before.end() &&
               known->second.topology == device.topology;
      });
      if (found == lost.end()) continue;
      before.erase(found->first);
      lost.erase(found);
    }
  }
}

void DeviceMemory::Observe(const News& news) {
  DeviceTable now;
  if (news.allocatable != nullptr) {
    for (const auto& [resource, devices] : *news.allocatable) {
      for (const auto& [id, topology] : devices) now[resource][id] = Device{topology, true};
    }
  }
  AddRegistered(news, table_, &now);
  for (const auto& [resource, devices] : HeldDevices(news)) {
    for (const auto& [id, topology] : devices) {
      if (Find(now, resource, id) != nullptr) continue;
      const Device* known = Find(table_, resource, id);
      // While nothing can be asked a held device is as healthy as it was.
      const bool healthy = known != nullptr && known->healthy && news.allocatable == nullptr;
      now[resource][id] = Device{known != nullptr ? known->topology : topology, healthy};
    }
  }
  ForgetFound(now);
  DeviceTable next = now;
  KeepAbsent(news, now, &next);
  if (news.allocatable != nullptr && !restored_.empty()) AddLost(news, &next);
  for (const auto& [resource, devices] : next) {
    std::size_t& most = most_healthy_[resource];
    most = std::max(most, CountHealthy(devices));
  }
  table_ = std::move(next);
}

}  // namespace numafit::agent
