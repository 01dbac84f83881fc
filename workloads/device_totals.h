// What a Pod holds at once of every device, as the scheduler and quotas count it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "policy/demand.h"

namespace numafit::workloads {

// Its containers and sidecars together, or an init container beside the sidecars before it,
// whichever is more. Resources of which it holds none are left out.
[[nodiscard]] std::map<std::string, std::int64_t> DeviceTotals(const policy::Demand& demand);

}  // namespace numafit::workloads
