#include "policy/feature_gates.h"

namespace numafit::policy {

bool GateIsOn(const std::map<std::string, bool>& gates, const char* gate, const char* all,
              bool by_default) {
  for (const char* name : {gate, all}) {
    if (const auto at = gates.find(name); at != gates.end()) return at->second;
  }
  return by_default;
}

bool PodLevelResourceManagersAreOn(const KubeletSettings& kubelet) {
  if (!kubelet.version.HasPodLevelResourceManagers()) return false;
  const char* all = kubelet.version.PodLevelResourceManagersAreAlpha() ? "AllAlpha" : "AllBeta";
  return GateIsOn(kubelet.feature_gates, "PodLevelResourceManagers", all, false);
}

}  // namespace numafit::policy
