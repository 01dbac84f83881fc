#include "policy/demand.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "policy/mutation.h"

namespace numafit::policy {

bool Demand::IsGuaranteed() const {
  return qos == QosClass::kGuaranteed ||
         (Mutated(Mutation::kQosIgnored) && qos == QosClass::kBurstable);
}

bool IsComputeResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-");
}

std::string Demand::Fingerprint() const {
  std::string out = absl::StrCat(static_cast<int>(qos), "/", static_cast<int>(alignment), "/",
                                 distinct_endpoints ? 1 : 0, pod_level_resources ? 1 : 0);
  for (const ContainerDemand& container : containers) {
    absl::StrAppend(&out, "\n", static_cast<int>(container.kind));
    for (const auto& [resource, count] : container.devices) {
      absl::StrAppend(&out, " ", resource, "=", count);
    }
    if (!IsGuaranteed()) continue;
    if (pod_level_resources) absl::StrAppend(&out, container.requests_equal_limits ? " =" : " !");
    for (const auto& [resource, milli] : container.requests) {
      absl::StrAppend(&out, " ", resource, "=", milli, "m");
    }
  }
  for (const auto& [resource, milli] : pod_requests) {
    absl::StrAppend(&out, "\np ", resource, "=", milli, "m");
  }
  absl::StrAppend(&out, "\na ", absl::StrJoin(accelerators, " "), "\ne ",
                  absl::StrJoin(endpoints, " "), "\ns ", absl::StrJoin(shared_endpoints, " "));
  return out;
}

bool Demand::AsksForNoDevice() const {
  return std::all_of(containers.begin(), containers.end(),
                     [](const ContainerDemand& c) { return c.devices.empty(); });
}

}  // namespace numafit::policy
