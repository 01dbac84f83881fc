// The CPU manager's static policy: hints and allocation of exclusive CPUs. Twin of
// cpumanager/policy_static.go. Nobody asks with the policy none.
//
// The state is one set, the kubelet's default set: CPUs that no container has for itself, reserved
// ones included (without strict-cpu-reservation). The caller keeps it, what each container holds,
// and per Pod the CPUs that its init containers leave for reuse. Which CPUs are picked is
// determined by the state (policy/cpu_manager/assignment.h): there is one outcome.
//
// A container that the kubelet has CPUs for already (a Pod admitted again after a restart) is not
// allocated again; see AllocatedHints and CheckAllocated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "policy/cpu_manager/assignment.h"
#include "policy/cpu_manager/cpu_topology.h"
#include "policy/cpu_manager/options.h"
#include "policy/cpu_set.h"
#include "policy/numa_mask.h"
#include "policy/topology_manager/hint.h"
#include "policy/topology_spec.h"

namespace numafit::policy {

struct CpuAllocation {
  enum class Outcome {
    kAllocated,
    // full-pcpus-only: not a multiple of the threads per core, or too few free CPUs outside the
    // cores of reserved ones.
    kSmtAlignmentError,
    kUnexpectedAdmissionError,
    // Nobody can wait for the answer: `failure` says whether the kubelet hangs for ever (kEndless)
    // or would need very long (kIntractable).
    kIntractable,
  };
  Outcome outcome = Outcome::kAllocated;
  // What the container has for itself. Faults of the kubelet's (assignment.h) can make it more or
  // fewer than asked for; empty for requests below 1.
  CpuSet cpus;
  // Why it was not allocated; kNone with an SMT alignment error.
  TakeFailure failure = TakeFailure::kNone;
};

// An allocation that failed because taking CPUs did. Precondition: not kNone.
[[nodiscard]] CpuAllocation FailedCpus(TakeFailure failure);

// One per machine, immutable after Create. Safe from any thread.
class CpuManager {
 public:
  // So many NUMA nodes with CPUs and the kubelet lists 2^n hints, each counted over all CPUs:
  // more take it minutes, and TractableHints is false.
  static constexpr int kMostNumaNodes = 20;

  // InvalidArgument says why the kubelet would not start: options (options.h), no CPU reserved,
  // reserved CPUs that the machine has not or that are not as many as reserved_cpu_milli rounded
  // up. Without reserved_cpus the kubelet picks them as it picks CPUs for a container.
  // Reads of the settings: version, policy, cpu_options, reserved_*, feature_gates.
  [[nodiscard]] static absl::StatusOr<CpuManager> Create(CpuTopology topology,
                                                         const KubeletSettings& kubelet);

  [[nodiscard]] const CpuTopology& topology() const { return topology_; }
  [[nodiscard]] const CpuManagerOptions& options() const { return options_; }
  [[nodiscard]] const CpuSet& reserved() const { return reserved_; }
  // The default set of an empty machine: all CPUs, with strict-cpu-reservation without the
  // reserved ones.
  [[nodiscard]] const CpuSet& InitialDefaultCpus() const { return initial_; }
  [[nodiscard]] bool TractableHints() const {
    return static_cast<int>(topology_.numa_nodes().size()) <= kMostNumaNodes;
  }

  // Hints for so many CPUs; kDontCare for 0. `reusable`: left by the Pod's init containers (pod
  // scope: with what its containers hold already); every hint contains their NUMA nodes.
  // All sets are sets of the machine's CPUs.
  [[nodiscard]] ResourceHints Hints(const CpuSet& default_cpus, std::int64_t requested,
                                    const CpuSet& reusable) const;
  // Hints for a container, or a Pod, that holds its CPUs already. Impossible when the number is
  // not the requested one.
  [[nodiscard]] ResourceHints AllocatedHints(const CpuSet& held, std::int64_t requested) const;

  // Allocates CPUs to a container that has none and takes them out of `default_cpus`, which stays
  // as it is on failure. nullopt: no affinity, any NUMA node. 0 CPUs: nothing.
  [[nodiscard]] CpuAllocation Allocate(CpuSet& default_cpus, std::int64_t requested,
                                       std::optional<NumaMask> affinity,
                                       const CpuSet& reusable) const;
  // Whether a container that has CPUs already passes Allocate again: kAllocated, or before 1.37
  // kSmtAlignmentError when full-pcpus-only is not met now.
  [[nodiscard]] CpuAllocation::Outcome CheckAllocated(const CpuSet& default_cpus,
                                                      std::int64_t requested) const;

  // So many of these CPUs, as they are picked for a container (takeByTopology): parts what a Pod
  // was allocated as a whole among its containers. Failures other than kNone: not enough of them,
  // or a search that nobody waits for.
  [[nodiscard]] Taken TakeFrom(const CpuSet& pool, std::int64_t requested) const;

  // What a kubelet that starts again says of its state file: an error is why it does not start
  // until the file is removed. `held`: all containers' CPUs; `pods`: of Pods as a whole. An empty
  // default set without any is a new file and OK; the kubelet then begins with InitialDefaultCpus.
  [[nodiscard]] absl::Status CheckState(const CpuSet& default_cpus, std::span<const CpuSet> held,
                                        std::span<const CpuSet> pods = {}) const;

 private:
  CpuManager(CpuTopology topology, CpuManagerOptions options, KubeletVersion version);
  absl::Status Reserve(const KubeletSettings& kubelet);
  [[nodiscard]] ResourceHints HintsFor(const CpuSet& available, const CpuSet& reusable,
                                       std::int64_t requested) const;
  [[nodiscard]] bool MeetsSmtAlignment(const CpuSet& default_cpus, std::int64_t requested) const;
  [[nodiscard]] Taken Take(const CpuSet& allocatable, std::int64_t requested,
                           std::optional<NumaMask> affinity) const;

  CpuTopology topology_;
  CpuManagerOptions options_;
  KubeletVersion version_;
  AssignmentRules rules_;
  CpuSet reserved_;
  CpuSet reserved_cores_;  // all threads of cores with a reserved CPU
  CpuSet initial_;
};

// updateCPUsToReuse, after a container of the Pod got `cpus` (or has them already): what an init
// container leaves may be used again; what any other container holds may not, a sidecar's neither.
// The kubelet forgets a Pod's reusable CPUs when another Pod is allocated CPUs.
void UpdateReusableCpus(CpuSet& reusable, const CpuSet& cpus, bool is_init_container);

// A container is gone from the state: its CPUs return to the default set, except those that
// `others`, the Pod's other containers, still hold.
void ReleaseCpus(CpuSet& default_cpus, const CpuSet& cpus, const CpuSet& others);

}  // namespace numafit::policy
