// Devices of a case that can never be told apart.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/admit/case.h"
#include "policy/topology.h"

namespace numafit::cli {

// The kubelet's pick among devices that are alike is random, and a replay counts them instead of
// naming them. But devices that are alike now may differ later in the case: after a new list, or
// once the plugin has a preference. So devices are of one kind only if they are alike through the
// whole case, which is known from its first line; a state of the replay then never has to be split.
//
// A device's kind is written as its cohort (policy::DeviceSpec), so every topology that the case
// goes through has exactly one class per kind that it lists.
class DeviceKinds {
 public:
  explicit DeviceKinds(const Case& replayed);

  // -1 when no list of the case has such a device.
  [[nodiscard]] int Find(const std::string& resource, const std::string& id) const;
  // The resource of a kind.
  [[nodiscard]] const std::string& Resource(int kind) const {
    return resources_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const std::string& Cohort(const std::string& resource, const std::string& id) const;

 private:
  struct Key {
    std::string resource;
    std::string id;
    auto operator<=>(const Key&) const = default;
  };
  void Note(const std::string& resource, const std::vector<CaseDevice>& devices);

  std::map<Key, std::string> cohorts_;
  std::map<Key, int> kinds_;            // of a device
  std::vector<std::string> resources_;  // by kind
  std::map<std::string, int> lists_;    // how many lists of a resource were noted
  std::set<std::string> with_preference_;
};

// "0,1", "none", "empty": the NUMA set of a device as answers write it.
[[nodiscard]] std::string NumaSetName(const CaseDevice& device);

}  // namespace numafit::cli
