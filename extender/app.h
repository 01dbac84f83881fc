// The whole service, put together from a Config. main and the tests use it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "cache/fleet_file.h"
#include "extender/config.h"
#include "kube/client.h"

namespace numafit::extender {

class App {
 public:
  // What tests put in the place of the real thing. Empty members are made from the Config.
  struct Overrides {
    const cache::FleetFile* fleet = nullptr;
    std::unique_ptr<kube::Client> client;
    // Without it an overridden client is not watched, and the service is ready at once.
    bool watch_client = false;
  };

  // Reads the fleet and the credentials, starts watching, opens both ports. The error says which
  // of them failed.
  static absl::StatusOr<std::unique_ptr<App>> Start(const Config& config, Overrides overrides);
  static absl::StatusOr<std::unique_ptr<App>> Start(const Config& config);
  // Waits for what is in progress.
  ~App();

  [[nodiscard]] int port() const;
  [[nodiscard]] int read_port() const;  // 0 when there is no read API
  [[nodiscard]] bool ready() const;

  // Ends the service: no new connections, requests in progress get `timeout_ms` to end. False when
  // some did not; leave the process then without destroying the App.
  bool Drain(std::int64_t timeout_ms);

 private:
  class Impl;
  explicit App(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace numafit::extender
