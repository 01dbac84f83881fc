// One state that the node of a case may be in.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "policy/compute_state.h"
#include "policy/cpu_set.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/usage.h"

namespace numafit::cli {

// A Pod that the kubelet has taken. A plain value.
struct ActivePod {
  // Devices are counted by kind (DeviceKinds), in the clothes of counts by class.
  policy::Holding holding;
  // What of it is whose, by container; empty when nobody has any.
  std::vector<policy::CpuSet> cpus;
  // … and devices, by kind; only of a Pod that the case resizes.
  std::vector<policy::DeviceHolding> devices;
  // The step whose Pod is in force: its admission, or the last resize that was taken.
  std::size_t asked = 0;
  // Its containers were started.
  bool started = false;

  friend bool operator==(const ActivePod&, const ActivePod&) = default;
  friend std::strong_ordering operator<=>(const ActivePod& a, const ActivePod& b);
};

// Of whom the managers remember what init containers have left over: of the Pod that was given
// something last, by each manager for itself. Kept only of Pods that the case resizes. A plain
// value.
struct LastGiven {
  std::string devices;  // the Pod; empty for others
  std::string cpus;
  std::string memory;
  policy::CpuSet left_cpus;
  policy::ReusableMemory left_memory;

  friend bool operator==(const LastGiven&, const LastGiven&) = default;
  friend std::strong_ordering operator<=>(const LastGiven&, const LastGiven&) = default;
};

// A plain value.
struct World {
  std::map<std::string, ActivePod> pods;
  // CPUs and memory of Pods that were removed or refused: the kubelet gives them back when it
  // admits the next Pod. Sorted.
  std::vector<policy::Holding> leaving;
  policy::ComputeState compute;
  // CPUs that no Pod has and nothing gives back (policy::Outcome::stranded).
  policy::CpuSet stranded;
  LastGiven last_given;

  friend bool operator==(const World&, const World&) = default;
  friend std::strong_ordering operator<=>(const World&, const World&) = default;
};

// `holding` goes to those that leave, its devices at once.
void AddLeaving(World& world, policy::Holding holding);
void RemovePod(World& world, const std::string& pod);

// `count` more of this class or kind.
void AddCount(policy::DeviceHolding& holding, int class_index, int count);

}  // namespace numafit::cli
