// cpuManagerPolicyOptions. Twin of cpumanager/policy_options.go.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "policy/cpu_manager/cpu_topology.h"
#include "policy/kubelet_version.h"
#include "policy/topology_spec.h"

namespace numafit::policy {

struct CpuManagerOptions {
  bool full_pcpus_only = false;
  bool distribute_cpus_across_numa = false;
  bool align_by_socket = false;
  bool distribute_cpus_across_cores = false;
  bool strict_cpu_reservation = false;
  bool prefer_align_cpus_by_uncorecache = false;

  // InvalidArgument names the option (and value) with which a kubelet of this version does not
  // start: unknown, not a boolean as Go reads one, behind a gate that is off
  // (CPUManagerPolicyAlphaOptions, off unless set; CPUManagerPolicyBetaOptions, on unless set;
  // AllAlpha and AllBeta count), or two that exclude each other.
  [[nodiscard]] static absl::StatusOr<CpuManagerOptions> Parse(
      const std::map<std::string, std::string>& options, KubeletVersion version,
      const std::map<std::string, bool>& feature_gates);

  // What a kubelet also refuses to start with: align-by-socket with the TopologyManager's policy
  // single-numa-node, or on a machine with more sockets than NUMA nodes (those with CPUs).
  [[nodiscard]] absl::Status Check(const CpuTopology& topology, TopologyPolicy policy) const;

  friend bool operator==(const CpuManagerOptions&, const CpuManagerOptions&) = default;
};

}  // namespace numafit::policy
