// Kueue's Workload (kueue.x-k8s.io), reduced to the fields that we read, from JSON of v1beta1 and
// v1beta2 alike (kueue.md 1).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/objects.h"

namespace numafit::api {

struct WorkloadCondition {
  std::string type;
  bool is_true = false;
  std::string reason;
  std::string message;
  std::int64_t since = 0;  // lastTransitionTime, seconds since the epoch
};

struct PodSet {
  std::string name;
  int count = 0;
  // What every Pod of the set is made of; metadata has labels and annotations only.
  Pod pod;
};

// A part of a topology assignment: so many Pods in the domain with these values (one per level).
struct TopologyDomain {
  std::vector<std::string> values;
  int count = 0;
};

struct PodSetAssignment {
  std::string name;
  std::map<std::string, std::string> flavors;  // by resource
  // The admitted number of Pods; absent in old objects.
  std::optional<int> count;
  // Topology-aware scheduling placed the Pods: `levels` are node labels.
  bool has_topology = false;
  std::vector<std::string> levels;
  std::vector<TopologyDomain> domains;
};

struct AdmissionCheckState {
  std::string name;
  std::string state;  // Pending, Ready, Retry, Rejected
  std::string message;
  std::int64_t since = 0;
};

struct Workload {
  ObjectMeta metadata;
  std::string queue_name;
  bool active = true;
  std::int32_t priority = 0;
  std::vector<PodSet> pod_sets;
  // status
  std::string cluster_queue;  // empty: no quota is reserved
  std::vector<PodSetAssignment> assignments;
  std::vector<WorkloadCondition> conditions;
  std::vector<AdmissionCheckState> checks;
  std::map<std::string, int> reclaimable;  // finished Pods by PodSet
  std::string cluster_name;                // runs in another cluster (MultiKueue)
  bool has_unhealthy_nodes = false;        // Kueue is replacing nodes of its topology assignment
  // Of one that a watch brings: why it cannot be used; only `metadata` is there then.
  absl::Status problem;

  [[nodiscard]] std::string FullName() const { return metadata.namespace_ + "/" + metadata.name; }
  // Null when there is none: then it counts as False.
  [[nodiscard]] const WorkloadCondition* Find(std::string_view type) const;
  [[nodiscard]] bool Is(std::string_view type) const;
};

// A topology assignment that stands for more domains than this is refused: Kueue keeps the whole
// object under etcd's limit, where no more fit.
inline constexpr int kMaxTopologyDomains = 100'000;

// InvalidArgument names the path of a field that has the wrong type or cannot be.
absl::StatusOr<Workload> WorkloadFromJsonValue(const nlohmann::json& value);
absl::StatusOr<Workload> WorkloadFromJson(std::string_view text);
// For watches, where one bad object must not hide the others: what is wrong goes into `problem`.
// An error only where not even the metadata can be read.
absl::StatusOr<Workload> ReadWorkload(const nlohmann::json& value);

}  // namespace numafit::api
