#include "policy/cpu_manager/options.h"

#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "policy/feature_gates.h"

namespace numafit::policy {
namespace {

constexpr char kFull[] = "full-pcpus-only";
constexpr char kAcrossNuma[] = "distribute-cpus-across-numa";
constexpr char kBySocket[] = "align-by-socket";
constexpr char kAcrossCores[] = "distribute-cpus-across-cores";
constexpr char kStrict[] = "strict-cpu-reservation";
constexpr char kUncore[] = "prefer-align-cpus-by-uncorecache";

// How far an option has come; what is not stable needs its gate.
enum class Stage { kAlpha, kBeta, kStable };

struct Option {
  bool CpuManagerOptions::*value;
  Stage stage;
};

std::optional<Option> Find(std::string_view name, KubeletVersion version) {
  if (name == kFull) return Option{&CpuManagerOptions::full_pcpus_only, Stage::kStable};
  if (name == kAcrossNuma) {
    return Option{&CpuManagerOptions::distribute_cpus_across_numa, Stage::kBeta};
  }
  if (name == kBySocket) return Option{&CpuManagerOptions::align_by_socket, Stage::kAlpha};
  if (name == kAcrossCores) {
    return Option{&CpuManagerOptions::distribute_cpus_across_cores, Stage::kAlpha};
  }
  if (name == kStrict) {
    return Option{&CpuManagerOptions::strict_cpu_reservation,
                  version.StrictCpuReservationIsStable() ? Stage::kStable : Stage::kBeta};
  }
  if (name == kUncore) {
    return Option{&CpuManagerOptions::prefer_align_cpus_by_uncorecache,
                  version.UncoreCacheAlignmentIsStable() ? Stage::kStable : Stage::kBeta};
  }
  return std::nullopt;
}

absl::Status Refuse(const std::string& name, const std::string& value, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("cpuManagerPolicyOptions: ", name, "=", value,
                                                 ": ", absl::string_view(why.data(), why.size())));
}

}  // namespace

absl::StatusOr<CpuManagerOptions> CpuManagerOptions::Parse(
    const std::map<std::string, std::string>& options, KubeletVersion version,
    const std::map<std::string, bool>& feature_gates) {
  CpuManagerOptions out;
  for (const auto& [name, value] : options) {
    const std::optional<Option> option = Find(name, version);
    if (!option.has_value()) return Refuse(name, value, "no such option");
    if (option->stage == Stage::kAlpha &&
        !GateIsOn(feature_gates, "CPUManagerPolicyAlphaOptions", "AllAlpha", false)) {
      return Refuse(name, value, "needs the feature gate CPUManagerPolicyAlphaOptions");
    }
    if (option->stage == Stage::kBeta &&
        !GateIsOn(feature_gates, "CPUManagerPolicyBetaOptions", "AllBeta", true)) {
      return Refuse(name, value, "the feature gate CPUManagerPolicyBetaOptions is off");
    }
    const std::optional<bool> on = ParseGoBool(value);
    if (!on.has_value()) return Refuse(name, value, "must be true or false");
    out.*option->value = *on;
  }
  const auto exclude = [](const char* a, const char* b) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpuManagerPolicyOptions: ", a, " and ", b, " exclude each other"));
  };
  if (out.distribute_cpus_across_cores) {
    if (out.full_pcpus_only) return exclude(kFull, kAcrossCores);
    if (out.distribute_cpus_across_numa) return exclude(kAcrossNuma, kAcrossCores);
    if (out.prefer_align_cpus_by_uncorecache) return exclude(kUncore, kAcrossCores);
  }
  if (out.prefer_align_cpus_by_uncorecache && out.distribute_cpus_across_numa) {
    return exclude(kUncore, kAcrossNuma);
  }
  return out;
}

absl::Status CpuManagerOptions::Check(const CpuTopology& topology, TopologyPolicy policy) const {
  if (!align_by_socket) return absl::OkStatus();
  if (policy == TopologyPolicy::kSingleNumaNode) {
    return Refuse(kBySocket, "true", "not with the topology policy single-numa-node");
  }
  if (topology.sockets().size() > topology.numa_nodes().size()) {
    return Refuse(kBySocket, "true",
                  "not on a machine with more sockets than NUMA nodes that have CPUs");
  }
  return absl::OkStatus();
}

}  // namespace numafit::policy
