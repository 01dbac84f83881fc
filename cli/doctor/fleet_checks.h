// The part of `numafit doctor` that looks at the fleet, through the answers of the read API.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/doctor/finding.h"

namespace numafit::cli::doctor {

// `nodes` is cache::NodesToJson, `pods` cache::PodsToJson.
void CheckFleet(const nlohmann::json& nodes, const nlohmann::json& pods, Findings* findings);

}  // namespace numafit::cli::doctor
