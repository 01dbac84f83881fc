// preempt: which Pods may be killed to make room.
//
// kube-scheduler proposes victims per node by counting. Killing them is in vain where what they
// leave is not together on a NUMA node: the Pod would be refused there again
// (kubernetes.md 1.7, 1.9). So a node whose kubelet would not admit the Pod once its victims have
// left is vetoed, unless further Pods of lower priority, the fewest that are found, make it admit
// the Pod. What kube-scheduler has proposed is never cut down: only it knows what else stands in
// the way.
//
// Thread-safe; computes only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/extender.h"
#include "cache/fleet.h"
#include "extender/decision_log.h"
#include "extender/http/parked_server.h"
#include "extender/metrics.h"
#include "extender/pod_question.h"
#include "extender/scheduler_service.h"

namespace numafit::extender {

class Preemption {
 public:
  struct Options {
    PodRules rules;
    UnknownNodes unknown_nodes = UnknownNodes::kRefuse;
    std::function<std::int64_t()> now_ms;  // monotonic
  };
  // Everything outlives it.
  struct Parts {
    const cache::Fleet& fleet;
    Metrics& metrics;
    DecisionLog& log;
  };
  Preemption(Options options, Parts parts) : options_(std::move(options)), parts_(parts) {}

  void Serve(const http::Request& request, http::Response& response);

  // The victims that would do, those proposed first; none: the node is no candidate. `priority` is
  // the Pod's own: whoever is added has less.
  [[nodiscard]] std::optional<api::PreemptionVictims> Decide(const std::string& node,
                                                             const api::PreemptionVictims& proposed,
                                                             const policy::Demand& demand,
                                                             std::int32_t priority) const;

 private:
  const Options options_;
  const Parts parts_;
};

}  // namespace numafit::extender
