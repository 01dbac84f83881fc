// Where the devices of a container lie, and the one rule that says whether its accelerators and
// endpoints lie apart: agent, fleet and command line go by it.
//
// Plain values; thread-safe as such.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/resource_class.h"

namespace numafit::v1alpha1 {
class Container;
class NodeReportStatus;
class Pod;
}  // namespace numafit::v1alpha1

namespace numafit::api {

// Accelerators or endpoints of one resource in one place.
struct HeldPlace {
  std::string resource;
  bool is_accelerator = false;  // else an endpoint
  // Sorted; a device may lie on several. Empty: not known.
  std::vector<int> numa_nodes;
  // The device plugin tells the kubelet. Where it does not, the hardware's own place counts, as far
  // as the agent knows it.
  bool published = true;
  int count = 0;

  friend bool operator==(const HeldPlace&, const HeldPlace&) = default;
};

struct ContainerPlaces {
  std::string name;
  bool init = false;               // a regular init container
  std::vector<HeldPlace> devices;  // no (resource, place) twice

  friend bool operator==(const ContainerPlaces&, const ContainerPlaces&) = default;
};

enum class HeldAlignment {
  kNotNeeded,   // no accelerators, or no endpoints
  kAligned,     // some NUMA node has accelerators and endpoints of it
  kUnknown,     // nobody knows where its accelerators, or its endpoints, are
  kMisaligned,  // no NUMA node has both
};

// The rule. What is of unknown place does not count as long as others of its side have one.
[[nodiscard]] HeldAlignment AlignmentOf(const std::vector<HeldPlace>& devices);
// "not-needed", "aligned", "unknown", "misaligned": the words of tables and JSON.
[[nodiscard]] std::string_view HeldAlignmentName(HeldAlignment alignment);

// Adds `place` to the entry of the same resource and place, if there is one.
void AddPlace(HeldPlace place, std::vector<HeldPlace>* devices);

// What a container of a report holds of accelerators and endpoints. Entries that point at groups
// which the report does not have are left out, and NUMA nodes outside of 0 to 63.
[[nodiscard]] ContainerPlaces PlacesOf(const v1alpha1::NodeReportStatus& report,
                                       const v1alpha1::Container& container,
                                       const ResourceClasses& classes);
// Of its containers, those that hold some.
[[nodiscard]] std::vector<ContainerPlaces> PlacesOf(const v1alpha1::NodeReportStatus& report,
                                                    const v1alpha1::Pod& pod,
                                                    const ResourceClasses& classes);

// "container main: nvidia.com/gpu on NUMA 0, device.gpustack.ai/rdma on NUMA 1" for each container
// that is misaligned, with "; " between them; empty: there is none.
[[nodiscard]] std::string MisalignedText(const std::vector<ContainerPlaces>& containers);

}  // namespace numafit::api
