#include "policy/topology_spec.h"

#include <algorithm>
#include <cstddef>

namespace numafit::policy {

std::string_view TopologyPolicyName(TopologyPolicy policy) {
  switch (policy) {
    case TopologyPolicy::kNone:
      return "none";
    case TopologyPolicy::kBestEffort:
      return "best-effort";
    case TopologyPolicy::kRestricted:
      return "restricted";
    case TopologyPolicy::kSingleNumaNode:
      return "single-numa-node";
  }
  return "none";
}

std::optional<TopologyPolicy> ParseTopologyPolicy(std::string_view name) {
  for (const TopologyPolicy policy :
       {TopologyPolicy::kNone, TopologyPolicy::kBestEffort, TopologyPolicy::kRestricted,
        TopologyPolicy::kSingleNumaNode}) {
    if (name == TopologyPolicyName(policy)) return policy;
  }
  return std::nullopt;
}

std::string_view TopologyScopeName(TopologyScope scope) {
  return scope == TopologyScope::kPod ? "pod" : "container";
}

std::optional<TopologyScope> ParseTopologyScope(std::string_view name) {
  if (name == "container") return TopologyScope::kContainer;
  if (name == "pod") return TopologyScope::kPod;
  return std::nullopt;
}

std::optional<bool> ParseGoBool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "TRUE", "true", "True"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "FALSE", "false", "False"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::vector<CoreSpec> CoresOf(const std::vector<int>& cpus, int threads_per_core, int socket) {
  std::vector<CoreSpec> cores;
  const auto step = static_cast<std::size_t>(std::max(1, threads_per_core));
  for (std::size_t i = 0; i < cpus.size(); i += step) {
    CoreSpec& core = cores.emplace_back();
    core.socket = socket;
    for (std::size_t k = i; k < std::min(i + step, cpus.size()); ++k) {
      core.threads.push_back(cpus[k]);
    }
  }
  return cores;
}

}  // namespace numafit::policy
