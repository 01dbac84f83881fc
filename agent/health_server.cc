#include "agent/health_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace numafit::agent {
namespace {

using Clock = std::chrono::steady_clock;

// Probes send some hundred bytes at once, and few at a time.
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostConnections = 16;
constexpr std::chrono::seconds kPatience{1};

struct Address {
  std::string host;  // empty: every one
  std::string port;
};

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  const auto wrong = [&text] {
    return absl::InvalidArgumentError(
        fmt::format("healthAddress: \"{}\", expected HOST:PORT, :PORT or [V6]:PORT", text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong();
  Address address{text.substr(0, colon), text.substr(colon + 1)};
  if (address.port.empty() || address.port.size() > 5 ||
      address.port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(address.port) > 65'535) {
    return wrong();
  }
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return wrong();
  }
  return address;
}

// -1 when that address cannot be had.
int Listen(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int yes = 1;
  const int no = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  // "::" is both families.
  if (address.ai_family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, 16) == 0) return fd;
  ::close(fd);
  return -1;
}

int Listen(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), address.port.c_str(),
                    &hints, &found) != 0) {
    return -1;
  }
  // The wider family first; a host without it has the other one.
  int fd = -1;
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* each = found; each != nullptr && fd < 0; each = each->ai_next) {
      if (each->ai_family == family) fd = Listen(*each);
    }
  }
  ::freeaddrinfo(found);
  return fd;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  in_port_t port = 0;
  if (address.ss_family == AF_INET6) {
    port = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port;
  } else {
    port = reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
  }
  return ntohs(port);
}

std::string Response(std::string_view status, std::string_view text) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
      "{}\n",
      status, text.size() + 1, text);
}

std::string Answer(std::string_view request, const Health& health) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t space = line.find(' ');
  const std::size_t second = line.find(' ', space + 1);
  if (space == std::string_view::npos || second == std::string_view::npos ||
      !line.substr(second + 1).starts_with("HTTP/1.")) {
    return Response("400 Bad Request", "not HTTP/1");
  }
  std::string_view path = line.substr(space + 1, second - space - 1);
  path = path.substr(0, path.find('?'));
  const bool alive = path == "/healthz";
  if (!alive && path != "/readyz") return Response("404 Not Found", "/healthz or /readyz");
  if (line.substr(0, space) != "GET") return Response("405 Method Not Allowed", "GET");
  const std::string why =
      alive ? health.WhyNotAlive(Clock::now()) : health.WhyNotReady(Clock::now());
  return why.empty() ? Response("200 OK", "ok") : Response("503 Service Unavailable", why);
}

struct Connection {
  int fd = -1;
  Clock::time_point until;
  std::string request;
};

}  // namespace

class HealthServer::Impl {
 public:
  Impl(int listener, const Health& health)
      : listener_(listener),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        health_(health),
        thread_([this] { Run(); }) {}
  ~Impl() {
    const std::uint64_t one = 1;
    while (::write(stop_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
    for (const Connection& each : connections_) ::close(each.fd);
    ::close(stop_);
    ::close(listener_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] int port() const { return PortOf(listener_); }

 private:
  void Run() {
    for (;;) {
      std::vector<pollfd> fds = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const Connection& each : connections_) fds.push_back({each.fd, POLLIN, 0});
      ::poll(fds.data(), fds.size(), connections_.empty() ? -1 : WaitMillis());
      if (fds[0].revents != 0) return;
      const Clock::time_point now = Clock::now();
      for (std::size_t i = 0; i < connections_.size(); ++i) {
        Connection& each = connections_[i];
        const bool ended = fds[i + 2].revents != 0 && !Read(each);
        if (ended || now >= each.until) Close(each);
      }
      std::erase_if(connections_, [](const Connection& each) { return each.fd < 0; });
      if (fds[1].revents != 0) Accept();
    }
  }

  [[nodiscard]] int WaitMillis() const {
    const auto left = connections_.front().until - Clock::now();  // the oldest ends first
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::max<std::int64_t>(0, ms) + 1);
  }

  void Accept() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // No descriptors, say: rather a moment's rest than a thread that spins.
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      return;
    }
    if (connections_.size() == kMostConnections) {
      Close(connections_.front());
      connections_.erase(connections_.begin());
    }
    connections_.push_back({fd, Clock::now() + kPatience, {}});
  }

  // False when the connection is done with.
  bool Read(Connection& connection) {
    std::array<char, kMostBytes> buffer;
    const ssize_t got = ::recv(connection.fd, buffer.data(), buffer.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection.request.append(buffer.data(), static_cast<std::size_t>(got));
    const bool complete = connection.request.find("\r\n\r\n") != std::string::npos;
    if (!complete && connection.request.size() < kMostBytes) return true;
    const std::string answer = complete ? Answer(connection.request, health_)
                                        : Response("431 Request Header Fields Too Large", "4 KiB");
    // Fits into the socket's buffer; whoever does not take it does without.
    ::send(connection.fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    return false;
  }

  static void Close(Connection& connection) {
    ::close(connection.fd);
    connection.fd = -1;
  }

  const int listener_;
  const int stop_;
  const Health& health_;
  std::vector<Connection> connections_;  // the thread's, oldest first
  std::thread thread_;                   // last: it uses all of the above
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HealthServer::~HealthServer() = default;

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address,
                                                                  const Health& health) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  const int listener = Listen(*parsed);
  if (listener < 0) {
    return absl::UnavailableError(fmt::format("healthAddress: cannot listen on {}", address));
  }
  return std::unique_ptr<HealthServer>(new HealthServer(std::make_unique<Impl>(listener, health)));
}

int HealthServer::port() const {
  return impl_->port();
}

}  // namespace numafit::agent
