// From what the sources said to a NodeReport: a pure function, the same for equal input whatever
// order the kubelet's answers came in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/device_memory.h"
#include "agent/endpoint_map.h"
#include "agent/kubelet/cpu_state.h"
#include "agent/kubelet/device_checkpoint.h"
#include "agent/kubelet/memory_state.h"
#include "agent/kubelet/pod_resources.h"
#include "api/node_report.pb.h"
#include "api/resource_class.h"

namespace numafit::agent {

struct PodName {
  std::string namespace_;
  std::string name;
  auto operator<=>(const PodName&) const = default;
};

// The last good state of each source; what is absent was never read.
struct Observations {
  std::string boot_id;
  std::optional<std::vector<ListedPod>> pods;
  std::optional<DeviceCheckpoint> checkpoint;
  std::optional<CpuState> cpus;
  std::optional<MemoryState> memory;
  std::optional<v1alpha1::Kubelet> kubelet;
  std::vector<v1alpha1::NumaNode> numa_nodes;
  std::vector<v1alpha1::RdmaDevice> rdma_devices;
  std::map<std::string, int> pci_numa_nodes;
  std::map<std::string, PodName> pod_names;  // by UID
  DeviceTable devices;                       // DeviceMemory's
  std::vector<v1alpha1::Source> sources;     // by name
};

// Fills everything but generation, agent_version and observed_time.
//
// UIDs are in the state files only, names in PodResources only. They are joined by the devices that
// a container of that name holds under both, then by the CPUs that it has, then by `pod_names`.
// A UID whose Pod is not listed has ended and is left out, as is one that cannot be joined when
// every listed Pod has its UID; another one is reported without a name. Without a list at all every
// UID is reported.
v1alpha1::NodeReportStatus Assemble(const Observations& seen, const api::ResourceClasses& classes,
                                    const std::vector<EndpointRule>& rules);

}  // namespace numafit::agent
