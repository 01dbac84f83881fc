#include "cache/places_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace numafit::cache {
namespace {

// Names are Kubernetes' own, without blanks.
std::string KeyOf(const std::vector<api::ContainerPlaces>& containers) {
  std::string key;
  for (const api::ContainerPlaces& container : containers) {
    key += fmt::format("{} {}\n", container.name, container.init);
    for (const api::HeldPlace& place : container.devices) {
      key += fmt::format(" {} {} {} {}", place.resource, place.is_accelerator, place.published,
                         place.count);
      for (const int numa : place.numa_nodes) key += fmt::format(",{}", numa);
      key += '\n';
    }
  }
  return key;
}

}  // namespace

PodPlaces PlacesTable::Intern(std::vector<api::ContainerPlaces> containers) {
  if (containers.empty()) return nullptr;
  std::string key = KeyOf(containers);
  if (const auto found = known_.find(key); found != known_.end()) {
    if (PodPlaces known = found->second.lock()) return known;
  }
  if (known_.size() >= forget_at_) {
    absl::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    forget_at_ = std::max(kMinKept, known_.size() * 2);
  }
  auto places = std::make_shared<const std::vector<api::ContainerPlaces>>(std::move(containers));
  known_[std::move(key)] = places;
  return places;
}

std::size_t PlacesTable::size() const {
  return static_cast<std::size_t>(std::count_if(
      known_.begin(), known_.end(), [](const auto& entry) { return !entry.second.expired(); }));
}

}  // namespace numafit::cache
