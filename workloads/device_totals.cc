#include "workloads/device_totals.h"

#include <algorithm>

namespace numafit::workloads {

std::map<std::string, std::int64_t> DeviceTotals(const policy::Demand& demand) {
  using Kind = policy::ContainerDemand::Kind;
  std::map<std::string, std::int64_t> running;
  std::map<std::string, std::int64_t> peak;
  for (const policy::ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.devices) {
      if (container.kind == Kind::kInit) {
        peak[resource] = std::max(peak[resource], running[resource] + count);
      } else {
        running[resource] += count;
      }
    }
  }
  for (auto& [resource, count] : running) count = std::max(count, peak[resource]);
  std::erase_if(running, [](const auto& entry) { return entry.second <= 0; });
  return running;
}

}  // namespace numafit::workloads
