// A Pod of a case. Throws CaseError (json_checks.h); for .cc files of this folder.
#pragma once

#include "api/quantity.h"
#include "cli/admit/case.h"
#include "cli/admit/json_checks.h"

namespace numafit::cli {

// Fails also on quantities below zero.
[[nodiscard]] api::Quantity ReadQuantity(const Node& node);

// `all`: also CaseContainer::asks.
[[nodiscard]] CasePod ReadPod(const Node& node, bool all = false);

}  // namespace numafit::cli
