#include "agent/endpoint_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "agent/machine/rdma.h"
#include "api/resource_class.h"

namespace numafit::agent {
namespace {

std::vector<int> Sorted(const std::set<int>& nodes) {
  return {nodes.begin(), nodes.end()};
}

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view text) {
  return !text.empty() &&
         std::any_of(patterns.begin(), patterns.end(),
                     [text](const std::string& p) { return MatchesPattern(p, text); });
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  // Each further piece where it first fits; the last one at the end.
  for (;;) {
    const std::size_t next = pattern.find('*');
    if (next == std::string_view::npos) return text.ends_with(pattern);
    const std::size_t at = text.find(pattern.substr(0, next));
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + next);
    pattern.remove_prefix(next + 1);
  }
}

std::vector<int> EndpointMap::Apply(const EndpointRule& rule) const {
  std::set<int> nodes(rule.numa_nodes.begin(), rule.numa_nodes.end());
  for (const v1alpha1::RdmaDevice& device : rdma_devices_) {
    if (device.numa_node() < 0) continue;
    if (MatchesAny(rule.rdma_devices, device.name()) || MatchesAny(rule.netdevs, device.netdev()) ||
        MatchesAny(rule.pci_addresses, device.pci_address())) {
      nodes.insert(device.numa_node());
    }
  }
  for (const std::string& address : rule.pci_addresses) {
    const auto found = pci_numa_nodes_.find(address);
    if (found != pci_numa_nodes_.end()) nodes.insert(found->second);
  }
  return Sorted(nodes);
}

std::vector<int> EndpointMap::FromId(std::string_view device_id) const {
  const std::string key(api::EndpointKey(device_id));
  for (const std::string& candidate : {std::string(device_id), key}) {
    const auto found = pci_numa_nodes_.find(candidate);
    if (found != pci_numa_nodes_.end()) return {found->second};
  }
  std::string_view rest = key;
  while (!rest.empty()) {
    const std::size_t colon = rest.rfind(':');
    const std::string_view part = colon == std::string_view::npos ? rest : rest.substr(colon + 1);
    for (const v1alpha1::RdmaDevice& device : rdma_devices_) {
      if (part.empty() || (device.name() != part && device.netdev() != part)) continue;
      return device.numa_node() < 0 ? std::vector<int>{} : std::vector<int>{device.numa_node()};
    }
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(0, colon);
  }
  return {};
}

std::vector<int> EndpointMap::NumaNodes(const std::string& resource,
                                        const std::string& device_id) const {
  for (const EndpointRule& rule : rules_) {
    if (MatchesPattern(rule.resource, resource) && MatchesPattern(rule.devices, device_id)) {
      return Apply(rule);
    }
  }
  if (resource == "rdma.io/hca") {
    std::set<int> nodes;
    for (const v1alpha1::RdmaDevice& device : rdma_devices_) {
      if (device.numa_node() >= 0) nodes.insert(device.numa_node());
    }
    return Sorted(nodes);
  }
  return FromId(device_id);
}

std::string EndpointMap::Unmatched() const {
  std::string text;
  const auto check = [&](const EndpointRule& rule, const std::vector<std::string>& patterns,
                         std::string_view what, auto name_of) {
    for (const std::string& pattern : patterns) {
      const bool found =
          std::any_of(rdma_devices_.begin(), rdma_devices_.end(),
                      [&](const auto& device) { return MatchesPattern(pattern, name_of(device)); });
      if (found) continue;
      text += fmt::format("{}{}: no {} \"{}\" here", text.empty() ? "" : "; ", rule.resource, what,
                          pattern);
    }
  };
  for (const EndpointRule& rule : rules_) {
    check(rule, rule.rdma_devices, "RDMA device",
          [](const v1alpha1::RdmaDevice& d) -> const std::string& { return d.name(); });
    check(rule, rule.netdevs, "RDMA device with network device",
          [](const v1alpha1::RdmaDevice& d) -> const std::string& { return d.netdev(); });
    for (const std::string& address : rule.pci_addresses) {
      if (pci_numa_nodes_.count(address) != 0) continue;
      text += fmt::format("{}{}: no PCI function {} with a NUMA node here",
                          text.empty() ? "" : "; ", rule.resource, address);
    }
  }
  return text;
}

}  // namespace numafit::agent
