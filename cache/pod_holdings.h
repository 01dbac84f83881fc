// What a Pod on a node holds of accelerators and endpoints, container by container, as far as it is
// known: of a Pod that is foretold, that follows from what its kubelet may pick.
#pragma once

#include <string>
#include <vector>

#include "api/held_places.h"
#include "cache/fleet.h"

namespace numafit::cache {

struct ContainerHoldings {
  // Where only the Pod's total is known, its containers share an entry: their names with ", "
  // between them.
  api::ContainerPlaces places;
  api::HeldAlignment alignment = api::HeldAlignment::kNotNeeded;
};

struct PodHoldings {
  // Those that hold, or ask for, accelerators or endpoints.
  std::vector<ContainerHoldings> containers;
  // Where the kubelet may have picked differently: what the Pod may hold, for people, some of them
  // when there are many ("nvidia.com/gpu 2 on NUMA 0, …"). The places in `containers` have no NUMA
  // nodes then. Empty: it is known, or it may be anything.
  std::vector<std::string> possible;

  // That of the container for which it is worst.
  [[nodiscard]] api::HeldAlignment alignment() const;
};

[[nodiscard]] PodHoldings HoldingsOf(const NodeView& node, const PodOnNode& pod);

// Containers that are certain to be misaligned, of Pods that are bound.
[[nodiscard]] int MisalignedContainers(const NodeView& node);

}  // namespace numafit::cache
