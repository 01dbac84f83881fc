// Kueue's cluster-scoped objects (kueue.x-k8s.io), reduced to the fields that we read, from JSON of
// v1beta1 and v1beta2 alike (kueue.md 1, 4). Workloads are in api/workload.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/objects.h"
#include "api/quantity.h"

namespace numafit::api {

// Of each kind: one that a watch brings and that cannot be used has `problem` set; only `metadata`
// is there then.

struct AdmissionCheck {
  ObjectMeta metadata;
  std::int64_t generation = 0;
  std::string controller_name;
  bool has_parameters = false;
  // status.conditions of the type Active; an empty status: there is none.
  struct Active {
    std::string status;  // True, False, Unknown
    std::string reason;
    std::string message;
    std::int64_t observed_generation = 0;
  };
  Active active;
  absl::Status problem;
};

struct ResourceFlavor {
  ObjectMeta metadata;
  StringMap node_labels;      // of the nodes that it stands for; Kueue puts them on Pods
  std::string topology_name;  // not empty: topology-aware scheduling
  absl::Status problem;
};

struct ClusterQueue {
  struct Quota {
    std::string flavor;
    std::string resource;
    Quantity nominal;
  };
  ObjectMeta metadata;
  std::vector<Quota> quotas;  // in the object's order
  absl::Status problem;
};

// Errors only where not even the metadata can be read.
absl::StatusOr<AdmissionCheck> ReadAdmissionCheck(const nlohmann::json& value);
absl::StatusOr<ResourceFlavor> ReadResourceFlavor(const nlohmann::json& value);
absl::StatusOr<ClusterQueue> ReadClusterQueue(const nlohmann::json& value);

}  // namespace numafit::api
