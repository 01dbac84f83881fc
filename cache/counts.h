// A NodeResourceTopology in the terms of policy/: counts per NUMA node, on the safe side of what
// they leave open (docs/node-resource-topology.md).
//
// Of every zone as many devices are made up as it has of the resource. Those that are not available
// are *somebody's*: of whom is not known. Where the zones of a resource have more than the Node in
// all (devices on several NUMA nodes, which count in each; unhealthy ones), so many more are
// somebody's in each zone. Where they have less, the rest has no topology. Zones that have
// allocatable CPUs mean a static CPU manager: without one the kubelet names no CPUs. Memory is not
// judged.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "api/node_resource_topology.h"
#include "api/objects.h"
#include "api/resource_class.h"
#include "cache/report.h"
#include "cache/spreads.h"
#include "policy/usage.h"

namespace numafit::cache {

// What only the Node object tells.
struct NodeFacts {
  std::string kubelet_version;
  // Of extended resources; a resource that is not here is not compared with its zones.
  std::map<std::string, std::int64_t> allocatable;

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};
[[nodiscard]] NodeFacts FactsOf(const api::Node& node);

struct CountedNode {
  ReportedNode node;      // without Pods; its books have what somebody holds
  policy::Holding held;   // by somebody
  PoolTotals taken;       // by pool that has zones: what the publisher says is in use
  std::int64_t cpus = 0;  // likewise CPUs that belong to somebody alone
};

// InvalidArgument names the field and the value: the object's own problem, no policy, an enforcing
// policy without a scope, a kubelet version that is none, too many devices. `reader` keeps the
// topologies that nodes have in common; it must not be one that reads reports, so that a machine of
// counts is never the same object as one that is known exactly.
absl::StatusOr<CountedNode> ReadCounts(const api::NodeResourceTopology& counts,
                                       const NodeFacts& facts, const api::ResourceClasses& classes,
                                       ReportReader& reader);

}  // namespace numafit::cache
