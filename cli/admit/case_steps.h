// What happens in a case: devices, steps, and what was observed beside them. Throws CaseError
// (json_checks.h); for .cc files of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/admit/case.h"
#include "cli/admit/json_checks.h"
#include "policy/topology_spec.h"

namespace numafit::cli {

inline constexpr std::int64_t kMaxNumaId = policy::NumaMask::kMaxIds - 1;
inline constexpr std::int64_t kMaxGroupId = 1 << 20;

[[nodiscard]] std::string Quoted(const std::string& text);
[[nodiscard]] std::vector<int> ReadIntegers(const Node& node, std::int64_t most);

[[nodiscard]] DevicesByResource ReadDevices(const Node& node);
[[nodiscard]] OrderByResource ReadOrders(const Node& node);

// `devices` are those before the first step.
[[nodiscard]] std::vector<CaseStep> ReadSteps(const Node& steps, const DevicesByResource& devices,
                                              const policy::KubeletSettings& kubelet);

}  // namespace numafit::cli
