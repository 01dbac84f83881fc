// Which devices a node has, put together from what PodResources and the device checkpoint say now
// and what they said before.
//
// Needed because the kubelet decides with all devices, and shows only the healthy ones: a device
// that becomes unhealthy vanishes from GetAllocatableResources, yet counts when the kubelet asks
// how few NUMA nodes could hold a request.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/kubelet/device_checkpoint.h"
#include "agent/kubelet/pod_resources.h"
#include "api/node_report.pb.h"

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

  // What a device is a token of, as the groups of reports name it.
  using EndpointOf = std::function<std::string(const std::string& resource, const std::string& id)>;
  // What a former agent has reported since the machine was booted. With the next list those of its
  // devices that are not there any more count as gone, with the NUMA nodes that they had, no more
  // of them than make up the number that it knew, the unhealthy first. A report names endpoints and
  // numbers, not ids, so these devices get made-up ids; each is forgotten when a device of the same
  // endpoint and NUMA nodes comes.
  void Restore(const v1alpha1::NodeReportStatus& last, EndpointOf endpoint_of);

  [[nodiscard]] const DeviceTable& table() const { return table_; }

 private:
  struct Absent {
    std::string id;
    Device device;
  };

  void KeepAbsent(const News& news, const DeviceTable& now, DeviceTable* next);
  void AddLost(const News& news, DeviceTable* next);
  void ForgetFound(const DeviceTable& now);

  DeviceTable table_;
  std::map<std::string, std::size_t> most_healthy_;            // by resource
  std::map<std::string, std::vector<std::string>> last_gone_;  // unhealthy ids, newest last

  // Of Restore.
  struct Lost {
    std::string endpoint;
    DeviceTopology topology;
    int count = 0;
    bool healthy = false;
  };
  EndpointOf endpoint_of_;
  std::map<std::string, std::vector<Lost>> restored_;  // by resource; empty once it is used
  std::map<std::string, std::map<std::string, std::string>>
      lost_;  // resource, made-up id: endpoint
};

}  // namespace numafit::agent
