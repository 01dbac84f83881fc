#include "policy/predicates.h"

#include <algorithm>
#include <array>

namespace numafit::policy {
namespace {

bool IsHugepages(std::string_view name) {
  return name.starts_with("hugepages-");
}

// What Resource.ScalarResources keeps; other names (storage, say) count nowhere.
bool IsScalar(std::string_view name) {
  return IsExtendedResourceName(name) || IsHugepages(name) ||
         name.find("kubernetes.io/") != std::string_view::npos ||
         name.starts_with("attachable-volumes-");
}

bool IsPodLevel(std::string_view name) {
  return name == "cpu" || name == "memory" || IsHugepages(name);
}

void AddAll(ResourceAmounts& sum, const ResourceAmounts& more) {
  for (const auto& [resource, amount] : more) sum[resource] += amount;
}

void RaiseTo(ResourceAmounts& most, const ResourceAmounts& other) {
  for (const auto& [resource, amount] : other) {
    const auto [found, is_new] = most.try_emplace(resource, amount);
    if (!is_new) found->second = std::max(found->second, amount);
  }
}

std::int64_t At(const ResourceUnits& units, std::string_view resource) {
  const auto found = units.find(resource);
  return found == units.end() ? 0 : found->second;
}

// removeMissingExtendedResources.
PodRequestSpec WithoutMissing(const PodRequestSpec& pod, const ResourceUnits& allocatable) {
  PodRequestSpec result = pod;
  for (PodRequestSpec::Container& container : result.containers) {
    std::erase_if(container.requests, [&](const auto& item) {
      return IsExtendedResourceName(item.first) && !allocatable.contains(item.first);
    });
  }
  return result;
}

ResourceUnits AtLeastGiven(const NodeCounts& node) {
  ResourceUnits allocatable = node.allocatable;
  for (const auto& [resource, given] : node.devices_given) {
    const auto [found, is_new] = allocatable.try_emplace(resource, given);
    if (!is_new) found->second = std::max(found->second, given);
  }
  return allocatable;
}

}  // namespace

ResourceUnits ToUnits(const ResourceAmounts& amounts) {
  ResourceUnits units;
  for (const auto& [resource, milli] : amounts) {
    const std::int64_t whole = milli / 1000 + (milli % 1000 > 0 ? 1 : 0);
    units.emplace(resource, resource == "cpu" ? milli : whole);
  }
  return units;
}

ResourceAmounts EffectiveRequests(const PodRequestSpec& pod) {
  using Kind = ContainerDemand::Kind;
  ResourceAmounts sum;
  ResourceAmounts sidecars;
  ResourceAmounts while_starting;
  for (const PodRequestSpec::Container& container : pod.containers) {
    if (container.kind != Kind::kInit) AddAll(sum, container.requests);
    if (container.kind == Kind::kSidecar) {
      AddAll(sidecars, container.requests);
      RaiseTo(while_starting, sidecars);
    } else if (container.kind == Kind::kInit) {
      ResourceAmounts beside_sidecars = sidecars;
      AddAll(beside_sidecars, container.requests);
      RaiseTo(while_starting, beside_sidecars);
    }
  }
  RaiseTo(sum, while_starting);
  for (const auto& [resource, amount] : pod.pod_level) {
    if (IsPodLevel(resource)) sum[resource] = amount;
  }
  AddAll(sum, pod.overhead);
  return sum;
}

void NodeCounts::Add(const PodRequestSpec& pod) {
  ++pods;
  for (const auto& [resource, amount] : ToUnits(EffectiveRequests(pod))) {
    requested[resource] += amount;
  }
}

std::vector<std::string> OutOfResource(const PodRequestSpec& pod, const NodeCounts& node) {
  const ResourceUnits allocatable = AtLeastGiven(node);
  if (node.pods + 1 > At(allocatable, "pods")) return {"OutOfpods"};
  const ResourceUnits wanted = ToUnits(EffectiveRequests(WithoutMissing(pod, allocatable)));
  const auto is_short = [&](std::string_view resource) {
    const std::int64_t amount = At(wanted, resource);
    return amount > 0 && amount > At(allocatable, resource) - At(node.requested, resource);
  };
  for (const std::string_view resource : std::array{"cpu", "memory", "ephemeral-storage"}) {
    if (is_short(resource)) return {"OutOf" + std::string(resource)};
  }
  std::vector<std::string> reasons;
  for (const auto& [resource, amount] : wanted) {
    if (IsScalar(resource) && is_short(resource)) reasons.push_back("OutOf" + resource);
  }
  return reasons;
}

bool IsExtendedResourceName(std::string_view name) {
  return name.find('/') != std::string_view::npos &&
         name.find("kubernetes.io/") == std::string_view::npos && !name.starts_with("requests.");
}

}  // namespace numafit::policy
