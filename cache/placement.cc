#include "cache/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cache/spreads.h"

namespace numafit::cache {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxHeld = 16;

std::string NumaKey(const policy::Topology::DeviceClass& device_class) {
  if (!device_class.has_topology) return "none";
  std::string key;
  device_class.numa.ForEach([&](int id) {
    if (!key.empty()) key += ',';
    key += std::to_string(id);
  });
  return key;
}

const policy::Topology::Pool& PoolOf(const policy::Topology& topology, int class_index) {
  const auto pools = topology.pools();
  const auto found = std::find_if(pools.begin(), pools.end(), [&](const auto& pool) {
    return class_index >= pool.first_class && class_index < pool.first_class + pool.class_count;
  });
  return *found;
}

json DevicesJson(const policy::Topology& topology, const policy::DeviceHolding& holding) {
  json devices = json::object();
  for (const policy::ClassCount& item : holding) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(item.class_index)];
    json& count = devices[PoolOf(topology, item.class_index).resource][NumaKey(device_class)];
    count = count.is_null() ? item.count : count.get<int>() + item.count;
  }
  return devices;
}

json NumaJson(const policy::Topology& topology, const policy::DeviceHolding& holding) {
  policy::NumaMask mask;
  for (const policy::ClassCount& item : holding) {
    mask = mask | topology.classes()[static_cast<std::size_t>(item.class_index)].numa;
  }
  json ids = json::array();
  mask.ForEach([&](int id) { ids.push_back(id); });
  return ids;
}

// The one healthy class of the pool with this key.
std::optional<int> FindClass(const policy::Topology& topology, int pool_index,
                             const std::string& numa_key) {
  const policy::Topology::Pool& pool = topology.pools()[static_cast<std::size_t>(pool_index)];
  std::optional<int> found;
  for (int i = pool.first_class; i < pool.first_class + pool.class_count; ++i) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(i)];
    if (!device_class.healthy || NumaKey(device_class) != numa_key) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::optional<policy::DeviceHolding> HoldingFromJson(const policy::Topology& topology,
                                                     const json& devices) {
  policy::DeviceHolding holding;
  if (!devices.is_object()) return std::nullopt;
  for (const auto& [resource, counts] : devices.items()) {
    const int pool = topology.FindPool(resource);
    if (pool < 0 || !counts.is_object()) return std::nullopt;
    for (const auto& [key, count] : counts.items()) {
      const std::optional<int> class_index = FindClass(topology, pool, key);
      if (!class_index || !count.is_number_integer()) return std::nullopt;
      const auto amount = count.get<std::int64_t>();
      const auto& device_class = topology.classes()[static_cast<std::size_t>(*class_index)];
      if (amount < 1 || amount > device_class.count) return std::nullopt;
      holding.push_back({*class_index, static_cast<int>(amount)});
    }
  }
  std::sort(holding.begin(), holding.end());
  return holding;
}

}  // namespace

std::string PlacementJson(const policy::Topology& topology, const policy::Demand& demand,
                          const policy::AdmitResult& admission,
                          const std::vector<policy::DeviceHolding>& held) {
  json placement = {
      {"certain", held.size() == 1 && admission.outcomes.size() == 1 && !admission.truncated}};
  json& containers = placement["containers"] = json::array();
  const policy::Outcome* outcome =
      admission.outcomes.empty() ? nullptr : &admission.outcomes.front();
  for (std::size_t i = 0; i < demand.containers.size(); ++i) {
    json container = {{"name", demand.containers[i].name}};
    if (outcome != nullptr && outcome->admitted && i < outcome->containers.size()) {
      const policy::DeviceHolding& devices = outcome->containers[i].devices;
      container["numa"] = NumaJson(topology, devices);
      container["devices"] = DevicesJson(topology, devices);
    }
    containers.push_back(std::move(container));
  }
  if (!held.empty() && held.size() <= kMaxHeld) {
    json& list = placement["held"] = json::array();
    for (const policy::DeviceHolding& holding : held)
      list.push_back(DevicesJson(topology, holding));
  }
  return placement.dump();
}

std::vector<policy::DeviceHolding> HeldFromPlacement(const policy::Topology& topology,
                                                     const policy::Demand& demand,
                                                     std::string_view placement) {
  const json document = json::parse(placement, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("held") || !document["held"].is_array()) {
    return {};
  }
  const PoolTotals totals = TotalsOf(topology, demand);
  std::vector<policy::DeviceHolding> held;
  for (const json& entry : document["held"]) {
    const std::optional<policy::DeviceHolding> holding = HoldingFromJson(topology, entry);
    if (!holding || TotalsOf(topology, *holding) != totals) return {};
    if (std::find(held.begin(), held.end(), *holding) == held.end()) held.push_back(*holding);
    if (held.size() > kMaxHeld) return {};
  }
  return held;
}

std::string HoldingText(const policy::Topology& topology, const policy::DeviceHolding& holding) {
  std::string text;
  for (const policy::ClassCount& item : holding) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(item.class_index)];
    const std::string numa = NumaKey(device_class);
    text += fmt::format(
        "{}{} {}{}{}", text.empty() ? "" : ", ", PoolOf(topology, item.class_index).resource,
        item.count, device_class.has_numa ? " on NUMA " : "", device_class.has_numa ? numa : "");
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace numafit::cache
