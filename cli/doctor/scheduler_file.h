// The part of `numafit doctor` that reads a kube-scheduler configuration file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"

namespace numafit::cli::doctor {

struct SchedulerFileOptions {
  std::string file;          // for messages
  std::string extender_url;  // urlPrefix of numafit's entry; empty: found by its looks
  // cache::NodesToJson of the fleet; null: not known.
  const nlohmann::json* fleet = nullptr;
};

// Adds what is found in a KubeSchedulerConfiguration, YAML or JSON. InvalidArgument: it is none.
absl::Status CheckSchedulerFile(std::string_view text, const SchedulerFileOptions& options,
                                Findings* findings);

}  // namespace numafit::cli::doctor
