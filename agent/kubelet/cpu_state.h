// /var/lib/kubelet/cpu_manager_state: the CPU manager's policy and who has which CPUs for himself.
// Source: k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "policy/cpu_set.h"

namespace numafit::agent {

struct CpuState {
  std::string policy;  // "none", "static"
  policy::CpuSet default_cpus;
  // Pod UID, container; regular init containers too.
  std::map<std::string, std::map<std::string, policy::CpuSet>> containers;
  // Pod UID, of the Pod as a whole (feature gate PodLevelResourceManagers).
  std::map<std::string, policy::CpuSet> pods;
};

// Reads what 1.34 and 1.35 write (version 2 of the file), 1.36 (2, or 3 with Pod-level entries) and
// 1.37 (4: the same as JSON text inside a string). InvalidArgument names the field; DataLoss: the
// checksum, computed as the kubelet does, differs. A checksum of 0 is none, as for the kubelet.
absl::StatusOr<CpuState> ParseCpuState(std::string_view text);

}  // namespace numafit::agent
