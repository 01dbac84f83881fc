#include "policy/cpu_manager/static_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

AssignmentRules RulesOf(const CpuTopology& topology, const CpuManagerOptions& options,
                        KubeletVersion version) {
  AssignmentRules rules;
  rules.spread = options.distribute_cpus_across_cores;
  rules.prefer_uncore =
      options.prefer_align_cpus_by_uncorecache && !Mutated(Mutation::kCpuUncoreIgnored);
  rules.distribute = options.distribute_cpus_across_numa && !Mutated(Mutation::kCpuNotDistributed);
  rules.group_size = options.full_pcpus_only ? topology.CpusPerCore() : 1;
  rules.capped_shares = version.DistributesCpusWithinSocket();
  rules.within_socket = options.align_by_socket && version.DistributesCpusWithinSocket();
  return rules;
}

// For the mutation alone: the width by the free CPUs.
int WidthOf(const ResourceHints& hints, std::int64_t requested) {
  absl::InlinedVector<std::int64_t, 8> free;
  for (const ResourceHints::Supply& supply : hints.supplies) free.push_back(supply.units);
  std::sort(free.rbegin(), free.rend());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < free.size(); ++i) {
    sum += free[i];
    if (sum >= requested) return static_cast<int>(i) + 1;
  }
  return hints.nodes.count();
}

absl::Status Refuse(std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("cpuManagerPolicy static: ", absl::string_view(why.data(), why.size())));
}

}  // namespace

CpuAllocation FailedCpus(TakeFailure failure) {
  const bool waits = failure == TakeFailure::kEndless || failure == TakeFailure::kIntractable;
  CpuAllocation allocation;
  allocation.outcome = waits ? CpuAllocation::Outcome::kIntractable
                             : CpuAllocation::Outcome::kUnexpectedAdmissionError;
  allocation.failure = failure;
  return allocation;
}

CpuManager::CpuManager(CpuTopology topology, CpuManagerOptions options, KubeletVersion version)
    : topology_(std::move(topology)),
      options_(options),
      version_(version),
      rules_(RulesOf(topology_, options_, version)) {}

absl::StatusOr<CpuManager> CpuManager::Create(CpuTopology topology,
                                              const KubeletSettings& kubelet) {
  const absl::StatusOr<CpuManagerOptions> options =
      CpuManagerOptions::Parse(kubelet.cpu_options, kubelet.version, kubelet.feature_gates);
  if (!options.ok()) return options.status();
  if (const absl::Status status = options->Check(topology, kubelet.policy); !status.ok()) {
    return status;
  }
  CpuManager manager(std::move(topology), *options, kubelet.version);
  if (const absl::Status status = manager.Reserve(kubelet); !status.ok()) return status;
  return manager;
}

absl::Status CpuManager::Reserve(const KubeletSettings& kubelet) {
  for (const int cpu : kubelet.reserved_cpus) {
    if (cpu < 0 || cpu >= CpuSet::kMaxIds || !topology_.all().contains(cpu)) {
      return Refuse(absl::StrCat("reserved CPU ", cpu, " is not on this machine"));
    }
    reserved_.Add(cpu);
  }
  constexpr std::int64_t kMilli = 1000;
  const std::int64_t wanted =
      kubelet.reserved_cpu_milli == 0
          ? reserved_.count()
          : kubelet.reserved_cpu_milli / kMilli + (kubelet.reserved_cpu_milli % kMilli > 0 ? 1 : 0);
  if (wanted == 0) return Refuse("kubeReserved and systemReserved must reserve some CPU");
  if (reserved_.empty()) {
    Taken taken = TakeByTopology(topology_, topology_.all(), wanted, rules_);
    if (taken.failure == TakeFailure::kEndless || taken.failure == TakeFailure::kIntractable) {
      return absl::UnimplementedError(
          "cpuManagerPolicy static: the kubelet would search for ever for the CPUs to reserve");
    }
    reserved_ = std::move(taken.cpus);
  }
  if (reserved_.count() != wanted) {
    return Refuse(absl::StrCat("the reserved CPUs are ", reserved_.count(),
                               ", kubeReserved and systemReserved ask for ", wanted));
  }
  reserved_.ForEach([&](int cpu) {
    const CpuTopology::Core& core =
        topology_.cores()[static_cast<std::size_t>(topology_.core_of(cpu))];
    for (int i = 0; i < core.size; ++i) reserved_cores_.Add(topology_.threads(core)[i]);
  });
  initial_ = topology_.all();
  if (options_.strict_cpu_reservation && !Mutated(Mutation::kCpuStrictIgnored)) {
    initial_ -= reserved_;
  }
  return absl::OkStatus();
}

ResourceHints CpuManager::Hints(const CpuSet& default_cpus, std::int64_t requested,
                                const CpuSet& reusable) const {
  if (requested == 0) return {};
  if (Mutated(Mutation::kCpuReservedInHints)) return HintsFor(default_cpus, reusable, requested);
  return HintsFor(default_cpus - reserved_, reusable, requested);
}

ResourceHints CpuManager::AllocatedHints(const CpuSet& held, std::int64_t requested) const {
  if (requested == 0) return {};
  ResourceHints hints = HintsFor(held, {}, requested);
  if (held.count() != requested) hints.kind = ResourceHints::Kind::kImpossible;
  return hints;
}

// generateCPUTopologyHints.
ResourceHints CpuManager::HintsFor(const CpuSet& available, const CpuSet& reusable,
                                   std::int64_t requested) const {
  ResourceHints hints;
  hints.nodes = topology_.numa_mask();
  hints.request = requested;
  hints.preferred_width = topology_.MinimalWidth(requested);
  std::int64_t all = 0;
  for (const CpuTopology::Group& node : topology_.numa_nodes()) {
    const NumaMask numa = NumaMask::Of(node.id);
    std::int64_t units = available.CountAnd(node.cpus);
    if (!reusable.empty()) {
      const int again = reusable.CountAnd(node.cpus);
      if (again > 0 && !Mutated(Mutation::kCpuReuseAnywhere)) hints.must_touch.push_back(numa);
      units += again;
    }
    if (units == 0) continue;
    hints.supplies.push_back({numa, units});
    all += units;
  }
  if (Mutated(Mutation::kCpuWidthOverFree)) hints.preferred_width = WidthOf(hints, requested);
  // All NUMA nodes together are a hint if anything is.
  hints.kind = all >= requested ? ResourceHints::Kind::kMasks : ResourceHints::Kind::kImpossible;
  if (options_.align_by_socket) {
    // isHintSocketAligned: the sockets that a minimal hint needs if all are equal.
    const int per_socket = static_cast<int>(topology_.numa_nodes().size()) /
                           static_cast<int>(topology_.sockets().size());
    hints.preferred_sockets = (hints.preferred_width + per_socket - 1) / per_socket;
    hints.sockets.assign(topology_.socket_masks().begin(), topology_.socket_masks().end());
  }
  return hints;
}

bool CpuManager::MeetsSmtAlignment(const CpuSet& default_cpus, std::int64_t requested) const {
  if (!options_.full_pcpus_only) return true;
  if (requested % topology_.CpusPerCore() != 0 && !Mutated(Mutation::kCpuSmtAnyNumber)) {
    return false;
  }
  if (Mutated(Mutation::kCpuSmtCountsAll)) return requested <= default_cpus.count();
  return requested <= default_cpus.count() - default_cpus.CountAnd(reserved_cores_);
}

CpuAllocation CpuManager::Allocate(CpuSet& default_cpus, std::int64_t requested,
                                   std::optional<NumaMask> affinity, const CpuSet& reusable) const {
  CpuAllocation allocation;
  if (requested == 0) return allocation;
  if (!MeetsSmtAlignment(default_cpus, requested)) {
    allocation.outcome = CpuAllocation::Outcome::kSmtAlignmentError;
    return allocation;
  }
  CpuSet allocatable = default_cpus - reserved_;
  if (!reusable.empty()) allocatable |= reusable;
  Taken taken = Take(allocatable, requested, affinity);
  if (taken.failure != TakeFailure::kNone) return FailedCpus(taken.failure);
  default_cpus -= taken.cpus;
  allocation.cpus = std::move(taken.cpus);
  return allocation;
}

// allocateCPUs: what is on the affinity's NUMA nodes (or sockets) first, the rest from anywhere.
Taken CpuManager::Take(const CpuSet& allocatable, std::int64_t requested,
                       std::optional<NumaMask> affinity) const {
  if (!affinity.has_value()) return TakeByTopology(topology_, allocatable, requested, rules_);
  const bool by_socket = options_.align_by_socket && !Mutated(Mutation::kCpuSocketNotWidened);
  const CpuSet aligned =
      allocatable & (by_socket ? topology_.InSocketsOf(*affinity) : topology_.InNuma(*affinity));
  Taken taken = TakeByTopology(topology_, aligned,
                               std::min<std::int64_t>(requested, aligned.count()), rules_);
  if (taken.failure != TakeFailure::kNone) return taken;
  const std::int64_t missing = requested - taken.cpus.count();
  if (missing < 1) return taken;
  Taken rest = TakeByTopology(topology_, allocatable - taken.cpus, missing, rules_);
  if (rest.failure != TakeFailure::kNone) return rest;
  taken.cpus |= rest.cpus;
  return taken;
}

Taken CpuManager::TakeFrom(const CpuSet& pool, std::int64_t requested) const {
  return TakeByTopology(topology_, pool, requested, rules_);
}

CpuAllocation::Outcome CpuManager::CheckAllocated(const CpuSet& default_cpus,
                                                  std::int64_t requested) const {
  if (requested == 0 || version_.KeepsAllocatedCpusUnchecked() ||
      MeetsSmtAlignment(default_cpus, requested)) {
    return CpuAllocation::Outcome::kAllocated;
  }
  return CpuAllocation::Outcome::kSmtAlignmentError;
}

absl::Status CpuManager::CheckState(const CpuSet& default_cpus, std::span<const CpuSet> held,
                                    std::span<const CpuSet> pods) const {
  if (Mutated(Mutation::kRestartAnyCpuState)) return absl::OkStatus();
  if (default_cpus.empty()) {
    if (held.empty()) return absl::OkStatus();
    return Refuse("the state has containers with CPUs and an empty default set");
  }
  if (options_.strict_cpu_reservation) {
    if (reserved_.intersects(default_cpus)) {
      return Refuse("the state's default set has reserved CPUs");
    }
  } else if (!reserved_.IsSubsetOf(default_cpus)) {
    return Refuse("the state's default set lacks reserved CPUs");
  }
  CpuSet known = default_cpus;
  for (const CpuSet& cpus : held) {
    if (cpus.intersects(default_cpus)) {
      return Refuse(absl::StrCat("the state has CPUs of a container in the default set: ",
                                 FormatCpuSet(cpus & default_cpus)));
    }
    known |= cpus;
  }
  for (const CpuSet& cpus : pods) known |= cpus;
  if (known != initial_) {
    return Refuse(absl::StrCat("the state is about the CPUs ", FormatCpuSet(known),
                               ", the machine's are ", FormatCpuSet(initial_)));
  }
  return absl::OkStatus();
}

void UpdateReusableCpus(CpuSet& reusable, const CpuSet& cpus, bool is_init_container) {
  if (is_init_container || Mutated(Mutation::kCpuSidecarLeaves)) {
    reusable |= cpus;
  } else {
    reusable -= cpus;
  }
}

void ReleaseCpus(CpuSet& default_cpus, const CpuSet& cpus, const CpuSet& others) {
  default_cpus |= cpus - others;
}

}  // namespace numafit::policy
