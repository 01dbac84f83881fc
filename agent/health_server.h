// Where the kubelet's probes ask: a few lines of HTTP of its own.
//
// The port is open to whoever reaches the Pod, so a request is a line that is looked at and at most
// some KiB that are not, connections have a second each, and when there are many the oldest goes.
// The packaged HTTP library bounds none of these well enough (docs/dependencies.md).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "agent/health.h"

namespace numafit::agent {

// Answers GET /healthz and /readyz on a thread of its own: 200 "ok", or 503 and the reason;
// anything else with 404, 405 or 400. Every answer closes its connection.
class HealthServer {
 public:
  // "HOST:PORT", ":PORT" (every address) or "[V6]:PORT"; port 0 takes any. The host is an address
  // or a name. `health` must outlive it. InvalidArgument; Unavailable when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address,
                                                             const Health& health);
  ~HealthServer();

  [[nodiscard]] int port() const;

 private:
  class Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace numafit::agent
