// Requests to one API server: credentials on every request, a capped pool of kept connections for
// short answers, and connections of their own for streams.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/mutex.h"
#include "kube/http/cancel.h"
#include "kube/http/connection.h"
#include "kube/http/tls.h"

namespace numafit::kube {

struct Credentials;

struct Request {
  std::string method;  // "GET", "POST", "PATCH", …
  std::string target;  // path and query, already escaped, beginning with '/'
  std::string accept;
  std::string content_type;  // of the body; empty: no body
  std::string body;
};

struct Response {
  int status = 0;  // of HTTP
  std::string content_type;
  int retry_after_seconds = 0;
  std::string body;
};

// Percent-escapes everything that is not unreserved (RFC 3986), so also '/' and '='.
std::string EscapeUrl(std::string_view text);

// The bearer token; a token file is read again when it changes. Thread-safe.
class TokenSource {
 public:
  TokenSource(std::string token, std::string file)
      : file_(std::move(file)), token_(std::move(token)) {}

  // Empty: no token. While the file cannot be read the last token stays.
  std::string Get();
  // Reads the file at the next Get even if it looks the same; false when there is no file.
  bool Invalidate();

 private:
  struct Stamp {
    std::int64_t seconds = -1;
    std::int64_t nanoseconds = -1;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    bool operator==(const Stamp&) const = default;
  };

  const std::string file_;
  api::Mutex mutex_;
  std::string token_ NUMAFIT_GUARDED_BY(mutex_);
  Stamp stamp_ NUMAFIT_GUARDED_BY(mutex_);
};

// Thread-safe. No exceptions. Errors of the network are Unavailable, DeadlineExceeded, Cancelled or
// DataLoss (an answer that is no HTTP or too large); an answer with any status is a Response.
class Transport {
 public:
  struct Options {
    int max_connections = 16;
    std::chrono::milliseconds timeout{10'000};
  };

  // InvalidArgument: an address, certificate or key that cannot be used. Does not connect.
  static absl::StatusOr<std::unique_ptr<Transport>> Create(const Credentials& credentials,
                                                           Options options);

  // A short answer (up to 4 MiB) over a kept connection; `options.timeout` covers all of it,
  // waiting for a connection included. Sent again once on a fresh connection when a kept one turns
  // out to be dead before any byte of the answer, and once with a fresh token after a 401.
  absl::StatusOr<Response> Send(const Request& request, const Cancel* cancel = nullptr);

  struct StreamOptions {
    std::chrono::milliseconds header_timeout{10'000};  // connecting and up to the header
    std::chrono::milliseconds idle_timeout{10'000};    // between two pieces of the body
    const Cancel* cancel = nullptr;
  };
  // Called with the header first (an empty piece), then for each piece of the body.
  using Sink = std::function<absl::Status(const Response& header, std::string_view piece)>;

  // An answer of any length, on a connection of its own. With status 200 the body goes to `sink`,
  // whose error ends the call and is returned; with any other it is in the result (up to 4 MiB).
  // Returns when the answer is complete.
  absl::StatusOr<Response> Stream(const Request& request, const StreamOptions& options,
                                  const Sink& sink);

 private:
  Transport(Options options, Endpoint endpoint, std::string prefix, TlsContext tls,
            std::string token, std::string token_file);

  absl::StatusOr<Response> SendOnce(const Request& request, const Patience& patience);
  absl::Status TakeSlot(const Patience& patience);
  void ReturnSlot(std::unique_ptr<Connection> reusable);
  std::unique_ptr<Connection> TakeIdle();
  [[nodiscard]] std::string Render(const Request& request);
  [[nodiscard]] absl::Status Annotate(const Request& request, const absl::Status& status) const;

  const Options options_;
  const Endpoint endpoint_;
  const std::string authority_;  // of the Host header
  const std::string prefix_;     // path of the server URL, without a '/' at its end
  const TlsContext tls_;         // null: plain
  TokenSource token_;

  api::Mutex mutex_;
  std::condition_variable_any slot_free_;
  int in_use_ NUMAFIT_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Connection>> idle_ NUMAFIT_GUARDED_BY(mutex_);
};

// "https://host[:port][/prefix]". InvalidArgument names what is wrong.
struct ServerUrl {
  bool tls = false;
  Endpoint endpoint;
  std::string prefix;
};
absl::StatusOr<ServerUrl> ParseServerUrl(std::string_view url);

}  // namespace numafit::kube
