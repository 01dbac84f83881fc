// What the Pods on a node hold.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "policy/topology.h"

namespace numafit::policy {

// `count` devices of the class with this index into Topology::classes().
struct ClassCount {
  int class_index = 0;
  int count = 0;

  friend bool operator==(const ClassCount&, const ClassCount&) = default;
  friend auto operator<=>(const ClassCount&, const ClassCount&) = default;
};

// Sorted by class, no class twice, no zero count.
using DeviceHolding = absl::InlinedVector<ClassCount, 4>;

// Devices in use per class, over all active Pods. A plain value, tied to one Topology.
class Usage {
 public:
  Usage() = default;
  explicit Usage(const Topology& topology) : taken_(topology.classes().size(), 0) {}

  [[nodiscard]] int taken(int class_index) const {
    return taken_[static_cast<std::size_t>(class_index)];
  }
  void Add(const DeviceHolding& holding) {
    for (const ClassCount& item : holding) {
      taken_[static_cast<std::size_t>(item.class_index)] += item.count;
    }
  }
  void Remove(const DeviceHolding& holding) {
    for (const ClassCount& item : holding) {
      taken_[static_cast<std::size_t>(item.class_index)] -= item.count;
    }
  }
  [[nodiscard]] const std::vector<std::int32_t>& raw() const { return taken_; }

  friend bool operator==(const Usage&, const Usage&) = default;
  friend auto operator<=>(const Usage&, const Usage&) = default;

 private:
  std::vector<std::int32_t> taken_;
};

}  // namespace numafit::policy
