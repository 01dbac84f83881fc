// The part of `numafit doctor` that compares the quotas of Kueue's ClusterQueues with what the
// fleet could place, through the answer of the read API.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/doctor/finding.h"

namespace numafit::cli::doctor {

// `queues` is what GET /v1/cluster-queues answers. Adds nothing where there is no Kueue.
void CheckQuotas(const nlohmann::json& queues, Findings* findings);

}  // namespace numafit::cli::doctor
