// Listening sockets, as the servers need them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace numafit::extender::http {

// A non-blocking listening socket on "host:port", ":port" (every address) or "[v6]:port". Sets
// `port` to the port that was bound. InvalidArgument for text that is no address, Unavailable when
// it cannot be bound; both name the address.
absl::StatusOr<int> Listen(const std::string& address, int backlog, int* port);

// A non-blocking connection without Nagle's delay, or -1 with errno; `remote` is its numeric host.
int Accept(int listener, std::string* remote);

}  // namespace numafit::extender::http
