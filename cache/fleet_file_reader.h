// The parts of the fleet file's reader. Private to cache/fleet_file*.cc.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "api/tree_reader.h"
#include "cache/fleet_file.h"

namespace numafit::cache {

struct KubeletEntry {
  std::string version;  // as written
  policy::KubeletSettings settings;
  KubeletReservations reservations;
};

// Each reads its part of the file; errors go to the reader's status.
void ReadKubelet(const api::TreeReader& kubelet, KubeletEntry& entry);
// A shape's NUMA nodes.
void ReadMachine(const api::TreeReader& place, std::vector<policy::NumaNodeSpec>& numa);
// Shapes and nodes.
void ReadNodes(const api::TreeReader& root, FleetFile& fleet);
// The Pods; needs the nodes.
void ReadPods(const api::TreeReader& root, FleetFile& fleet);

// As Kubernetes writes sizes: "2Mi", "1536".
[[nodiscard]] std::string FormatBytes(std::int64_t bytes);

}  // namespace numafit::cache
