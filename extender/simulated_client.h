// Stands in for the API server where there is none: `numafit-extender --no-cluster`.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cache/fleet.h"
#include "extender/pod_memory.h"
#include "kube/client.h"

namespace numafit::extender {

// Answers every bind with an error that says that there is no cluster; or, with `simulate_binds`,
// takes the Pod that filter remembered as bound and running. Thread-safe.
class SimulatedClient : public kube::Client {
 public:
  SimulatedClient(cache::Fleet& fleet, PodMemory& pods, bool simulate_binds)
      : fleet_(fleet), pods_(pods), simulate_binds_(simulate_binds) {}

  absl::Status Bind(const kube::BindRequest& request) override;
  absl::Status AnnotatePod(const std::string& pod_namespace, const std::string& name,
                           const std::string& uid, const std::string& key,
                           const std::string& value) override;
  absl::StatusOr<api::Pod> GetPod(const std::string& pod_namespace,
                                  const std::string& name) override;
  absl::StatusOr<api::Node> GetNode(const std::string& name) override;

 private:
  cache::Fleet& fleet_;
  PodMemory& pods_;
  const bool simulate_binds_;
};

}  // namespace numafit::extender
