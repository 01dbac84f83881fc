// Which resizes a case may have. Throws CaseError (json_checks.h); for .cc files of this folder.
#pragma once

#include <string>

#include "cli/admit/case.h"
#include "policy/topology_spec.h"

namespace numafit::cli {

// Fails on what no API server lets pass for this kubelet (ValidatePodResize): other containers,
// other resources than CPUs and memory, another QoS class, init containers and Pods with resources
// of their own before 1.36; and, unimplemented, on what the mirror cannot judge. `path` is the
// Pod's place in the case.
void CheckResize(const policy::KubeletSettings& kubelet, const CasePod& admitted,
                 const CasePod& asked, const std::string& path);

}  // namespace numafit::cli
