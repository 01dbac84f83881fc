#include "cli/admit/pod_demand.h"

#include <cstddef>

namespace numafit::cli {

policy::ContainerDemand::Kind KindOf(CaseContainer::Kind kind) {
  switch (kind) {
    case CaseContainer::Kind::kInit:
      return policy::ContainerDemand::Kind::kInit;
    case CaseContainer::Kind::kSidecar:
      return policy::ContainerDemand::Kind::kSidecar;
    case CaseContainer::Kind::kApp:
      break;
  }
  return policy::ContainerDemand::Kind::kApp;
}

policy::Demand DemandOf(const CasePod& pod) {
  policy::Demand demand;
  for (const CaseContainer& container : pod.containers) {
    policy::ContainerDemand& out = demand.containers.emplace_back();
    out.name = container.name;
    out.kind = KindOf(container.kind);
    out.devices = container.limits;
    out.requests = container.compute_requests;
    out.requests_equal_limits = container.requests_equal_limits;
  }
  demand.qos = pod.qos;
  demand.pod_level_resources = pod.pod_level_resources;
  demand.pod_requests = pod.pod_requests;
  return demand;
}

std::vector<policy::HeldContainer> HeldBy(const ActivePod& active, const CasePod& pod) {
  std::vector<policy::HeldContainer> held;
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    policy::HeldContainer& container = held.emplace_back();
    container.memory.kind = KindOf(pod.containers[i].kind);
    if (i < active.cpus.size()) container.cpus = active.cpus[i];
    if (i < active.holding.memory.size()) container.memory = active.holding.memory[i];
    // The others have ended.
    container.runs = active.started && pod.containers[i].kind != CaseContainer::Kind::kInit;
  }
  return held;
}

}  // namespace numafit::cli
