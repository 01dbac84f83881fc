// A TCP server that does to each connection what the test says: for answers that are no HTTP.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace numafit::kube_testing {

// `serve(fd, n)` is called for the n-th connection (from 0), one at a time; the descriptor is
// closed when it returns.
class RawServer {
 public:
  explicit RawServer(std::function<void(int fd, int n)> serve)
      : serve_(std::move(serve)), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(fd_, 16);
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~RawServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }

  // Reads up to the end of a request's header; empty when the peer hung up.
  static std::string ReadRequest(int fd) {
    std::string text;
    char byte = 0;
    while (!text.ends_with("\r\n\r\n") && ::recv(fd, &byte, 1, 0) == 1) text += byte;
    return text;
  }
  static void Write(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Until the peer hangs up.
  static void WaitForEnd(int fd) {
    char buffer[1024];
    while (::recv(fd, buffer, sizeof buffer, 0) > 0) {
    }
  }

 private:
  void Run() {
    for (;;) {
      const int fd = ::accept(fd_, nullptr, nullptr);
      if (fd < 0) return;
      serve_(fd, connections_++);
      ::close(fd);
    }
  }

  std::function<void(int, int)> serve_;
  int fd_;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace numafit::kube_testing
