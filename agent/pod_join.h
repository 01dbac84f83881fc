// Which UID a listed Pod has: a part of Assemble.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/assemble.h"

namespace numafit::agent {

struct JoinedPods {
  // UID of each listed Pod, in the list's order; empty: not known.
  std::vector<std::string> uids;
  // UIDs in the state files that may be alive and that no listed Pod has, sorted.
  std::vector<std::string> nameless;
};

// `pods` is the list, or none when it was never read.
JoinedPods JoinPods(const Observations& seen);

// Ids that a container holds according to the checkpoint: container, resource.
using HeldIds = std::map<std::string, std::map<std::string, std::set<std::string>>>;
// By UID. A device that the list shows with one Pod is no other's: an entry that still says so is
// of a Pod that has ended, and loses it.
std::map<std::string, HeldIds> HeldByUid(const Observations& seen, const JoinedPods& joined);

}  // namespace numafit::agent
