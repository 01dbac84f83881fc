// What a report says about itself and what it lacks: for people and for `numafit doctor`, nothing
// is decided by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/resource_class.h"

namespace numafit::v1alpha1 {
class NodeReportStatus;
}

namespace numafit::cache {

struct ReportFacts {
  std::int64_t observed_time = 0;  // by the agent's clock, seconds since the epoch; 0: not known
  std::string agent_version;
  // The kubelet itself has told its configuration.
  bool configuration_confirmed = false;

  // Sources that could not be read the last time.
  struct SourceError {
    std::string source;
    std::string error;
  };
  std::vector<SourceError> source_errors;

  // Healthy accelerators and endpoints whose NUMA node neither the kubelet nor the agent knows; by
  // resource.
  struct WithoutNuma {
    std::string resource;
    int devices = 0;
  };
  std::vector<WithoutNuma> without_numa;
};

[[nodiscard]] ReportFacts FactsOf(const v1alpha1::NodeReportStatus& report,
                                  const api::ResourceClasses& classes);

}  // namespace numafit::cache
