// The kubelet's PodResources service: which healthy devices there are, and who holds what.
//
// The service has no watch, tells no UIDs, no unhealthy devices and no regular init containers;
// the state files beside it do.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/kubelet/memory_state.h"
#include "policy/cpu_set.h"

namespace v1 {
class AllocatableResourcesResponse;
class ListPodResourcesResponse;
}  // namespace v1

namespace numafit::agent {

// What a plugin says of one device.
struct DeviceTopology {
  bool published = false;  // false: the kubelet does not align it
  // Sorted, each once; may hold -1, which some plugins publish. Empty and published: on no node.
  std::vector<int> numa_nodes;
  bool operator==(const DeviceTopology&) const = default;
};
// Resource, device id.
using DeviceTopologies = std::map<std::string, std::map<std::string, DeviceTopology>>;

struct ListedContainer {
  std::string name;
  DeviceTopologies devices;
  policy::CpuSet cpus;  // that it has for itself
  std::vector<MemoryBlock> memory;
  bool operator==(const ListedContainer&) const = default;
};

struct ListedPod {
  std::string namespace_;
  std::string name;
  std::vector<ListedContainer> containers;  // restartable init containers first
  policy::CpuSet cpus;                      // of the Pod as a whole
  std::vector<MemoryBlock> memory;
  bool operator==(const ListedPod&) const = default;
};

// Healthy devices; the kubelet answers with one entry per device and NUMA node, these are merged.
DeviceTopologies ReadAllocatable(const v1::AllocatableResourcesResponse& response);
// Active Pods, by namespace and name. Entries without a name are left out.
std::vector<ListedPod> ReadList(const v1::ListPodResourcesResponse& response);

// Whether nobody listens at this socket: it is not there, or left behind by a process that ended.
// False when that cannot be found out.
bool NobodyListens(const std::string& socket);

// One connection, made again when it broke. Not thread-safe.
class PodResourcesClient {
 public:
  // `socket` is the path of the kubelet's socket; it need not exist yet.
  PodResourcesClient(std::string socket, std::chrono::milliseconds timeout);
  ~PodResourcesClient();

  // Unavailable, DeadlineExceeded or the kubelet's own error (it limits the rate of all callers).
  absl::StatusOr<DeviceTopologies> Allocatable();
  absl::StatusOr<std::vector<ListedPod>> List();

  // Readable once the connection over which the last good answer came has ended: no file tells that
  // a kubelet was killed. (Now and then it only was idle for long.) -1: the system gives no more
  // descriptors.
  [[nodiscard]] int ended_fd() const { return ended_fd_; }
  // Until the next end.
  void TakeEnd();

 private:
  class Connection;

  Connection& Connect();

  const std::string socket_;
  const std::chrono::milliseconds timeout_;
  const int ended_fd_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace numafit::agent
