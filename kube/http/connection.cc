#include "kube/http/connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "kube/http/tls.h"

namespace numafit::kube {
namespace {

absl::Status SystemError(std::string_view what, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::generic_category().message(error)));
}

// Ready, or DeadlineExceeded, or Cancelled.
absl::Status WaitFor(int fd, short events, const Patience& patience) {
  for (;;) {
    if (patience.cancel != nullptr && patience.cancel->IsSet()) {
      return absl::CancelledError("stopped");
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(patience.deadline - Clock::now()).count();
    if (left <= 0) return absl::DeadlineExceededError("timed out");
    std::array<pollfd, 2> entries{
        pollfd{.fd = fd, .events = events, .revents = 0},
        pollfd{.fd = patience.cancel != nullptr ? patience.cancel->fd() : -1,
               .events = POLLIN,
               .revents = 0}};
    // In steps of a second, so that it ends even where Cancel has no descriptor.
    const int ready = ::poll(entries.data(), entries.size(),
                             static_cast<int>(std::min<std::int64_t>(left, 1000)));
    if (ready < 0 && errno != EINTR) return SystemError("poll", errno);
    if (ready > 0 && entries[1].revents == 0 && entries[0].revents != 0) return absl::OkStatus();
  }
}

// A BIO over a socket that never raises SIGPIPE, which OpenSSL's own does.

int BioWrite(BIO* bio, const char* data, int size) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(fd, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int BioRead(BIO* bio, char* data, int size) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(fd, data, static_cast<std::size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long BioControl(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO* NewSocketBio(int fd) {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (method == nullptr) return method;
    BIO_meth_set_write(method, BioWrite);
    BIO_meth_set_read(method, BioRead);
    BIO_meth_set_ctrl(method, BioControl);
    return method;
  }();
  BIO* bio = kMethod != nullptr ? BIO_new(kMethod) : nullptr;
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  return bio;
}

struct AddressList {
  addrinfo* first = nullptr;
  AddressList() = default;
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
  AddressList(const AddressList&) = delete;
  AddressList& operator=(const AddressList&) = delete;
};

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> buffer{};
  return ::inet_pton(AF_INET, host.c_str(), buffer.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), buffer.data()) == 1;
}

// Nagle off; a peer that died without a word is noticed within a minute.
void Tune(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60'000);
}

absl::StatusOr<int> Dial(const addrinfo& address, const Patience& patience) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SystemError("socket", errno);
  Tune(fd);
  absl::Status status;
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      status = SystemError("connect", errno);
    } else if (status = WaitFor(fd, POLLOUT, patience); status.ok()) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) status = SystemError("connect", error);
    }
  }
  if (status.ok()) return fd;
  ::close(fd);
  return status;
}

absl::StatusOr<int> DialAny(const Endpoint& endpoint, const Patience& patience) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (IsAddress(endpoint.host) ? AI_NUMERICHOST : AI_ADDRCONFIG);
  AddressList list;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &list.first);
  if (error != 0) {
    return absl::UnavailableError(
        fmt::format("cannot resolve {}: {}", endpoint.host, ::gai_strerror(error)));
  }
  int left = 0;
  for (const addrinfo* at = list.first; at != nullptr; at = at->ai_next) ++left;
  absl::StatusOr<int> fd = absl::UnavailableError("no address");
  for (const addrinfo* at = list.first; at != nullptr && !fd.ok(); at = at->ai_next) {
    // An address that does not answer must leave time for the others.
    const auto now = Clock::now();
    const Patience share{now + (patience.deadline - now) / left--, patience.cancel};
    fd = Dial(*at, share);
    if (absl::IsCancelled(fd.status())) break;
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Endpoint& endpoint,
                                                             ssl_ctx_st* tls,
                                                             const Patience& patience) {
  const absl::StatusOr<int> fd = DialAny(endpoint, patience);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<Connection> connection(new Connection(*fd));
  if (tls != nullptr) {
    absl::Status status = connection->Handshake(endpoint, tls, patience);
    if (!status.ok()) return status;
  }
  return connection;
}

Connection::~Connection() {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    SSL_shutdown(ssl_);  // says goodbye if the socket takes it at once
    ERR_clear_error();
    SSL_free(ssl_);
  }
  ::close(fd_);
}

absl::Status Connection::Handshake(const Endpoint& endpoint, ssl_ctx_st* tls,
                                   const Patience& patience) {
  ERR_clear_error();
  const std::string& name = endpoint.server_name.empty() ? endpoint.host : endpoint.server_name;
  ssl_ = SSL_new(tls);
  BIO* bio = ssl_ != nullptr ? NewSocketBio(fd_) : nullptr;
  if (bio == nullptr) return absl::UnavailableError("TLS: " + TakeTlsError());
  SSL_set_bio(ssl_, bio, bio);
  // As Kubernetes' own clients: a subject's common name is no host name.
  SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool named = IsAddress(name)
                         ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), name.c_str()) == 1
                         : SSL_set1_host(ssl_, name.c_str()) == 1 &&
                               SSL_set_tlsext_host_name(ssl_, name.c_str()) == 1;
  if (!named) return absl::UnavailableError("TLS: " + TakeTlsError());
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(ssl_);
    if (result == 1) return absl::OkStatus();
    absl::Status status = Await(result, patience);
    if (status.ok()) continue;
    const long verdict = SSL_get_verify_result(ssl_);
    if (absl::IsUnavailable(status) && verdict != X509_V_OK) {
      return absl::UnavailableError(
          fmt::format("TLS: certificate of {}: {}", name, X509_verify_cert_error_string(verdict)));
    }
    return status;
  }
}

absl::Status Connection::Await(int ssl_result, const Patience& patience) {
  const int saved = errno;
  switch (SSL_get_error(ssl_, ssl_result)) {
    case SSL_ERROR_WANT_READ:
      return WaitFor(fd_, POLLIN, patience);
    case SSL_ERROR_WANT_WRITE:
      return WaitFor(fd_, POLLOUT, patience);
    case SSL_ERROR_SYSCALL:
      if (ERR_peek_error() == 0) {
        return saved != 0 ? SystemError("TLS", saved)
                          : absl::UnavailableError("TLS: the connection was closed");
      }
      [[fallthrough]];
    default:
      return absl::UnavailableError("TLS: " + TakeTlsError());
  }
}

absl::Status Connection::Write(std::string_view bytes, const Patience& patience) {
  while (!bytes.empty()) {
    absl::Status status;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      errno = 0;
      const int chunk = static_cast<int>(std::min<std::size_t>(bytes.size(), 1U << 20U));
      const int sent = SSL_write(ssl_, bytes.data(), chunk);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
        continue;
      }
      status = Await(sent, patience);
    } else {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
        continue;
      }
      if (errno == EINTR) continue;
      status = errno == EAGAIN ? WaitFor(fd_, POLLOUT, patience) : SystemError("write", errno);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> Connection::Read(char* buffer, std::size_t size,
                                             const Patience& patience) {
  // Also when there is always something to read: a peer that never stops must not outlast us.
  if (patience.cancel != nullptr && patience.cancel->IsSet()) {
    return absl::CancelledError("stopped");
  }
  if (Clock::now() >= patience.deadline) return absl::DeadlineExceededError("timed out");
  for (;;) {
    absl::Status status;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      errno = 0;
      const int got =
          SSL_read(ssl_, buffer, static_cast<int>(std::min<std::size_t>(size, 1U << 20U)));
      if (got > 0) return static_cast<std::size_t>(got);
      const int error = SSL_get_error(ssl_, got);
      const bool cut = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
      if (error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_SSL && cut)) return 0;
      status = Await(got, patience);
    } else {
      const ssize_t got = ::recv(fd_, buffer, size, 0);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno == EINTR) continue;
      status = errno == EAGAIN ? WaitFor(fd_, POLLIN, patience) : SystemError("read", errno);
    }
    if (!status.ok()) return status;
  }
}

bool Connection::IsQuiet() {
  char byte = 0;
  if (ssl_ == nullptr) {
    return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  ERR_clear_error();
  const int got = SSL_peek(ssl_, &byte, 1);
  return got <= 0 && SSL_get_error(ssl_, got) == SSL_ERROR_WANT_READ;
}

}  // namespace numafit::kube
