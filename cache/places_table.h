// Where Pods hold their devices, kept once for Pods that hold the same.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/held_places.h"

namespace numafit::cache {

// By container; null: none holds accelerators or endpoints.
using PodPlaces = std::shared_ptr<const std::vector<api::ContainerPlaces>>;

// A fleet has few distinct Pods. Entries that nobody uses any more are dropped when there are many.
// Not thread-safe; what it gives out may go anywhere.
class PlacesTable {
 public:
  [[nodiscard]] PodPlaces Intern(std::vector<api::ContainerPlaces> containers);
  // How many are in use.
  [[nodiscard]] std::size_t size() const;

 private:
  static constexpr std::size_t kMinKept = 256;
  std::size_t forget_at_ = kMinKept;
  absl::flat_hash_map<std::string, std::weak_ptr<const std::vector<api::ContainerPlaces>>> known_;
};

}  // namespace numafit::cache
