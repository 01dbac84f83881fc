// Admit: would this kubelet admit this Pod now? The composition and only entry of the mirror.
//
// Twin of pkg/kubelet/cm/container_manager_linux.go (providers in the order device manager, CPU
// manager, memory manager) and of topologymanager's scopes. docs/how-the-mirror-works.md tells the
// rules, version by version; the oracle (test/oracle) judges it against the kubelet's own code.
//
// Where the kubelet picks devices at random the answer is a set of outcomes. Every outcome that
// the kubelet can reach is in the set, and nothing else; two picks that differ only in device ids
// inside a class are one outcome. The set is bounded; past the bound `truncated` is set, and where
// the Pod lands must be treated as unknown. Whether it is admitted may be known all the same: see
// AdmitResult::verdict.
//
// CPUs are picked as the kubelet picks them, one by one: given its book there is no choice. Memory
// likewise.
//
// Only topology admission: a resource that is not registered on the node constrains nothing here
// (the kubelet's resource predicate refuses later). Judge (policy/alignment.h) takes care of it.
//
// Pure: no I/O, no lock, no clock. Safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "policy/demand.h"
#include "policy/numa_mask.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::policy {

// The kubelet's own words for a refusal.
enum class RefusalReason {
  kNone,
  kTopologyAffinityError,
  kUnexpectedAdmissionError,
  kSmtAlignmentError,
  // A Pod with resources of its own whose containers leave nothing to those of them that share
  // (gate PodLevelResourceManagers, pod scope).
  kEmptyPodSharedPoolError,
  // The kubelet's process dies of this Pod, and again after every restart: its code dereferences
  // nil on a hugepage size that a NUMA node has not.
  kPanic,
};
[[nodiscard]] std::string_view RefusalReasonName(RefusalReason reason);

struct ContainerAllocation {
  // The TopologyManager's hint for the container; nullopt = no mask (policy none, or "don't care").
  std::optional<NumaMask> affinity;
  bool preferred = false;
  // What the container sees, devices re-used from init containers included.
  DeviceHolding devices;
  // Its exclusive CPUs, and its memory blocks of the sizes requested; empty without static
  // managers. Of a Pod that is allocated as a whole: what the books say for the container, which
  // others of the Pod may share.
  CpuSet cpus;
  MemoryBlocks memory;
};

struct Outcome {
  bool admitted = false;
  RefusalReason reason = RefusalReason::kNone;
  // Index into Demand::containers where it was refused, and the resource in the way when one is
  // (empty when no single resource is). Pod scope refuses at container 0.
  int refused_container = -1;
  std::string refused_resource;
  // Which failure of the memory manager it was; kAllocated when it was none.
  MemoryAllocation::Outcome memory_failure = MemoryAllocation::Outcome::kAllocated;
  // One per container of the Demand, in its order; when refused, those before the refused one, and
  // it too when it has got CPUs already.
  std::vector<ContainerAllocation> containers;
  // What the Pod as a whole takes from the node, init containers' leftovers included; when refused,
  // what it has got by then. The kubelet takes that back at the next admission.
  Holding held;
  // The books of CPUs and memory with `held` in them.
  ComputeState compute;
  // CPUs that the CPU manager gave to a refused Pod as a whole and then lost sight of: no container
  // has an entry, so nothing ever gives them back (its book still names them for the Pod).
  CpuSet stranded;
};

// The node after the outcome; after a refusal with everything given back (which need not be the
// books as they were: MemoryState).
void Apply(const Topology& topology, const Outcome& outcome, Usage& usage);

enum class Verdict { kAdmitted, kRefused, kDepends, kUnknown };

struct AdmitResult {
  static constexpr int kMaxOutcomes = 64;

  // At least one, distinct, in a fixed order.
  std::vector<Outcome> outcomes;
  // There are more outcomes than these.
  bool truncated = false;
  // Those left out have the same verdict as these: nothing that depends on where devices were
  // picked was decided after a pick. Always so on kubelets that do not enforce, where counts alone
  // decide.
  bool same_verdict = false;
  // Those left out have the same affinities as these. The first container's is always the same.
  bool same_affinities = false;
  // Not decided, because the kubelet itself would search for minutes, or for ever
  // (docs/exactness.md): waiting does not help. `truncated` then, and the outcomes mean nothing.
  bool intractable = false;
  // Of these, a search of the CPU manager that never ends, with its lock held: this kubelet admits
  // nobody any more until it is started again, and then it begins anew.
  bool endless = false;

  // kDepends when some outcomes admit and some refuse; kUnknown when truncated and not
  // same_verdict.
  [[nodiscard]] Verdict verdict() const;
};

// `usage` must belong to `topology`. Cost: a few microseconds for two NUMA nodes and one outcome;
// linear in the classes, the containers and the outcomes.
[[nodiscard]] AdmitResult Admit(const Topology& topology, const Usage& usage, const Demand& demand,
                                int max_outcomes = AdmitResult::kMaxOutcomes);

// Calls `visit` with every outcome, in the order of Admit, until it returns false. Not bounded:
// the visitor must count.
void ForEachOutcome(const Topology& topology, const Usage& usage, const Demand& demand,
                    absl::FunctionRef<bool(const Outcome&)> visit);

}  // namespace numafit::policy
