#include "workloads/node_table.h"

#include <algorithm>
#include <utility>

namespace numafit::workloads {

void NodeTable::Replace(const std::vector<api::Node>& nodes) {
  nodes_.clear();
  for (const api::Node& node : nodes) Upsert(node);
}

bool NodeTable::Upsert(const api::Node& node) {
  auto entry = std::make_shared<Entry>();
  entry->unschedulable = node.unschedulable;
  entry->labels = node.metadata.labels;
  for (const auto& [resource, quantity] : node.allocatable) {
    const bool is_device = resource.find('/') != std::string::npos;
    if (is_device && quantity.milli() > 0) entry->devices.push_back(resource);
  }
  std::shared_ptr<const Entry>& known = nodes_[node.metadata.name];
  if (known != nullptr && *known == *entry) return false;
  known = std::move(entry);
  return true;
}

void NodeTable::Delete(std::string_view name) {
  const auto found = nodes_.find(name);
  if (found != nodes_.end()) nodes_.erase(found);
}

bool NodeTable::Allows(std::string_view name, const api::StringMap& labels) const {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second->unschedulable) return false;
  const api::StringMap& has = found->second->labels;
  return std::all_of(labels.begin(), labels.end(), [&](const auto& wanted) {
    const auto label = has.find(wanted.first);
    return label != has.end() && label->second == wanted.second;
  });
}

int NodeTable::CountUnreported(const cache::Fleet& fleet, const api::StringMap& labels,
                               const policy::Demand& demand) const {
  const auto offers = [&](const Entry& entry) {
    for (const policy::ContainerDemand& container : demand.containers) {
      for (const auto& [resource, count] : container.devices) {
        const bool has = std::binary_search(entry.devices.begin(), entry.devices.end(), resource);
        if (count > 0 && !has) return false;
      }
    }
    return true;
  };
  int unreported = 0;
  const cache::Fleet::ReadGuard guard(fleet);
  for (const auto& [name, entry] : nodes_) {
    if (fleet.FindNode(guard, name, -1) >= 0 || !offers(*entry)) continue;
    if (Allows(name, labels)) ++unreported;
  }
  return unreported;
}

}  // namespace numafit::workloads
