// From a Pod to what policy/ is asked.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "api/objects.h"
#include "api/resource_class.h"
#include "policy/demand.h"

namespace numafit::cache {

struct DemandOptions {
  policy::AlignmentNeed default_alignment = policy::AlignmentNeed::kFit;
  // Namespace -> default, before default_alignment.
  std::map<std::string, policy::AlignmentNeed, std::less<>> namespace_alignment;
};

// Container order, QoS and quantities as the kubelet sees them. InvalidArgument names the
// annotation or the field and its value: an unknown numafit.io/alignment, a negative or
// fractional device quantity.
absl::StatusOr<policy::Demand> DemandFromPod(const api::Pod& pod,
                                             const api::ResourceClasses& classes,
                                             const DemandOptions& options);

}  // namespace numafit::cache
