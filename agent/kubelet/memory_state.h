// /var/lib/kubelet/memory_manager_state: the memory manager's book and who has which memory.
// Source: k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

struct MemoryBlock {
  std::string type;  // "memory", "hugepages-2Mi"
  std::vector<int> numa_nodes;
  std::uint64_t bytes = 0;
  bool operator==(const MemoryBlock&) const = default;
};

struct MemoryState {
  std::string policy;  // "None", "Static"
  // By NUMA id; empty unless the policy is Static.
  std::vector<v1alpha1::MemoryBook> books;
  // Pod UID, container; regular init containers too.
  std::map<std::string, std::map<std::string, std::vector<MemoryBlock>>> containers;
  // Pod UID, of the Pod as a whole (feature gate PodLevelResourceManagers).
  std::map<std::string, std::vector<MemoryBlock>> pods;
};

// Reads what 1.34 and 1.35 write (version 1 of the file), 1.36 (1, or 2 with Pod-level entries) and
// 1.37 (3: the same as JSON text inside a string). InvalidArgument names the field; DataLoss: the
// checksum, computed as the kubelet does, differs. A checksum of 0 is none, as for the kubelet.
absl::StatusOr<MemoryState> ParseMemoryState(std::string_view text);

}  // namespace numafit::agent
