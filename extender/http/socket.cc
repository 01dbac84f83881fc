#include "extender/http/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "fmt/format.h"

namespace numafit::extender::http {
namespace {

struct HostPort {
  std::string host;
  std::string port;
};

bool Split(const std::string& address, HostPort* out) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return false;
  out->host = address.substr(0, colon);
  out->port = address.substr(colon + 1);
  if (out->port.find_first_not_of("0123456789") != std::string::npos) return false;
  if (out->port.size() > 5 || std::stoi(out->port) > 65535) return false;
  if (out->host.size() >= 2 && out->host.front() == '[' && out->host.back() == ']') {
    out->host = out->host.substr(1, out->host.size() - 2);
    return true;
  }
  return out->host.find(':') == std::string::npos;
}

int BoundPort(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace

absl::StatusOr<int> Listen(const std::string& address, int backlog, int* port) {
  HostPort parts;
  if (!Split(address, &parts)) {
    return absl::InvalidArgumentError(
        fmt::format("listen address \"{}\": expected host:port or :port", address));
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(parts.host.empty() ? nullptr : parts.host.c_str(),
                                  parts.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("listen address \"{}\": {}", address, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  // "Every address" prefers the IPv6 socket, which takes IPv4 too.
  const addrinfo* chosen = found;
  for (const addrinfo* it = found; parts.host.empty() && it != nullptr; it = it->ai_next) {
    if (it->ai_family == AF_INET6) chosen = it;
  }
  std::string reason;
  for (const addrinfo* it : {chosen, static_cast<const addrinfo*>(found)}) {
    const int fd = ::socket(it->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      reason = std::strerror(errno);
      continue;
    }
    const int on = 1;
    const int off = 0;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (it->ai_family == AF_INET6) {
      ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, parts.host.empty() ? &off : &on, sizeof(off));
    }
    if (::bind(fd, it->ai_addr, it->ai_addrlen) == 0 && ::listen(fd, backlog) == 0) {
      *port = BoundPort(fd);
      return fd;
    }
    reason = std::strerror(errno);
    ::close(fd);
  }
  return absl::UnavailableError(fmt::format("listen address \"{}\": {}", address, reason));
}

int Accept(int listener, std::string* remote) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&storage), &size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return fd;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  char host[NI_MAXHOST] = {};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host, sizeof(host), nullptr,
                    0, NI_NUMERICHOST) == 0) {
    *remote = host;
  }
  return fd;
}

}  // namespace numafit::extender::http
