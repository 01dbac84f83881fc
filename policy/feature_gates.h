// Feature gates of a kubelet, as its configuration sets them.
#pragma once

#include <map>
#include <string>

#include "policy/topology_spec.h"

namespace numafit::policy {

// `gate` where it is set, else the group that switches it (`all`: "AllAlpha", "AllBeta"), else the
// default (k8s.io/component-base/featuregate).
[[nodiscard]] bool GateIsOn(const std::map<std::string, bool>& gates, const char* gate,
                            const char* all, bool by_default);

// PodLevelResourceManagers: Pods with resources of their own get CPUs and memory by rules that are
// not mirrored (AllocatePod). False on versions that do not have the gate.
[[nodiscard]] bool PodLevelResourceManagersAreOn(const KubeletSettings& kubelet);

}  // namespace numafit::policy
