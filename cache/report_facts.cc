#include "cache/report_facts.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "api/node_report.pb.h"

namespace numafit::cache {
namespace {

bool IsPlaceKnown(const v1alpha1::DeviceGroup& group) {
  const auto& numa_nodes = group.no_topology() ? group.actual_numa_nodes() : group.numa_nodes();
  return std::any_of(numa_nodes.begin(), numa_nodes.end(), [](int numa) { return numa >= 0; });
}

}  // namespace

ReportFacts FactsOf(const v1alpha1::NodeReportStatus& report, const api::ResourceClasses& classes) {
  ReportFacts facts;
  absl::Time observed;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, report.observed_time(), &observed, &error)) {
    facts.observed_time = absl::ToUnixSeconds(observed);
  }
  facts.agent_version = report.agent_version();
  facts.configuration_confirmed = report.kubelet().confirmed();
  for (const v1alpha1::Source& source : report.sources()) {
    if (!source.error().empty()) facts.source_errors.push_back({source.name(), source.error()});
  }
  for (const v1alpha1::Resource& resource : report.resources()) {
    const api::ResourceKind kind = classes.Classify(resource.name());
    if (kind != api::ResourceKind::kAccelerator && !api::IsEndpoint(kind)) continue;
    int devices = 0;
    for (const v1alpha1::DeviceGroup& group : resource.groups()) {
      if (!group.unhealthy() && !IsPlaceKnown(group)) devices += group.count();
    }
    if (devices > 0) facts.without_numa.push_back({resource.name(), devices});
  }
  return facts;
}

}  // namespace numafit::cache
