// Admit: would this kubelet admit this Pod now? The composition and only entry of the mirror.
//
// Twin of pkg/kubelet/cm/container_manager_linux.go (providers in the order device manager, CPU
// manager, memory manager) and of topologymanager's scopes. Follows kubernetes.md section 2,
// version by version; the oracle (test/oracle) judges it against the kubelet's own code.
//
// Where the kubelet picks devices at random the answer is a set of outcomes. Every outcome that
// the kubelet can reach is in the set, and nothing else; two picks that differ only in device ids
// inside a class are one outcome. The set is bounded by kMaxOutcomes; past it `truncated` is set
// and the answer must be treated as unknown.
//
// Pure: no I/O, no lock, no clock. Safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
};
[[nodiscard]] std::string_view RefusalReasonName(RefusalReason reason);

struct ContainerAllocation {
  // The TopologyManager's hint for the container; nullopt = no mask (policy none, or "don't care").
  std::optional<NumaMask> affinity;
  bool preferred = false;
  // What the container sees, devices re-used from init containers included.
  Holding devices;
};

struct Outcome {
  bool admitted = false;
  RefusalReason reason = RefusalReason::kNone;
  // Index into Demand::containers where it was refused, and the resource in the way when one is
  // (empty when no single resource is). Pod scope refuses at container 0.
  int refused_container = -1;
  std::string refused_resource;
  // One per container of the Demand, in its order; filled when admitted.
  std::vector<ContainerAllocation> containers;
  // What the Pod as a whole takes from the node, init containers' leftovers included.
  Holding held;
};

enum class Verdict { kAdmitted, kRefused, kDepends, kUnknown };

struct AdmitResult {
  static constexpr int kMaxOutcomes = 64;

  // At least one, distinct, in a fixed order.
  std::vector<Outcome> outcomes;
  bool truncated = false;

  // kUnknown when truncated; kDepends when some outcomes admit and some refuse.
  [[nodiscard]] Verdict verdict() const;
};

[[nodiscard]] AdmitResult Admit(const Topology& topology, const Usage& usage,
                                const Demand& demand);

}  // namespace numafit::policy
