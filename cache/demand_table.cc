#include "cache/demand_table.h"

#include <algorithm>
#include <utility>

namespace numafit::cache {

std::shared_ptr<const policy::Demand> DemandTable::Intern(policy::Demand demand) {
  // Answers depend on the fingerprint alone; people are shown the names.
  std::string key = demand.Fingerprint();
  for (const policy::ContainerDemand& container : demand.containers) {
    key += '\n';
    key += container.name;
  }
  if (const auto found = demands_.find(key); found != demands_.end()) {
    if (std::shared_ptr<const policy::Demand> known = found->second.lock()) return known;
  }
  if (demands_.size() >= sweep_at_) {
    absl::erase_if(demands_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(kMinKept, demands_.size() * 2);
  }
  auto shared = std::make_shared<const policy::Demand>(std::move(demand));
  demands_[std::move(key)] = shared;
  return shared;
}

}  // namespace numafit::cache
