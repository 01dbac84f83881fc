#include "cli/admit/pod_demand.h"

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

}  // namespace numafit::cli
