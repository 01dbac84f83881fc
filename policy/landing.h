// Where the devices of an outcome are, against what the Pod needs.
#pragma once

#include <optional>
#include <vector>

#include "policy/admit.h"
#include "policy/alignment.h"
#include "policy/needs.h"

namespace numafit::policy {

// What was seen over several outcomes. kUnsure is a device whose NUMA node nobody knows.
struct Sightings {
  bool yes = false;
  bool no = false;
  bool unsure = false;

  void Add(const Sightings& other) {
    yes = yes || other.yes;
    no = no || other.no;
    unsure = unsure || other.unsure;
  }
  // Neither guaranteed nor impossible any more: more outcomes change nothing.
  [[nodiscard]] bool Decided() const { return unsure || (yes && no); }
  // Precondition: something was seen.
  [[nodiscard]] Alignment Verdict() const {
    if (Decided()) return Alignment::kPossible;
    return yes ? Alignment::kGuaranteed : Alignment::kImpossible;
  }
};

// Says of an outcome whether every unit has landed on as few NUMA nodes as the hardware allows.
// Remembers the widths, which cost more than the rest. The topology must outlive it.
class Landing {
 public:
  Landing(const Topology& topology, const Demand& demand);

  // No unit has an alignment need.
  [[nodiscard]] bool NotNeeded() const { return units_.empty(); }
  // Exactly one field is set. Precondition: the outcome admits.
  [[nodiscard]] Sightings Of(const Outcome& outcome);

 private:
  [[nodiscard]] Sightings OfUnit(std::size_t unit, const Outcome& outcome);

  const Topology& topology_;
  std::vector<AlignmentUnit> units_;
  std::vector<std::optional<int>> widths_;  // by unit
};

// Whether each container's endpoint tokens are as many different endpoints: yes, no, or unsure
// where that depends on which tokens of a class the kubelet picks. Precondition: the outcome
// admits.
[[nodiscard]] Sightings DistinctEndpoints(const Topology& topology, const Demand& demand,
                                          const Outcome& outcome);

}  // namespace numafit::policy
