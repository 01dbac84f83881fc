// What a Pod asks the kubelet for, in the kubelet's own order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace numafit::policy {

enum class QosClass { kGuaranteed, kBurstable, kBestEffort };

// What the Pod's owner wants of alignment (annotation numafit.io/alignment, design 3).
enum class AlignmentNeed { kGuaranteed, kFit, kPreferred };

struct ContainerDemand {
  enum class Kind { kInit, kSidecar, kApp };

  std::string name;
  Kind kind = Kind::kApp;
  // Device resources from limits (zero quantities are kept: the kubelet makes hints of them).
  // Sorted by name.
  std::map<std::string, std::int64_t, std::less<>> devices;
  // Requests of "cpu", "memory" and "hugepages-<size>" in thousandths of a CPU or byte, a missing
  // request filled from the limit. What the CPU and the memory manager go by.
  std::map<std::string, std::int64_t, std::less<>> requests;
  // It requests CPUs and memory, and of both as much as its limits say. Decides about the
  // containers of Pods with resources of their own alone (cm/qos,
  // IsContainerEquivalentQOSGuaranteed).
  bool requests_equal_limits = false;
};

// Whether the name is one of the resources that ContainerDemand::requests holds.
[[nodiscard]] bool IsComputeResource(std::string_view name);

struct Demand {
  // Init containers and sidecars in spec order, then app containers.
  std::vector<ContainerDemand> containers;
  QosClass qos = QosClass::kBestEffort;
  // The Pod has CPU, memory or hugepages in its own spec.resources. Kubelets up to 1.37 give such a
  // Pod neither CPUs nor memory of its own, unless the gate PodLevelResourceManagers is on
  // (pod_level.h).
  bool pod_level_resources = false;
  // Then: its own requests of them, as in ContainerDemand::requests.
  std::map<std::string, std::int64_t, std::less<>> pod_requests;
  AlignmentNeed alignment = AlignmentNeed::kFit;
  bool distinct_endpoints = false;
  // Names that count as accelerators and as endpoints for the alignment need, sorted. Filled by
  // whoever makes the Demand (api/resource_class.h decides).
  std::vector<std::string> accelerators;
  std::vector<std::string> endpoints;
  // Of the endpoints, those whose tokens may be the same endpoint.
  std::vector<std::string> shared_endpoints;

  [[nodiscard]] bool IsGuaranteed() const;
  // Equal text = every question has the same answer; names of containers do not matter.
  [[nodiscard]] std::string Fingerprint() const;
  // No container asks for a device resource.
  [[nodiscard]] bool AsksForNoDevice() const;
};

}  // namespace numafit::policy
