#include "cache/pod_status.h"

#include <set>
#include <string>

namespace numafit::cache {

bool ShowsAdmission(const api::Pod& pod) {
  return pod.status.container_statuses > 0 || pod.status.phase == "Running";
}

bool RefusedAtAdmission(const api::Pod& pod) {
  // pkg/kubelet: rejectPod writes the message; reasons are those of the admit handlers.
  static const std::set<std::string, std::less<>> kReasons = {
      "TopologyAffinityError", "UnexpectedAdmissionError", "SMTAlignmentError",
      "EmptyPodSharedPoolError"};
  const std::string& reason = pod.status.reason;
  return pod.status.phase == "Failed" && !ShowsAdmission(pod) &&
         (pod.status.message.starts_with("Pod was rejected") || kReasons.count(reason) != 0 ||
          reason.starts_with("OutOf"));
}

}  // namespace numafit::cache
