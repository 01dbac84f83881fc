// How many CPUs for itself does a container, or a Pod, get? Twin of cpumanager's guaranteedCPUs and
// podGuaranteedCPUs.
//
// Only containers of Guaranteed Pods are asked about here (Demand::MayHaveOwnCpusAndMemory).
#pragma once

#include <cstdint>
#include <span>

#include "policy/demand.h"

namespace numafit::policy {

struct CpuDemand {
  ContainerDemand::Kind kind = ContainerDemand::Kind::kApp;
  // A container without a request takes no part in the Pod's sum.
  bool requests_cpu = false;
  // The request in thousandths, saturated. Kubelet 1.34 reads allocatedResources of the container's
  // status instead where there is one: only when a Pod that runs already is admitted again.
  std::int64_t milli = 0;
};

// CPUs of its own: the request when it is a whole number, else 0. Negative requests stay negative,
// as in the kubelet (the API server admits none).
[[nodiscard]] std::int64_t GuaranteedCpus(const CpuDemand& container);

// What a Pod holds at its fullest: all app containers and sidecars, or an init container beside the
// sidecars before it. `containers` in kubelet order.
[[nodiscard]] std::int64_t PodGuaranteedCpus(std::span<const CpuDemand> containers);

}  // namespace numafit::policy
