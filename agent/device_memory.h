// Which devices a node has, put together from what PodResources and the device checkpoint say now
// and what they said before.
//
// Needed because the kubelet decides with all devices, and shows only the healthy ones: a device
// that becomes unhealthy vanishes from GetAllocatableResources, yet counts when the kubelet asks
// how few NUMA nodes could hold a request.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/kubelet/device_checkpoint.h"
#include "agent/kubelet/pod_resources.h"

namespace numafit::agent {

struct Device {
  DeviceTopology topology;
  bool healthy = false;
  bool operator==(const Device&) const = default;
};
// Resource, device id. A resource without devices is one that a plugin has registered.
using DeviceTable = std::map<std::string, std::map<std::string, Device>>;

// Not thread-safe.
class DeviceMemory {
 public:
  struct News {
    // Null: could not be read now.
    const DeviceTopologies* allocatable = nullptr;
    const std::vector<ListedPod>* pods = nullptr;
    const DeviceCheckpoint* checkpoint = nullptr;
    // The checkpoint was written by the kubelet that answered: since its start a plugin has sent
    // its list. Before that it tells what the last kubelet knew.
    bool checkpoint_is_current = false;
  };

  // A device is
  // - healthy, with its topology, when it is allocatable;
  // - healthy and on no NUMA node when a plugin has registered it and it is not allocatable though
  //   others of its resource are, or the checkpoint is current: the kubelet leaves out devices
  //   whose topology is empty;
  // - unhealthy, with the topology that it had, when it is held or was there before. Of those that
  //   nobody holds no more are kept than make up the most that were healthy at once, the last gone
  //   first: a plugin that replaces its devices does not leave the old ones behind. None is kept of
  //   a resource that a current checkpoint does not name any more (its plugin has been away for
  //   five minutes, and the kubelet has dropped it).
  // While PodResources cannot be read nothing is forgotten.
  void Observe(const News& news);

  [[nodiscard]] const DeviceTable& table() const { return table_; }

 private:
  struct Absent {
    std::string id;
    Device device;
  };

  void KeepAbsent(const News& news, const DeviceTable& now, DeviceTable* next);

  DeviceTable table_;
  std::map<std::string, std::size_t> most_healthy_;            // by resource
  std::map<std::string, std::vector<std::string>> last_gone_;  // unhealthy ids, newest last
};

}  // namespace numafit::agent
