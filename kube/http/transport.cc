#include "kube/http/transport.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "kube/client.h"
#include "kube/http/response_parser.h"
#include "kube/read_file.h"

namespace numafit::kube {
namespace {

constexpr std::size_t kMaxShortBody = std::size_t{4} << 20;

// Tokens that a header could not carry (a line break would add a header).
bool IsHeaderSafe(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Response HeaderOf(const ResponseParser& parser) {
  return {.status = parser.status(),
          .content_type = parser.content_type(),
          .retry_after_seconds = parser.retry_after_seconds(),
          .body = {}};
}

struct Exchange {
  Connection& connection;
  const Cancel* cancel;
  Clock::time_point header_deadline;
  // The deadline of the next read once the header is there.
  std::function<Clock::time_point()> body_deadline;
  ResponseParser parser;
};

// Writes the request and reads the answer. The body goes to `sink` when the status is 200 and a
// sink is given, else into the response.
absl::StatusOr<Response> Run(Exchange& exchange, const std::string& text,
                             const Transport::Sink* sink) {
  ResponseParser& parser = exchange.parser;
  const Patience header{exchange.header_deadline, exchange.cancel};
  // A server may answer and close without reading everything, so a failed write is no answer yet.
  const absl::Status written = exchange.connection.Write(text, header);
  if (!written.ok() && !absl::IsUnavailable(written)) return written;
  Response response;
  bool announced = false;
  const auto on_body = [&](std::string_view piece) -> absl::Status {
    if (sink != nullptr && response.status == 200) return (*sink)(response, piece);
    if (response.body.size() + piece.size() > kMaxShortBody) {
      return absl::DataLossError("an answer above 4 MiB");
    }
    response.body.append(piece);
    return absl::OkStatus();
  };
  const auto on_first_body = [&](std::string_view piece) -> absl::Status {
    if (!announced) {
      announced = true;
      response = HeaderOf(parser);
      if (absl::Status status = on_body({}); !status.ok()) return status;
    }
    return piece.empty() ? absl::OkStatus() : on_body(piece);
  };
  std::array<char, 16384> buffer;
  while (!parser.done()) {
    const Patience patience{parser.has_header() ? exchange.body_deadline() : header.deadline,
                            exchange.cancel};
    const absl::StatusOr<std::size_t> got =
        exchange.connection.Read(buffer.data(), buffer.size(), patience);
    if (!got.ok()) return written.ok() || parser.started() ? got.status() : written;
    absl::Status status =
        *got == 0 ? parser.FeedEnd() : parser.Feed({buffer.data(), *got}, on_first_body);
    if (status.ok() && parser.has_header()) status = on_first_body({});
    if (!status.ok()) return status;
  }
  return response;
}

}  // namespace

std::string EscapeUrl(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (unreserved) {
      result += c;
    } else {
      fmt::format_to(std::back_inserter(result), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

absl::StatusOr<ServerUrl> ParseServerUrl(std::string_view url) {
  const auto wrong = [url](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("server \"{}\": {}; expected https://host:port", url.substr(0, 200), why));
  };
  ServerUrl result;
  const std::size_t scheme = url.find("://");
  // As in kubectl, an address without a scheme is plain HTTP.
  const std::string_view name = scheme == std::string_view::npos ? "http" : url.substr(0, scheme);
  if (name != "http" && name != "https") return wrong("unknown scheme");
  result.tls = name == "https";
  std::string_view rest = scheme == std::string_view::npos ? url : url.substr(scheme + 3);
  if (rest.find_first_of("?#@ \t\r\n") != std::string_view::npos) return wrong("unexpected sign");
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  result.prefix = rest.substr(slash);
  while (result.prefix.ends_with('/')) result.prefix.pop_back();
  std::string_view authority = rest.substr(0, slash);
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return wrong("no ] after the address");
    result.endpoint.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (!authority.empty() && authority[0] != ':') return wrong("unexpected text after ]");
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    result.endpoint.host = authority.substr(0, colon);
    authority.remove_prefix(colon);
  }
  if (result.endpoint.host.empty()) return wrong("no host");
  if (!IsHeaderSafe(result.endpoint.host) || !IsHeaderSafe(result.prefix)) {
    return wrong("unexpected sign");
  }
  result.endpoint.port = authority.empty() ? (result.tls ? "443" : "80") : authority.substr(1);
  const std::string& port = result.endpoint.port;
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos ||
      std::stoi(port) > 65535) {
    return wrong("the port is no number up to 65535");
  }
  return result;
}

std::string TokenSource::Get() {
  const api::MutexLock lock(mutex_);
  if (file_.empty()) return token_;
  struct stat info {};
  if (::stat(file_.c_str(), &info) != 0) return token_;
  const Stamp stamp{.seconds = info.st_mtim.tv_sec,
                    .nanoseconds = info.st_mtim.tv_nsec,
                    .inode = info.st_ino,
                    .size = info.st_size};
  if (stamp == stamp_) return token_;
  absl::StatusOr<std::string> read = ReadFile(file_);
  if (!read.ok()) return token_;
  std::string text = *std::move(read);
  constexpr std::string_view kBlanks = " \t\r\n";
  text.erase(text.find_last_not_of(kBlanks) + 1);
  text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.empty() || !IsHeaderSafe(text)) return token_;  // being written
  stamp_ = stamp;
  token_ = std::move(text);
  return token_;
}

bool TokenSource::Invalidate() {
  const api::MutexLock lock(mutex_);
  stamp_ = Stamp();
  return !file_.empty();
}

Transport::Transport(Options options, Endpoint endpoint, std::string prefix, TlsContext tls,
                     std::string token, std::string token_file)
    : options_(options),
      endpoint_(std::move(endpoint)),
      authority_(endpoint_.host.find(':') == std::string::npos
                     ? fmt::format("{}:{}", endpoint_.host, endpoint_.port)
                     : fmt::format("[{}]:{}", endpoint_.host, endpoint_.port)),
      prefix_(std::move(prefix)),
      tls_(std::move(tls)),
      token_(std::move(token), std::move(token_file)) {}

absl::StatusOr<std::unique_ptr<Transport>> Transport::Create(const Credentials& credentials,
                                                             Options options) {
  absl::StatusOr<ServerUrl> url = ParseServerUrl(credentials.server);
  if (!url.ok()) return url.status();
  if (!IsHeaderSafe(credentials.token)) {
    return absl::InvalidArgumentError("token: it holds signs that no HTTP header may carry");
  }
  if (options.max_connections < 1) {
    return absl::InvalidArgumentError("max_connections: expected 1 or more");
  }
  TlsContext tls;
  if (url->tls) {
    absl::StatusOr<TlsContext> made =
        MakeTlsContext({.ca_pem = credentials.ca_pem,
                        .insecure_skip_verify = credentials.insecure_skip_verify,
                        .client_cert_pem = credentials.client_cert_pem,
                        .client_key_pem = credentials.client_key_pem});
    if (!made.ok()) return made.status();
    tls = *std::move(made);
  }
  url->endpoint.server_name = credentials.tls_server_name;
  return std::unique_ptr<Transport>(new Transport(options, std::move(url->endpoint),
                                                  std::move(url->prefix), std::move(tls),
                                                  credentials.token, credentials.token_file));
}

std::string Transport::Render(const Request& request) {
  std::string text =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: numafit\r\nAccept: {}\r\n",
                  request.method, prefix_, request.target, authority_, request.accept);
  if (const std::string token = token_.Get(); !token.empty()) {
    text += fmt::format("Authorization: Bearer {}\r\n", token);
  }
  if (!request.content_type.empty()) {
    text += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", request.content_type,
                        request.body.size());
  }
  return text + "\r\n" + request.body;
}

absl::Status Transport::Annotate(const Request& request, const absl::Status& status) const {
  const absl::string_view message = status.message();
  return {status.code(), fmt::format("{} {}{}: {}", request.method, authority_,
                                     request.target.substr(0, request.target.find('?')),
                                     std::string_view(message.data(), message.size()))};
}

absl::Status Transport::TakeSlot(const Patience& patience) {
  const api::MutexLock lock(mutex_);
  while (in_use_ >= options_.max_connections) {
    if (patience.cancel != nullptr && patience.cancel->IsSet()) {
      return absl::CancelledError("stopped");
    }
    if (Clock::now() >= patience.deadline) {
      return absl::DeadlineExceededError(
          fmt::format("all {} connections were busy", options_.max_connections));
    }
    // In steps, because a Cancel does not wake this wait.
    slot_free_.wait_until(
        mutex_, std::min(patience.deadline, Clock::now() + std::chrono::milliseconds(100)));
  }
  ++in_use_;
  return absl::OkStatus();
}

void Transport::ReturnSlot(std::unique_ptr<Connection> reusable) {
  {
    const api::MutexLock lock(mutex_);
    --in_use_;
    if (reusable != nullptr) idle_.push_back(std::move(reusable));
  }
  slot_free_.notify_one();
}

std::unique_ptr<Connection> Transport::TakeIdle() {
  for (;;) {
    std::unique_ptr<Connection> connection;  // a dead one is closed outside of the lock
    {
      const api::MutexLock lock(mutex_);
      if (idle_.empty()) return nullptr;
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    if (connection->IsQuiet()) return connection;
  }
}

absl::StatusOr<Response> Transport::SendOnce(const Request& request, const Patience& patience) {
  if (absl::Status status = TakeSlot(patience); !status.ok()) return status;
  const std::string text = Render(request);
  std::unique_ptr<Connection> connection = TakeIdle();
  absl::StatusOr<Response> response = absl::UnavailableError("not sent");
  for (bool kept = connection != nullptr;; kept = false) {
    if (connection == nullptr) {
      absl::StatusOr<std::unique_ptr<Connection>> fresh =
          Connection::Open(endpoint_, tls_.get(), patience);
      if (!fresh.ok()) {
        response = fresh.status();
        break;
      }
      connection = *std::move(fresh);
    }
    Exchange exchange{.connection = *connection,
                      .cancel = patience.cancel,
                      .header_deadline = patience.deadline,
                      .body_deadline = [&] { return patience.deadline; },
                      .parser = {}};
    response = Run(exchange, text, nullptr);
    if (!response.ok() || !exchange.parser.keep_alive()) connection.reset();
    const bool dead = absl::IsUnavailable(response.status());
    if (response.ok() || !kept || !dead || exchange.parser.started()) break;
  }
  ReturnSlot(std::move(connection));
  return response;
}

absl::StatusOr<Response> Transport::Send(const Request& request, const Cancel* cancel) {
  const Patience patience{Clock::now() + options_.timeout, cancel};
  absl::StatusOr<Response> response = SendOnce(request, patience);
  if (response.ok() && response->status == 401 && token_.Invalidate()) {
    response = SendOnce(request, patience);
  }
  if (!response.ok()) return Annotate(request, response.status());
  return response;
}

absl::StatusOr<Response> Transport::Stream(const Request& request, const StreamOptions& options,
                                           const Sink& sink) {
  const Patience patience{Clock::now() + options.header_timeout, options.cancel};
  const absl::StatusOr<std::unique_ptr<Connection>> connection =
      Connection::Open(endpoint_, tls_.get(), patience);
  if (!connection.ok()) return Annotate(request, connection.status());
  Exchange exchange{.connection = **connection,
                    .cancel = options.cancel,
                    .header_deadline = patience.deadline,
                    .body_deadline = [&] { return Clock::now() + options.idle_timeout; },
                    .parser = {}};
  absl::StatusOr<Response> response = Run(exchange, Render(request), &sink);
  if (response.ok() && response->status == 401) token_.Invalidate();
  if (!response.ok()) return Annotate(request, response.status());
  return response;
}

}  // namespace numafit::kube
