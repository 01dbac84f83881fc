// What a Pod asks the kubelet for, in the kubelet's own order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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
};

struct Demand {
  // Init containers and sidecars in spec order, then app containers.
  std::vector<ContainerDemand> containers;
  QosClass qos = QosClass::kBestEffort;
  AlignmentNeed alignment = AlignmentNeed::kFit;
  bool distinct_endpoints = false;
  // Names that count as accelerators and as endpoints for the alignment need, sorted. Filled by
  // whoever makes the Demand (api/resource_class.h decides).
  std::vector<std::string> accelerators;
  std::vector<std::string> endpoints;
  // Of the endpoints, those whose tokens may be the same endpoint.
  std::vector<std::string> shared_endpoints;

  // Equal text = every question has the same answer; names of containers do not matter.
  [[nodiscard]] std::string Fingerprint() const;
  // No container asks for a device resource.
  [[nodiscard]] bool AsksForNoDevice() const;
};

}  // namespace numafit::policy
