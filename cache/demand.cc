#include "cache/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "policy/qos.h"

namespace numafit::cache {
namespace {

constexpr std::string_view kAlignmentAnnotation = "numafit.io/alignment";
constexpr std::string_view kDistinctAnnotation = "numafit.io/distinct-endpoints";

// What a device plugin can serve: names with a domain that is not Kubernetes' own
// (k8s.io/kubernetes pkg/apis/core/v1/helper IsExtendedResourceName).
bool IsExtendedResource(std::string_view name) {
  return name.find('/') != std::string_view::npos &&
         name.find("kubernetes.io/") == std::string_view::npos && !name.starts_with("requests.");
}

policy::ResourceAmounts ComputeAmounts(const api::ResourceList& list) {
  policy::ResourceAmounts amounts;
  for (const auto& [resource, quantity] : list) {
    if (policy::IsComputeResource(resource)) amounts.emplace(resource, quantity.milli());
  }
  return amounts;
}

absl::StatusOr<policy::ContainerDemand> ContainerFrom(const api::Container& container,
                                                      policy::ContainerDemand::Kind kind) {
  policy::ContainerDemand demand;
  demand.name = container.name;
  demand.kind = kind;
  for (const auto& [resource, quantity] : container.resources.limits) {
    if (!IsExtendedResource(resource)) continue;
    if (quantity.milli() < 0 || quantity.milli() % 1000 != 0) {
      return absl::InvalidArgumentError(
          fmt::format("container {}: resources.limits.{} is {}, expected a whole number of devices",
                      container.name, resource, quantity.ToString()));
    }
    demand.devices.emplace(resource, quantity.value());
  }
  demand.requests = ComputeAmounts(container.resources.requests);
  const policy::ResourceAmounts limits = ComputeAmounts(container.resources.limits);
  demand.requests.insert(limits.begin(), limits.end());
  demand.requests_equal_limits = policy::RequestsEqualLimits(demand.requests, limits);
  return demand;
}

policy::QosClass QosOf(const api::Pod& pod) {
  if (pod.status.qos_class == "Guaranteed") return policy::QosClass::kGuaranteed;
  if (pod.status.qos_class == "Burstable") return policy::QosClass::kBurstable;
  if (pod.status.qos_class == "BestEffort") return policy::QosClass::kBestEffort;
  policy::QosSums sums;
  const auto add = [&sums](const api::ResourceRequirements& resources) {
    sums.Add(ComputeAmounts(resources.requests), ComputeAmounts(resources.limits));
  };
  if (pod.resources) {
    add(*pod.resources);
  } else {
    for (const api::Container& container : pod.init_containers) add(container.resources);
    for (const api::Container& container : pod.containers) add(container.resources);
  }
  return sums.Class();
}

absl::Status ReadAnnotations(const api::Pod& pod, const DemandOptions& options,
                             policy::Demand& demand) {
  const auto by_namespace = options.namespace_alignment.find(pod.metadata.namespace_);
  demand.alignment = by_namespace != options.namespace_alignment.end() ? by_namespace->second
                                                                       : options.default_alignment;
  const api::StringMap& annotations = pod.metadata.annotations;
  if (const auto found = annotations.find(kAlignmentAnnotation); found != annotations.end()) {
    if (found->second == "guaranteed") {
      demand.alignment = policy::AlignmentNeed::kGuaranteed;
    } else if (found->second == "fit") {
      demand.alignment = policy::AlignmentNeed::kFit;
    } else if (found->second == "preferred") {
      demand.alignment = policy::AlignmentNeed::kPreferred;
    } else {
      return absl::InvalidArgumentError(
          fmt::format("annotation {} is \"{}\", expected guaranteed, fit or preferred",
                      kAlignmentAnnotation, found->second));
    }
  }
  if (const auto found = annotations.find(kDistinctAnnotation); found != annotations.end()) {
    if (found->second != "true" && found->second != "false") {
      return absl::InvalidArgumentError(fmt::format(
          "annotation {} is \"{}\", expected true or false", kDistinctAnnotation, found->second));
    }
    demand.distinct_endpoints = found->second == "true";
  }
  return absl::OkStatus();
}

void Classify(const api::ResourceClasses& classes, policy::Demand& demand) {
  std::set<std::string> resources;
  for (const policy::ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.devices) resources.insert(resource);
  }
  for (const std::string& resource : resources) {
    const api::ResourceKind kind = classes.Classify(resource);
    if (kind == api::ResourceKind::kAccelerator) {
      demand.accelerators.push_back(resource);
    } else if (api::IsEndpoint(kind)) {
      demand.endpoints.push_back(resource);
      if (kind == api::ResourceKind::kEndpointShared ||
          kind == api::ResourceKind::kEndpointVirtual) {
        demand.shared_endpoints.push_back(resource);
      }
    }
  }
}

}  // namespace

absl::StatusOr<policy::Demand> DemandFromPod(const api::Pod& pod,
                                             const api::ResourceClasses& classes,
                                             const DemandOptions& options) {
  policy::Demand demand;
  using Kind = policy::ContainerDemand::Kind;
  for (const api::Container& container : pod.init_containers) {
    absl::StatusOr<policy::ContainerDemand> item =
        ContainerFrom(container, container.restart_always ? Kind::kSidecar : Kind::kInit);
    if (!item.ok()) return item.status();
    demand.containers.push_back(*std::move(item));
  }
  for (const api::Container& container : pod.containers) {
    absl::StatusOr<policy::ContainerDemand> item = ContainerFrom(container, Kind::kApp);
    if (!item.ok()) return item.status();
    demand.containers.push_back(*std::move(item));
  }
  demand.qos = QosOf(pod);
  if (pod.resources) {
    demand.pod_requests = ComputeAmounts(pod.resources->requests);
    demand.pod_requests.merge(ComputeAmounts(pod.resources->limits));
  }
  demand.pod_level_resources = !demand.pod_requests.empty();
  if (absl::Status status = ReadAnnotations(pod, options, demand); !status.ok()) return status;
  Classify(classes, demand);
  return demand;
}

}  // namespace numafit::cache
