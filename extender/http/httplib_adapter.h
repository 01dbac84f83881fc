// The one place that calls cpp-httplib: one request head in memory in, one response head out.
//
// Framing, limits, body and socket stay outside (parked_server.cc). Exceptions end here.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "extender/http/parked_server.h"

namespace numafit::extender::http {

struct Answer {
  int status = 0;
  bool close = false;  // the client asked for it, or the status is an error, or we are draining
  bool exception = false;
  std::string head;
  // What follows the head: a view into Response::body or into `error_body`; empty for HEAD.
  std::string_view body;
  std::string error_body;
};

// Thread-safe.
class HttplibAdapter {
 public:
  // `keep_alive_seconds` is what answers promise.
  explicit HttplibAdapter(std::int64_t keep_alive_seconds);
  ~HttplibAdapter();

  // `head` is a complete request head that ScanHead accepted. Calls `serve` once unless httplib
  // refuses the head.
  void Run(std::string_view head, std::string_view remote, const std::atomic<bool>& draining,
           const std::function<void(Response&)>& serve, std::string* output, Answer* answer);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace numafit::extender::http
