// What the kubelet counts after topology admission: has the node as much as its Pods request? Twin
// of pkg/kubelet/lifecycle/predicate.go as far as it is about resources, of the scheduler's
// noderesources Fits, which it calls, and of component-helpers' PodRequests.
//
// Rules
// 1. Extended resources that the node does not have are dropped from the containers' requests
//    first: they fail nothing here.
// 2. Where the device manager gave the Pod devices, every device resource counts as at least as
//    much as is given out (devicemanager's sanitizeNodeAllocatable): unhealthy devices that running
//    Pods hold leave nothing for others, but do not refuse this Pod for what it got.
// 3. Compared are, in this order, the number of Pods, cpu, memory, ephemeral-storage, and then
//    hugepages, attachable volumes and extended resources in the order of a Go map. The first that
//    does not suffice is the reason.
// 4. Requests count, not limits (the API server fills requests in from limits).
//
// The same in 1.34 to 1.37, as long as no gate for DRA is on. Critical Pods (static ones, priority
// 2,000,000,000 and above) are never refused for this: the kubelet evicts others for them, or
// refuses with UnexpectedAdmissionError when that does not help. Node selectors, host ports and
// taints are looked at afterwards; they are the scheduler's business here.
//
// Pure. Safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/demand.h"
#include "policy/qos.h"

namespace numafit::policy {

// Resource name to what the kubelet computes with: thousandths of a CPU for "cpu", whole units,
// rounded up, for everything else (bytes, devices, Pods).
using ResourceUnits = std::map<std::string, std::int64_t, std::less<>>;
[[nodiscard]] ResourceUnits ToUnits(const ResourceAmounts& amounts);

// What of a Pod's spec counts. Amounts in thousandths, of every resource there is.
struct PodRequestSpec {
  struct Container {
    ContainerDemand::Kind kind = ContainerDemand::Kind::kApp;
    // Of a running Pod's app containers and sidecars the larger of spec, status.resources and
    // allocatedResources (in-place resize).
    ResourceAmounts requests;
  };
  std::vector<Container> containers;  // in kubelet order
  // spec.resources.requests; of these cpu, memory and hugepages replace the containers' sums.
  ResourceAmounts pod_level;
  ResourceAmounts overhead;
};

// Per resource the larger of: all app containers and sidecars together; any init container
// together with the sidecars before it; then pod-level resources and overhead.
[[nodiscard]] ResourceAmounts EffectiveRequests(const PodRequestSpec& pod);

// The node as the kubelet sees it.
struct NodeCounts {
  ResourceUnits allocatable;  // status.allocatable, "pods" too; a missing one is zero
  // The other Pods that the kubelet has admitted and that have not ended.
  std::int64_t pods = 0;
  ResourceUnits requested;  // the sum of ToUnits(EffectiveRequests) over them
  // Devices that the device manager has given out, this Pod's included (init containers' leftovers
  // too). Leave it empty when it gave this Pod none: rule 2 is then not asked.
  ResourceUnits devices_given;

  void Add(const PodRequestSpec& pod);
};

// Every reason that the kubelet may give ("OutOfcpu", "OutOfpods", "OutOfnvidia.com/gpu", …); empty
// when it admits the Pod. More than one only when several of the resources of unknown order are
// short and none before them is; sorted.
[[nodiscard]] std::vector<std::string> OutOfResource(const PodRequestSpec& pod,
                                                     const NodeCounts& node);

// Names with a domain that is not Kubernetes' own (v1helper.IsExtendedResourceName).
[[nodiscard]] bool IsExtendedResourceName(std::string_view name);

}  // namespace numafit::policy
