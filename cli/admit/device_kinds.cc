#include "cli/admit/device_kinds.h"

#include <algorithm>

namespace numafit::cli {

std::string NumaSetName(const CaseDevice& device) {
  if (!device.numa) return "none";
  if (device.numa->empty()) return "empty";
  const std::set<int> ids(device.numa->begin(), device.numa->end());
  std::string name;
  for (const int id : ids) name += (name.empty() ? "" : ",") + std::to_string(id);
  return name;
}

DeviceKinds::DeviceKinds(const Case& replayed) {
  for (const auto& [resource, order] : replayed.prefer) with_preference_.insert(resource);
  for (const CaseStep& step : replayed.steps) {
    for (const auto& [resource, order] : step.prefer) with_preference_.insert(resource);
  }
  for (const auto& [resource, devices] : replayed.devices) Note(resource, devices);
  for (const CaseStep& step : replayed.steps) {
    for (const auto& [resource, devices] : step.devices) Note(resource, devices);
  }
  std::map<Key, int> numbers;  // by resource and cohort
  for (const auto& [device, cohort] : cohorts_) {
    const int next = static_cast<int>(numbers.size());
    const auto [at, is_new] = numbers.emplace(Key{device.resource, cohort}, next);
    if (is_new) resources_.push_back(device.resource);
    kinds_[device] = at->second;
  }
}

void DeviceKinds::Note(const std::string& resource, const std::vector<CaseDevice>& devices) {
  const std::string list = std::to_string(lists_[resource]++);
  for (const CaseDevice& device : devices) {
    std::string& cohort = cohorts_[{resource, device.id}];
    if (cohort.empty() && with_preference_.contains(resource)) cohort = device.id;
    cohort += "|" + list + ":" + NumaSetName(device) + (device.healthy ? "" : "!");
  }
}

int DeviceKinds::Find(const std::string& resource, const std::string& id) const {
  const auto at = kinds_.find({resource, id});
  return at == kinds_.end() ? -1 : at->second;
}

const std::string& DeviceKinds::Cohort(const std::string& resource, const std::string& id) const {
  return cohorts_.at({resource, id});
}

}  // namespace numafit::cli
