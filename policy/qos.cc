#include "policy/qos.h"

#include <string_view>

namespace numafit::policy {

bool RequestsEqualLimits(const ResourceAmounts& requests, const ResourceAmounts& limits) {
  for (const std::string_view name : {"cpu", "memory"}) {
    const auto request = requests.find(name);
    const auto limit = limits.find(name);
    if (request == requests.end() || request->second == 0) return false;
    if (limit == limits.end() || limit->second != request->second) return false;
  }
  return true;
}

void QosSums::Add(const ResourceAmounts& requests, const ResourceAmounts& limits) {
  int limited = 0;
  for (const std::string_view name : {"cpu", "memory"}) {
    const auto limit = limits.find(name);
    const bool has_limit = limit != limits.end() && limit->second > 0;
    if (has_limit) {
      ++limited;
      limits_[std::string(name)] += limit->second;
    }
    const auto request = requests.find(name);
    if (request != requests.end()) {
      if (request->second > 0) requests_[std::string(name)] += request->second;
    } else if (has_limit) {
      requests_[std::string(name)] += limit->second;
    }
  }
  every_container_limits_both_ &= limited == 2;
}

QosClass QosSums::Class() const {
  if (requests_.empty() && limits_.empty()) return QosClass::kBestEffort;
  return every_container_limits_both_ && requests_ == limits_ ? QosClass::kGuaranteed
                                                              : QosClass::kBurstable;
}

}  // namespace numafit::policy
