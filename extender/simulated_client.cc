#include "extender/simulated_client.h"

namespace numafit::extender {

absl::Status SimulatedClient::Bind(const kube::BindRequest& request) {
  if (!simulate_binds_) {
    return absl::FailedPreconditionError(
        "there is no cluster (--no-cluster); add --simulate-binds to keep Pods as bound in memory");
  }
  const auto remembered = pods_.Find(request.pod_uid);
  if (remembered == nullptr) return absl::NotFoundError("filter has not seen this Pod");
  api::Pod pod = remembered->pod;
  pod.node_name = request.node;
  pod.status.phase = "Running";
  // A kubelet would have admitted it by now.
  pod.status.container_statuses = 1;
  for (const auto& [key, value] : request.annotations) {
    pod.metadata.annotations.insert_or_assign(key, value);
  }
  fleet_.UpsertPod(pod);
  return absl::OkStatus();
}

absl::Status SimulatedClient::AnnotatePod(const std::string&, const std::string&,
                                          const std::string&, const std::string&,
                                          const std::string&) {
  return absl::NotFoundError("there is no cluster (--no-cluster)");
}

absl::StatusOr<api::Pod> SimulatedClient::GetPod(const std::string&, const std::string&) {
  return absl::NotFoundError("there is no cluster (--no-cluster)");
}

absl::StatusOr<api::Node> SimulatedClient::GetNode(const std::string&) {
  return absl::NotFoundError("there is no cluster (--no-cluster)");
}

}  // namespace numafit::extender
