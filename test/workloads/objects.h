// Workloads and Pods for tests.
#pragma once

#include <cstdint>
#include <string>

#include "api/objects.h"
#include "api/workload.h"

namespace numafit::workloads::test {

inline constexpr char kGpu[] = "nvidia.com/gpu";
inline constexpr char kRdma[] = "device.gpustack.ai/rdma";
inline constexpr std::int64_t kAdmitted = 1'800'000'000;

inline api::Container ContainerOf(int gpus, int endpoints) {
  api::Container container;
  container.name = "main";
  if (gpus > 0) container.resources.limits[kGpu] = api::Quantity::FromInt(gpus);
  if (endpoints > 0) container.resources.limits[kRdma] = api::Quantity::FromInt(endpoints);
  return container;
}

// Waits for a scheduler to try it. Of the Job with the uid job-NAME's first word.
inline api::Pod PodOf(const std::string& name, int gpus, int endpoints) {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-" + name;
  pod.metadata.creation_time = kAdmitted + 1;
  pod.containers.push_back(ContainerOf(gpus, endpoints));
  pod.status.phase = "Pending";
  return pod;
}

inline api::Pod Tried(
    api::Pod pod, const std::string& reason = "Unschedulable",
    const std::string& message = "0/2 nodes are available: 2 Insufficient rdma.") {
  pod.status.conditions = {
      {.type = "PodScheduled", .status = "False", .reason = reason, .message = message}};
  return pod;
}

inline api::Pod On(api::Pod pod, const std::string& node) {
  pod.node_name = node;
  pod.status.phase = "Running";
  pod.status.container_statuses = 1;
  pod.status.conditions = {{.type = "PodScheduled", .status = "True", .reason = ""}};
  return pod;
}

inline api::Pod RefusedBy(api::Pod pod, const std::string& node) {
  pod.node_name = node;
  pod.status.phase = "Failed";
  pod.status.reason = "TopologyAffinityError";
  pod.status.message = "Resources cannot be allocated with Topology locality";
  return pod;
}

inline api::Pod Annotated(api::Pod pod, const std::string& key, const std::string& value) {
  pod.metadata.annotations[key] = value;
  return pod;
}

inline api::Pod OwnedBy(api::Pod pod, const std::string& kind, const std::string& uid) {
  pod.metadata.owners.push_back({.kind = kind, .name = uid, .uid = uid, .controller = true});
  return pod;
}

inline api::Workload WorkloadOf(const std::string& name, int pods, int gpus, int endpoints) {
  api::Workload workload;
  workload.metadata.name = name;
  workload.metadata.namespace_ = "default";
  workload.metadata.uid = "uid-of-" + name;
  workload.metadata.creation_time = kAdmitted - 10;
  workload.metadata.owners.push_back(
      {.kind = "Job", .name = name, .uid = "job-" + name, .controller = true});
  workload.queue_name = "team-a";
  api::PodSet& set = workload.pod_sets.emplace_back();
  set.name = "main";
  set.count = pods;
  set.pod.containers.push_back(ContainerOf(gpus, endpoints));
  return workload;
}

inline void SetCondition(api::Workload& workload, const std::string& type, bool is_true,
                         std::int64_t since = kAdmitted) {
  for (api::WorkloadCondition& condition : workload.conditions) {
    if (condition.type != type) continue;
    condition.is_true = is_true;
    condition.since = since;
    return;
  }
  workload.conditions.push_back(
      {.type = type, .is_true = is_true, .reason = "", .message = "", .since = since});
}

inline api::Workload Admitted(api::Workload workload, std::int64_t since = kAdmitted) {
  workload.cluster_queue = "gpus";
  api::PodSetAssignment& assignment = workload.assignments.emplace_back();
  assignment.name = "main";
  assignment.count = workload.pod_sets.front().count;
  SetCondition(workload, "QuotaReserved", true, since);
  SetCondition(workload, "Admitted", true, since);
  return workload;
}

}  // namespace numafit::workloads::test
