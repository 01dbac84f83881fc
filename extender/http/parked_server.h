// An HTTP/1.1 server for few busy and many idle connections.
//
// cpp-httplib parses heads and writes answers; everything between the socket and it is ours,
// because the packaged version gives every connection a thread for its whole life, closes
// kept-alive connections sooner than Go's client does, and reads bodies without a bound. Here:
//
//   * A connection waits in epoll, not on a thread, until a whole request has arrived: a slow, half
//     or idle client costs memory (bounded), never a worker.
//   * Fast routes run on `workers` threads, slow ones (those that wait for another server) on
//     `slow_workers`, so that no slow route delays a fast one.
//   * A request is framed by request_head.h and never exceeds the head and body limits; what all
//     half-received requests hold together is bounded too. Refusals name the limit.
//   * Handlers get the body where it was received, with kBodyPadding readable bytes behind it
//     (simdjson's need), and write into a buffer that the thread keeps. Answers leave with
//     Content-Length, in one write, uncompressed.
//   * After a status >= 400 the connection is closed, once the client has had time to read why.
//
// TLS will be a second Transport; nothing above it changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "extender/http/request_head.h"

namespace numafit::extender::http {

inline constexpr std::size_t kBodyPadding = 64;
// With the charset: cpp-httplib compresses plain "application/json" for whoever accepts gzip, which
// Go's client always does, and that costs ten times the answer.
inline constexpr std::string_view kJson = "application/json; charset=utf-8";

struct Request {
  std::string_view method;
  std::string_view path;
  std::string_view query;  // after '?', as sent
  std::string_view body;   // valid until the handler returns; mutable copy not needed, see padding
  std::string_view remote;
  int thread = 0;  // 0..ParkedServer::threads()-1: index of per-thread scratch
};

struct Response {
  int status = 200;
  std::string_view content_type = kJson;  // must outlive the handler (a literal)
  std::string& body;                      // empty on entry, keeps its capacity between requests
};

using Handler = std::function<void(const Request&, Response&)>;

// Every number since the start, or now (marked). Read and written without locks.
struct ServerStats {
  std::atomic<std::int64_t> open{0};            // now
  std::atomic<std::int64_t> buffered_bytes{0};  // now, in half-received requests
  std::atomic<std::int64_t> waiting_slow{0};    // now, requests that wait for a slow worker
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused_connections{0};  // over max_connections
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> malformed{0};
  std::atomic<std::uint64_t> head_too_large{0};
  std::atomic<std::uint64_t> body_too_large{0};
  std::atomic<std::uint64_t> encoding_refused{0};
  std::atomic<std::uint64_t> overloaded{0};     // over max_buffered_bytes or max_waiting_slow
  std::atomic<std::uint64_t> slow_requests{0};  // not complete within request_timeout
  std::atomic<std::uint64_t> slow_readers{0};   // answer not taken within write_timeout
  std::atomic<std::uint64_t> idle_closed{0};
  std::atomic<std::uint64_t> handler_exceptions{0};
};

class ParkedServer {
 public:
  enum class Pool { kFast, kSlow };

  struct Options {
    std::string name = "http";  // in thread names
    int workers = 2;
    int slow_workers = 0;  // 0: slow routes run on the fast workers
    HeadLimits limits;
    int max_connections = 4096;
    std::size_t max_waiting_slow = 4096;
    std::size_t max_buffered_bytes = std::size_t{256} * 1024 * 1024;
    int backlog = 4096;
    // Go's client keeps idle connections for 90 s and does not repeat a POST that meets a closing
    // one, so this must be clearly longer (kubernetes.md 1.9).
    std::int64_t idle_timeout_ms = 150'000;
    std::int64_t request_timeout_ms = 15'000;  // first byte to last byte of a request
    std::int64_t write_timeout_ms = 15'000;
    std::int64_t linger_ms = 2'000;
    // Monotonic milliseconds. Tests inject one and call CheckDeadlines.
    std::function<std::int64_t()> now_ms;
  };

  explicit ParkedServer(Options options);
  // Waits for running handlers.
  ~ParkedServer();
  ParkedServer(const ParkedServer&) = delete;
  ParkedServer& operator=(const ParkedServer&) = delete;

  // Exact path. GET answers HEAD too. Before Start only.
  void Route(std::string method, std::string path, Pool pool, Handler handler);

  // "host:port", ":port" (all addresses), "[::1]:port"; port 0 picks one. InvalidArgument for an
  // address that does not parse, Unavailable when it cannot be bound.
  absl::Status Start(const std::string& address);
  // Of the listening socket; 0 before Start.
  [[nodiscard]] int port() const;
  [[nodiscard]] int threads() const;

  // Stops accepting, closes idle connections, lets requests in progress end for up to `timeout_ms`
  // and answers them with Connection: close. True when nothing was left running. Idempotent.
  bool Drain(std::int64_t timeout_ms);

  // Closes what is overdue; runs by itself a few times a second.
  void CheckDeadlines();

  [[nodiscard]] const ServerStats& stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends {"error":"…"} with `message` escaped.
void AppendError(std::string_view message, std::string* out);

}  // namespace numafit::extender::http
