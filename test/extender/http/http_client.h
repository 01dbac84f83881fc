// A raw HTTP/1.1 client for tests and benchmarks: sends exactly the bytes it is told to.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace numafit::extender::http {

struct ClientResponse {
  int status = 0;                              // 0: no (complete) answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class RawClient {
 public:
  explicit RawClient(int port);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // False when the peer has closed.
  bool Send(std::string_view bytes);
  // Waits for one answer, up to `timeout_ms`.
  ClientResponse Read(int timeout_ms = 10'000);
  // The peer closed (true) within the time, or did not or sent something (false).
  bool WaitForClose(int timeout_ms = 10'000);
  // A POST as kube-scheduler sends it.
  ClientResponse Post(std::string_view path, std::string_view body);
  ClientResponse Get(std::string_view path);

 private:
  bool Fill(int timeout_ms);

  int fd_ = -1;
  std::string received_;
};

std::string PostRequest(std::string_view path, std::string_view body);

}  // namespace numafit::extender::http
