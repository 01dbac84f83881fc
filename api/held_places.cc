#include "api/held_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "api/node_report.pb.h"

namespace numafit::api {
namespace {

constexpr int kMaxNumaNodes = 64;

const v1alpha1::DeviceGroup* FindGroup(const v1alpha1::NodeReportStatus& report,
                                       const v1alpha1::HeldDevices& held) {
  const auto& resources = report.resources();
  const auto found = std::find_if(resources.begin(), resources.end(), [&](const auto& resource) {
    return resource.name() == held.resource();
  });
  if (found == resources.end() || held.group() < 0 || held.group() >= found->groups_size()) {
    return nullptr;
  }
  return &found->groups(held.group());
}

std::string NumaText(const std::vector<int>& numa_nodes) {
  std::string text;
  for (const int numa : numa_nodes) text += fmt::format("{}{}", text.empty() ? "" : ",", numa);
  return text.empty() ? "?" : text;
}

}  // namespace

HeldAlignment AlignmentOf(const std::vector<HeldPlace>& devices) {
  struct Side {
    bool held = false;
    std::uint64_t numa_nodes = 0;
  };
  Side accelerators;
  Side endpoints;
  for (const HeldPlace& place : devices) {
    Side& side = place.is_accelerator ? accelerators : endpoints;
    side.held = true;
    for (const int numa : place.numa_nodes) side.numa_nodes |= std::uint64_t{1} << numa;
  }
  if (!accelerators.held || !endpoints.held) return HeldAlignment::kNotNeeded;
  if (accelerators.numa_nodes == 0 || endpoints.numa_nodes == 0) return HeldAlignment::kUnknown;
  return (accelerators.numa_nodes & endpoints.numa_nodes) != 0 ? HeldAlignment::kAligned
                                                               : HeldAlignment::kMisaligned;
}

std::string_view HeldAlignmentName(HeldAlignment alignment) {
  switch (alignment) {
    case HeldAlignment::kNotNeeded:
      return "not-needed";
    case HeldAlignment::kAligned:
      return "aligned";
    case HeldAlignment::kUnknown:
      return "unknown";
    case HeldAlignment::kMisaligned:
      return "misaligned";
  }
  return "";
}

void AddPlace(HeldPlace place, std::vector<HeldPlace>* devices) {
  for (HeldPlace& known : *devices) {
    if (known.resource == place.resource && known.numa_nodes == place.numa_nodes &&
        known.published == place.published) {
      known.count += place.count;
      return;
    }
  }
  devices->push_back(std::move(place));
}

ContainerPlaces PlacesOf(const v1alpha1::NodeReportStatus& report,
                         const v1alpha1::Container& container, const ResourceClasses& classes) {
  ContainerPlaces places;
  places.name = container.name();
  places.init = container.init();
  for (const v1alpha1::HeldDevices& held : container.devices()) {
    const ResourceKind kind = classes.Classify(held.resource());
    const bool is_accelerator = kind == ResourceKind::kAccelerator;
    if (!is_accelerator && !IsEndpoint(kind)) continue;
    const v1alpha1::DeviceGroup* group = FindGroup(report, held);
    if (group == nullptr) continue;
    HeldPlace place{.resource = held.resource(),
                    .is_accelerator = is_accelerator,
                    .numa_nodes = {},
                    .published = !group->no_topology(),
                    .count = held.count()};
    for (const int numa : group->no_topology() ? group->actual_numa_nodes() : group->numa_nodes()) {
      if (numa >= 0 && numa < kMaxNumaNodes) place.numa_nodes.push_back(numa);
    }
    AddPlace(std::move(place), &places.devices);
  }
  return places;
}

std::vector<ContainerPlaces> PlacesOf(const v1alpha1::NodeReportStatus& report,
                                      const v1alpha1::Pod& pod, const ResourceClasses& classes) {
  std::vector<ContainerPlaces> containers;
  for (const v1alpha1::Container& container : pod.containers()) {
    ContainerPlaces places = PlacesOf(report, container, classes);
    if (!places.devices.empty()) containers.push_back(std::move(places));
  }
  return containers;
}

std::string MisalignedText(const std::vector<ContainerPlaces>& containers) {
  std::string text;
  for (const ContainerPlaces& container : containers) {
    if (AlignmentOf(container.devices) != HeldAlignment::kMisaligned) continue;
    std::string devices;
    for (const HeldPlace& place : container.devices) {
      devices += fmt::format("{}{} on NUMA {}", devices.empty() ? "" : ", ", place.resource,
                             NumaText(place.numa_nodes));
    }
    text += fmt::format("{}container {}: {}", text.empty() ? "" : "; ", container.name, devices);
  }
  return text;
}

}  // namespace numafit::api
