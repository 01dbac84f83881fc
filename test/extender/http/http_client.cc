#include "test/extender/http/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "fmt/format.h"

namespace numafit::extender::http {

RawClient::RawClient(int port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

RawClient::~RawClient() {
  if (fd_ >= 0) ::close(fd_);
}

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::Fill(int timeout_ms) {
  pollfd fd{fd_, POLLIN, 0};
  if (::poll(&fd, 1, timeout_ms) != 1) return false;
  char buffer[64 * 1024];
  const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

ClientResponse RawClient::Read(int timeout_ms) {
  ClientResponse response;
  std::size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill(timeout_ms)) return response;
  }
  std::size_t at = received_.find("\r\n");
  const int status = std::stoi(received_.substr(9, 3));
  while (at < end) {
    const std::size_t next = received_.find("\r\n", at + 2);
    const std::string line = received_.substr(at + 2, next - at - 2);
    const std::size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    response.headers[name] = line.substr(std::min(line.size(), colon + 2));
    at = next;
  }
  std::size_t length = 0;
  if (const auto it = response.headers.find("content-length"); it != response.headers.end()) {
    length = std::stoul(it->second);
  }
  while (received_.size() < end + 4 + length) {
    if (!Fill(timeout_ms)) return response;
  }
  response.status = status;
  response.body = received_.substr(end + 4, length);
  received_.erase(0, end + 4 + length);
  return response;
}

bool RawClient::WaitForClose(int timeout_ms) {
  if (!received_.empty()) return false;
  pollfd fd{fd_, POLLIN, 0};
  if (::poll(&fd, 1, timeout_ms) != 1) return false;
  char byte = 0;
  return ::recv(fd_, &byte, 1, 0) <= 0;
}

ClientResponse RawClient::Post(std::string_view path, std::string_view body) {
  if (!Send(PostRequest(path, body))) return {};
  return Read();
}

ClientResponse RawClient::Get(std::string_view path) {
  if (!Send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path))) return {};
  return Read();
}

std::string PostRequest(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
      "Content-Length: {}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{}",
      path, body.size(), body);
}

}  // namespace numafit::extender::http
