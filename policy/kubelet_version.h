// Which admission rules a kubelet version has: the only place that compares versions.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

namespace numafit::policy {

// Major and minor of a kubelet ("v1.36.3", "1.35.4-gke.100", "v1.34"). A plain value.
struct KubeletVersion {
  int major = 1;
  int minor = 37;

  // The newest and the oldest version whose rules are known and judged by the oracle. A version
  // outside is judged by the nearest of the two; IsKnown says so and explanations repeat it.
  static constexpr int kOldestMinor = 34;
  static constexpr int kNewestMinor = 37;

  // nullopt: not the text of a version.
  static std::optional<KubeletVersion> TryParse(std::string_view text);
  // An unreadable version is the newest.
  static KubeletVersion Parse(std::string_view text);

  [[nodiscard]] bool IsKnown() const {
    return major == 1 && minor >= kOldestMinor && minor <= kNewestMinor;
  }
  // Device hints enumerate only NUMA nodes that carry a device of the resource
  // (1.36: cm/devicemanager/topology_hints.go, kubernetes#138244); before, all of the machine's.
  [[nodiscard]] bool HintsOverDeviceNodesOnly() const { return major > 1 || minor >= 36; }
  // A container that requests neither memory nor hugepages is nothing to the memory manager (1.37:
  // cm/memorymanager/policy_static.go); before, it is allocated nothing, which can fail.
  [[nodiscard]] bool SkipsContainersWithoutMemory() const { return major > 1 || minor >= 37; }
  // distribute-cpus-across-numa prefers NUMA nodes of one socket together with align-by-socket, and
  // asks no NUMA node for more than it has (1.37: cm/cpumanager/cpu_assignment.go).
  [[nodiscard]] bool DistributesCpusWithinSocket() const { return major > 1 || minor >= 37; }
  // CPUs that a container has already are kept whatever full-pcpus-only says now (1.37:
  // cm/cpumanager/policy_static.go, Allocate); before, the check came first.
  [[nodiscard]] bool KeepsAllocatedCpusUnchecked() const { return major > 1 || minor >= 37; }
  // The options strict-cpu-reservation (1.35) and prefer-align-cpus-by-uncorecache (1.36) need no
  // feature gate (cm/cpumanager/policy_options.go).
  [[nodiscard]] bool StrictCpuReservationIsStable() const { return major > 1 || minor >= 35; }
  [[nodiscard]] bool UncoreCacheAlignmentIsStable() const { return major > 1 || minor >= 36; }
  // The topology manager's option max-allowable-numa-nodes needs no feature gate (1.35:
  // cm/topologymanager/policy_options.go).
  [[nodiscard]] bool MaxAllowableNumaNodesIsStable() const { return major > 1 || minor >= 35; }
  // The feature gate PodLevelResourceManagers, off by default: alpha in 1.36, beta since
  // (features/kube_features.go).
  [[nodiscard]] bool HasPodLevelResourceManagers() const { return major > 1 || minor >= 36; }
  [[nodiscard]] bool PodLevelResourceManagersAreAlpha() const { return major == 1 && minor <= 36; }

  // In-place resize: of init containers too (1.36, gate InPlacePodVerticalScalingInitContainers),
  // and of Pods that have resources of their own (1.36, gate
  // InPlacePodLevelResourcesVerticalScaling); before, no API server lets that pass.
  [[nodiscard]] bool ResizesInitContainers() const { return major > 1 || minor >= 36; }
  [[nodiscard]] bool ResizesPodLevelResources() const { return major > 1 || minor >= 36; }
  // The CPU and the memory manager read what a running container requests from the Pod's status,
  // which has what it was allocated, not from its spec (until 1.34).
  [[nodiscard]] bool ReadsRequestsFromStatus() const { return major < 1 || minor <= 34; }
  // … nothing is allocated in one, and CPUs and memory are not asked about (1.37: Allocate and
  // GetTopologyHints of all managers look at lifecycle.Operation).
  [[nodiscard]] bool ResizesByDevicesAlone() const { return major > 1 || minor >= 37; }

  constexpr auto operator<=>(const KubeletVersion&) const = default;
};

}  // namespace numafit::policy
