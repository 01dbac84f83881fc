// A Pod of a case as the mirror wants it.
#pragma once

#include <vector>

#include "cli/admit/case.h"
#include "cli/admit/world.h"
#include "policy/demand.h"
#include "policy/readmission.h"

namespace numafit::cli {

[[nodiscard]] policy::ContainerDemand::Kind KindOf(CaseContainer::Kind kind);
[[nodiscard]] policy::Demand DemandOf(const CasePod& pod);
// CPUs and memory of each container, and whether it runs; no devices.
[[nodiscard]] std::vector<policy::HeldContainer> HeldBy(const ActivePod& active,
                                                        const CasePod& pod);

}  // namespace numafit::cli
