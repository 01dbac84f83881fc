// /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint: who holds which devices, with UIDs
// and regular init containers, and which devices plugins have registered as healthy.
// Source: k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint; the same in 1.34 to 1.37.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numafit::agent {

struct DeviceCheckpoint {
  struct Entry {
    std::string pod_uid;
    std::string container;
    std::string resource;
    // Device id to its NUMA nodes, sorted. Empty: the plugin publishes none, or one that is -1.
    std::map<std::string, std::vector<int>> devices;
  };
  // By UID, container, resource. Pods that have ended are among them until the kubelet admits
  // another one.
  std::vector<Entry> entries;
  // Resource to the ids of its healthy devices when a plugin last sent its list. Resources whose
  // plugin went away stay, without devices, for five minutes.
  std::map<std::string, std::set<std::string>> registered;
};

// InvalidArgument names the field; DataLoss: the checksum, computed as the kubelet does, differs.
absl::StatusOr<DeviceCheckpoint> ParseDeviceCheckpoint(std::string_view text);

}  // namespace numafit::agent
