// The QoS class of a Pod. Twin of pkg/apis/core/v1/helper/qos (ComputePodQOS).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/numeric/int128.h"
#include "policy/demand.h"

namespace numafit::policy {

// Resource name to thousandths of its unit.
using ResourceAmounts = std::map<std::string, std::int64_t, std::less<>>;

// Of CPUs and of memory something is requested, and as much as the limit says (cm/qos,
// IsContainerEquivalentQOSGuaranteed). Missing requests are filled from the limits already.
[[nodiscard]] bool RequestsEqualLimits(const ResourceAmounts& requests,
                                       const ResourceAmounts& limits);

// Fed with the resources of every container, or with those of the Pod alone where it has its own.
// Only "cpu" and "memory" count, and zero quantities do not. A plain value.
class QosSums {
 public:
  // A missing request counts as the limit: the API server fills it in, files that people write do
  // not.
  void Add(const ResourceAmounts& requests, const ResourceAmounts& limits);
  [[nodiscard]] QosClass Class() const;

 private:
  // Wider than the amounts, which end at int64.
  using Sums = std::map<std::string, absl::int128, std::less<>>;

  Sums requests_;
  Sums limits_;
  bool every_container_limits_both_ = true;
};

}  // namespace numafit::policy
