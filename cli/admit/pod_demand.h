// A Pod of a case as the mirror wants it.
#pragma once

#include "cli/admit/case.h"
#include "policy/demand.h"

namespace numafit::cli {

[[nodiscard]] policy::ContainerDemand::Kind KindOf(CaseContainer::Kind kind);
[[nodiscard]] policy::Demand DemandOf(const CasePod& pod);

}  // namespace numafit::cli
