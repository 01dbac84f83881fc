// One state that the node of a case may be in.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "policy/compute_state.h"
#include "policy/usage.h"

namespace numafit::cli {

// A plain value. Devices are counted by kind (DeviceKinds), in the clothes of counts by class.
struct World {
  // Pods that are active.
  std::map<std::string, policy::Holding> pods;
  // CPUs and memory of Pods that were removed or refused: the kubelet gives them back when it
  // admits the next Pod. Sorted.
  std::vector<policy::Holding> leaving;
  policy::ComputeState compute;

  friend bool operator==(const World&, const World&) = default;
  friend std::strong_ordering operator<=>(const World&, const World&) = default;
};

// `holding` goes to those that leave, its devices at once.
void AddLeaving(World& world, policy::Holding holding);
void RemovePod(World& world, const std::string& pod);

}  // namespace numafit::cli
