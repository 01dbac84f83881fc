// The API server's Pods, kept in the Fleet.
#pragma once

#include <memory>

#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "extender/offers.h"
#include "extender/wake_up.h"
#include "kube/client.h"

namespace numafit::extender {

// Watches every Pod that has a node. Runs until it is destroyed.
class ClusterSync {
 public:
  struct Parts {
    cache::Fleet& fleet;
    Offers& offers;
    WakeUp& wake_up;
    Metrics& metrics;
    DecisionLog& log;
  };
  // `client` and the parts outlive it.
  ClusterSync(kube::Client& client, Parts parts);
  ~ClusterSync();

  // Every list has been read: what the fleet says is as current as the API server's news.
  [[nodiscard]] bool synced() const;

 private:
  Parts parts_;
  std::unique_ptr<kube::Watch> pods_;
};

}  // namespace numafit::extender
