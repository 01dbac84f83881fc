// One TCP or TLS connection whose every wait has an end: a deadline and a switch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kube/http/cancel.h"

struct ssl_ctx_st;  // SSL_CTX
struct ssl_st;      // SSL

namespace numafit::kube {

struct Endpoint {
  std::string host;  // a name or an address, IPv6 without brackets
  std::string port;
  // The name that the server's certificate must carry; empty: host.
  std::string server_name;
};

// How long to wait and what cuts the wait short. `cancel` may be null.
struct Patience {
  Clock::time_point deadline;
  const Cancel* cancel = nullptr;
};

// Not thread-safe. Every call returns Unavailable (the peer is away or gone), DeadlineExceeded, or
// Cancelled; after any error the connection is of no further use. Resolving a host name is the
// one wait that the system does not let us bound; addresses are not resolved.
class Connection {
 public:
  // Tries the host's addresses in their order. `tls` is null for plain TCP, else it must outlive
  // the connection.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Endpoint& endpoint, ssl_ctx_st* tls,
                                                          const Patience& patience);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Status Write(std::string_view bytes, const Patience& patience);
  // At least one byte, or 0 at the end of the stream (also when the peer closed without a TLS
  // close_notify: HTTP's own framing tells whether something is missing).
  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size, const Patience& patience);

  // Nothing has arrived, not even an end: fit for another request. Does not wait.
  [[nodiscard]] bool IsQuiet();

 private:
  explicit Connection(int fd) : fd_(fd) {}
  absl::Status Handshake(const Endpoint& endpoint, ssl_ctx_st* tls, const Patience& patience);
  // Waits for what SSL_get_error asked for; an error when it asked for nothing.
  absl::Status Await(int ssl_result, const Patience& patience);

  int fd_;
  ssl_st* ssl_ = nullptr;
};

}  // namespace numafit::kube
