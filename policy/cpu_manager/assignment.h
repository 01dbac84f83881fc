// Which CPUs are picked? Twin of cpumanager/cpu_assignment.go (takeByTopology…).
//
// Packed: whole NUMA nodes and sockets first (the larger unit first), with prefer-align-cpus-by-
// uncorecache whole and then partial uncore caches, then whole cores, then single threads. In every
// step the unit with the fewest free CPUs comes first, the smaller id among equals.
// Spread (distribute-cpus-across-cores): no whole cores, CPUs in the order of their ids per socket.
// Distributed (distribute-cpus-across-numa): over the smallest number of NUMA nodes that can each
// give the same share, the combination that leaves the machine most evenly used.
//
// The pick is a function of (machine, available set, count, rules), in the kubelet too:
// * its sorts compare (free CPUs, id), a total order;
// * it walks Go maps only to build sets, to add whole numbers, and to add up the squares of a
//   standard deviation. Only that last sum is of fractions, whose order could change its last bits;
//   the result is rounded to thousandths, and for fewer than 64 NUMA nodes no value can lie within
//   rounding error of a border between two (with n nodes and thousandths j the border asks for
//   4*sum(j^2) = n*odd^2, which modulo 16 needs 64 | n);
// * it keeps combinations of NUMA nodes in Go slices that share memory with later combinations, so
//   the best one of four or more nodes can turn into another before it is used. Which one follows
//   from how Go grows a slice (capacities 1, 2, 4, 8, …), the same in all releases: mirrored.
//
// Known faults of the kubelet that are mirrored because Pods get CPUs by them: on uneven machines
// "whole" sockets and cores are told by averages, so that CPUs outside the available set can be
// picked; and a unit that lies in two larger ones counts twice, so that fewer CPUs than asked for
// can come back.
#pragma once

#include <cstdint>

#include "policy/cpu_manager/cpu_topology.h"
#include "policy/cpu_set.h"

namespace numafit::policy {

struct AssignmentRules {
  bool spread = false;         // distribute-cpus-across-cores
  bool prefer_uncore = false;  // prefer-align-cpus-by-uncorecache; nothing when distributed
  bool distribute = false;     // distribute-cpus-across-numa
  int group_size = 1;          // distributed in groups of so many: a core's with full-pcpus-only
  bool within_socket = false;  // distributed, prefer combinations inside one socket
  bool capped_shares = false;  // distributed, a share is never more than a chosen node has
};

enum class TakeFailure {
  kNone,
  kNotEnough,   // fewer CPUs available than asked for
  kAccounting,  // the kubelet notices that it picked too many or too few
  // The kubelet would loop for ever here (it holds the CPU manager's lock: admission stops).
  kEndless,
  // More combinations of NUMA nodes than anybody can wait for: over kMostSteps, for which the
  // kubelet needs from half a minute to hours. Not decided.
  kIntractable,
};

struct Taken {
  CpuSet cpus;  // empty on failure
  TakeFailure failure = TakeFailure::kNone;
};

// Balance scores per call; up to eight NUMA nodes need at most 1,792.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 21;

// `available` without CPUs that the machine has not. A count below 1 takes nothing.
[[nodiscard]] Taken TakeByTopology(const CpuTopology& topology, const CpuSet& available,
                                   std::int64_t count, const AssignmentRules& rules);

}  // namespace numafit::policy
