// The Kubernetes objects that numafit reads, reduced to the fields it reads.
//
// Plain values, filled by three readers: the API server's protobuf (kube/), the JSON of extender
// requests (extender/) and YAML that people write (cli/, cache/). Field names are Kubernetes' own.
// No thread safety beyond that of plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/quantity.h"

namespace numafit::api {

// Ordered, so that equal objects print and hash alike.
using ResourceList = std::map<std::string, Quantity, std::less<>>;
using StringMap = std::map<std::string, std::string, std::less<>>;

struct OwnerReference {
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  std::string api_version = {};

  friend bool operator==(const OwnerReference&, const OwnerReference&) = default;
};

struct ObjectMeta {
  std::string name;
  std::string namespace_;
  std::string uid;
  std::string resource_version;
  StringMap labels;
  StringMap annotations;
  // RFC 3339 instants as seconds since the epoch; 0 = not set.
  std::int64_t creation_time = 0;
  std::int64_t deletion_time = 0;
  std::vector<OwnerReference> owners = {};
};

struct ResourceRequirements {
  ResourceList limits;
  ResourceList requests;
  // Names of resource claims; a Pod with claims is passed, never judged (design 5).
  std::vector<std::string> claims;
};

struct Container {
  std::string name;
  ResourceRequirements resources;
  // Only on init containers: restartPolicy Always makes it a sidecar.
  bool restart_always = false;
};

struct PodCondition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message = {};
};

struct PodStatus {
  std::string phase;   // Pending, Running, Succeeded, Failed, Unknown
  std::string reason;  // e.g. TopologyAffinityError on a Pod that the kubelet refused
  std::string message;
  std::string qos_class;  // Guaranteed, Burstable, BestEffort; empty when not set yet
  std::string nominated_node_name;
  std::vector<PodCondition> conditions;
  // How many (init) container statuses the kubelet has written. More than zero means that the
  // kubelet has admitted the Pod: a refused Pod gets a phase and a reason, no container statuses.
  int container_statuses = 0;
  std::string start_time;  // raw RFC 3339; set by the kubelet when it first sees the Pod
};

struct Pod {
  ObjectMeta metadata;
  std::string node_name;
  std::string scheduler_name;
  std::int32_t priority = 0;
  std::vector<Container> init_containers;
  std::vector<Container> containers;
  // Pod-level resources (spec.resources), absent in most Pods.
  std::optional<ResourceRequirements> resources;
  std::vector<std::string> resource_claims;
  // Names of spec.schedulingGates: while there is one, no scheduler looks at the Pod.
  std::vector<std::string> scheduling_gates = {};
  StringMap node_selector = {};
  PodStatus status;

  // namespace/name
  [[nodiscard]] std::string FullName() const { return metadata.namespace_ + "/" + metadata.name; }
  // Succeeded or Failed: the kubelet has let go of its devices (kubernetes.md 2.9).
  [[nodiscard]] bool IsTerminal() const {
    return status.phase == "Succeeded" || status.phase == "Failed";
  }
};

struct NodeCondition {
  std::string type;
  std::string status;
};

struct Node {
  ObjectMeta metadata;
  bool unschedulable = false;
  ResourceList capacity;
  ResourceList allocatable;
  std::vector<NodeCondition> conditions;
  std::string kubelet_version;
};

}  // namespace numafit::api
