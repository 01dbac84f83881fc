// The two halves of the fleet file's reader. Private to cache/fleet_file*.cc.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "cache/fleet_file.h"
#include "cache/tree_reader.h"

namespace numafit::cache {

// Reads shapes and nodes into `fleet`. Errors go to the reader's status.
void ReadNodes(const TreeReader& root, FleetFile& fleet);
// Reads the Pods; needs the nodes.
void ReadPods(const TreeReader& root, FleetFile& fleet);

}  // namespace numafit::cache
