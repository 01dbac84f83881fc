// A NodeReport in the terms of policy/: the machine as a Topology, and what every Pod holds.
//
// Endpoints and device ids are names of one node; topologies have them numbered instead, so that
// nodes that differ in names only share one Topology, and with it every answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "api/resource_class.h"
#include "cache/places_table.h"
#include "cache/report_facts.h"
#include "policy/compute_state.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::v1alpha1 {
class NodeReportStatus;
}

namespace numafit::cache {

struct ReportedPod {
  std::string name;  // namespace/name
  std::string uid;   // empty: not known to the agent
  policy::Holding held;
  PodPlaces places;
};

struct ReportedNode {
  std::shared_ptr<const policy::Topology> topology;
  std::string boot_id;
  std::int32_t generation = 0;
  std::vector<ReportedPod> pods;
  // Nobody listens at the kubelet's socket; the rest is what was seen last.
  bool kubelet_away = false;
  // Containers whose accelerators and endpoints lie on different NUMA nodes, as the agent counts.
  std::int32_t misaligned_containers = 0;
  // The books of the static managers as their state files have them. Where the agent could not read
  // one, what follows from what the Pods hold.
  policy::ComputeState books;
  ReportFacts facts;
};

// Reads reports and keeps the topologies that they have in common. Not thread-safe; the topologies
// may go anywhere.
class ReportReader {
 public:
  // `classes` say what accelerators and endpoints are.
  explicit ReportReader(api::ResourceClasses classes = api::ResourceClasses())
      : classes_(std::move(classes)) {}

  // InvalidArgument names the field and the value: what cannot be a kubelet (policy or NUMA nodes
  // not known), a group that is not there, more devices in use than there are.
  absl::StatusOr<ReportedNode> Read(const v1alpha1::NodeReportStatus& report);

  // How many different topologies are in use.
  [[nodiscard]] std::size_t topologies() const;

 private:
  absl::StatusOr<std::shared_ptr<const policy::Topology>> TopologyOf(
      const v1alpha1::NodeReportStatus& report);
  void ForgetUnused();

  const api::ResourceClasses classes_;
  // Those that nobody uses any more are dropped when there are many.
  static constexpr std::size_t kMinKept = 256;
  std::size_t forget_at_ = kMinKept;
  absl::flat_hash_map<std::string, std::weak_ptr<const policy::Topology>> topologies_;
  PlacesTable places_;
};

}  // namespace numafit::cache
