// NodeResourceTopology objects (topology.node.k8s.io/v1alpha2), as NFD's topology-updater and RTE
// publish them: per NUMA zone how many of each resource there are and how many nobody has. Named
// like the node. Source of the fields and their use: k8stopologyawareschedwg's
// noderesourcetopology-api, pkg/apis/topology/v1alpha2/types.go.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/objects.h"

namespace numafit::api {

inline constexpr char kNodeResourceTopologyKind[] = "NodeResourceTopology";
// More than these and an object is not worked with.
inline constexpr int kMaxZoneId = 63;
inline constexpr std::int64_t kMaxZoneDevices = 4096;  // of one resource in one zone
inline constexpr std::size_t kMaxZoneResources = 256;

// A plain value.
struct NodeResourceTopology {
  // Whole units (of CPUs those that are whole), 0 to kMaxZoneDevices; available <= allocatable <=
  // capacity. What `available` leaves of `allocatable` somebody has; nobody says who.
  struct Resource {
    std::string name;
    std::int64_t capacity = 0;
    std::int64_t allocatable = 0;
    std::int64_t available = 0;
  };
  struct Zone {
    int numa = 0;
    // "cpu" and extended resources (a domain, a slash, a name); by name, each once. Memory and
    // hugepages are not read.
    std::vector<Resource> resources;
    // NUMA id to SLIT distance.
    std::vector<std::pair<int, int>> costs;
  };

  ObjectMeta metadata;
  // KubeletConfiguration's words, from the attributes topologyManagerPolicy and
  // topologyManagerScope, else from the deprecated topologyPolicies. The words of attributes are
  // not checked; empty: not said.
  std::string policy;
  std::string scope;
  // Those of type "Node", by NUMA id.
  std::vector<Zone> zones;
  // Of an object that a watch brings: why it cannot be used. The fields above are not complete
  // then.
  absl::Status problem;
};

// For watches, where one bad object must not hide the others: what is wrong goes into `problem`,
// as the path of the field and its value ("zones[1].resources[0].available: is \"-1\", expected
// …"). InvalidArgument only when not even the metadata can be read.
absl::StatusOr<NodeResourceTopology> ReadNodeResourceTopology(const nlohmann::json& value);

}  // namespace numafit::api
