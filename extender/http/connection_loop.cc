// What happens to one connection: read, frame, serve, write, linger, park, close.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "extender/http/parked_server_impl.h"
#include "fmt/format.h"

namespace numafit::extender::http {
namespace {

using Phase = Connection::Phase;

// A worker that has part of a request waits this long for the rest before it parks the connection:
// long enough for a body on its way, too short to be held by a slow client.
constexpr int kPatienceMs = 1;
constexpr int kPatienceTurns = 5;
constexpr std::size_t kPatienceBytes = 4096;
constexpr std::size_t kSmallInput = 16 * 1024;
constexpr std::size_t kLingerBytesPerTurn = std::size_t{1024} * 1024;
constexpr int kPipelinedPerTurn = 64;

std::string_view StatusText(int status) {
  switch (status) {
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

}  // namespace

void ParkedServer::Impl::Resume(Connection* connection, ThreadState& thread) {
  connection->armed.exchange(false, std::memory_order_acq_rel);
  switch (connection->phase.load()) {
    case Phase::kLingering:
      Linger(connection, thread);
      return;
    case Phase::kWriting:
      if (FlushPending(connection) == Next::kDone) return;
      break;
    default:
      break;
  }
  ReadAndServe(connection, thread);
}

void ParkedServer::Impl::ReadAndServe(Connection* connection, ThreadState& thread) {
  int patience = kPatienceTurns;
  int served = 0;
  // A small leftover moves into the thread's warm buffer.
  if (connection->input == nullptr ||
      connection->input->capacity() < InputBuffer::kInitialCapacity) {
    std::unique_ptr<InputBuffer> parked = Detach(connection);
    std::unique_ptr<InputBuffer> warm =
        thread.spare ? std::move(thread.spare) : std::make_unique<InputBuffer>();
    warm->Grow(InputBuffer::kInitialCapacity);
    if (parked != nullptr) {
      std::copy_n(parked->data(), parked->size(), warm->free_begin());
      warm->Append(parked->size());
    }
    Attach(connection, std::move(warm));
  }
  std::size_t wanted = 0;  // bytes of the request in front, once its head is known
  while (true) {
    if (connection->input->size() > 0 && connection->input->size() >= wanted) {
      connection->unexamined = false;
      RequestHead head;
      const HeadState state = ScanHead(connection->input->data(), connection->input->size(),
                                       options_.limits, &connection->scanned, &head);
      if (state == HeadState::kRefused) {
        if (head.refusal == RequestHead::Refusal::kMalformed) ++stats_.malformed;
        if (head.refusal == RequestHead::Refusal::kHeadTooLarge) ++stats_.head_too_large;
        if (head.refusal == RequestHead::Refusal::kBodyTooLarge) ++stats_.body_too_large;
        if (head.refusal == RequestHead::Refusal::kEncoding) ++stats_.encoding_refused;
        Refuse(connection, head.error_status, head.error);
        return;
      }
      if (state == HeadState::kComplete) {
        wanted = head.head_bytes + head.content_length;
        if (connection->input->size() >= wanted) {
          const RouteEntry* route = FindRoute(head);
          if (route != nullptr && route->pool == Pool::kSlow && options_.slow_workers > 0) {
            KeepWarmBuffer(connection, thread);
            if (HandOver(connection)) return;
            ++stats_.overloaded;
            Refuse(connection, 503, "too many requests are waiting");
            return;
          }
          if (ServeOne(connection, thread, head) == Next::kDone) {
            return;
          }
          wanted = 0;
          if (++served < kPipelinedPerTurn) continue;
          Park(connection, thread);
          return;
        }
        // The scan has to find the head again when the body is there.
        connection->scanned = 0;
        if (head.expects_continue && !connection->continue_sent) {
          connection->continue_sent = true;
          if (Send(connection, "HTTP/1.1 100 Continue\r\n\r\n", "") == Next::kDone) return;
        }
      }
    }
    if (Fill(connection, thread, wanted, &patience) == Next::kDone) return;
  }
}

ParkedServer::Impl::Next ParkedServer::Impl::Fill(Connection* connection, ThreadState& thread,
                                                  std::size_t wanted, int* patience) {
  InputBuffer& input = *connection->input;
  if (input.free_size() == 0) {
    const std::size_t before = input.capacity();
    const std::size_t most = options_.limits.max_head_bytes + options_.limits.max_body_bytes;
    std::size_t capacity = std::max(before * 2, std::size_t{256} * 1024);
    capacity = std::min(capacity, wanted > before ? wanted : most);
    capacity = std::max(capacity, before + 4096);
    if (stats_.buffered_bytes + static_cast<std::int64_t>(capacity - before) >
        static_cast<std::int64_t>(options_.max_buffered_bytes)) {
      ++stats_.overloaded;
      return Refuse(connection, 503,
                    fmt::format("requests in progress hold more than {} bytes (bufferLimit)",
                                options_.max_buffered_bytes));
    }
    input.Grow(capacity);
    stats_.buffered_bytes += static_cast<std::int64_t>(capacity - before);
  }
  const ssize_t got = connection->transport->Read(input.free_begin(), input.free_size());
  if (got > 0) {
    input.Append(static_cast<std::size_t>(got));
    if (connection->phase == Phase::kIdle) {
      connection->deadline_ms = options_.now_ms() + options_.request_timeout_ms;
      connection->phase = Phase::kReading;
    }
    stats_.bytes_received += static_cast<std::uint64_t>(got);
    return Next::kGoOn;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    if (wanted > 0 && input.size() >= kPatienceBytes && *patience > 0) {
      --*patience;
      pollfd fd{connection->fd, POLLIN, 0};
      if (::poll(&fd, 1, kPatienceMs) == 1) return Next::kGoOn;
    }
    Park(connection, thread);
    return Next::kDone;
  }
  if (got == 0 && connection->expired && input.size() > 0) {
    return Refuse(
        connection, 408,
        fmt::format("the request was not complete after {} ms", options_.request_timeout_ms));
  }
  if (input.size() == 0) thread.spare = Detach(connection);
  Close(connection);
  return Next::kDone;
}

const ParkedServer::Impl::RouteEntry* ParkedServer::Impl::FindRoute(const RequestHead& head) const {
  const std::string_view method = head.method == "HEAD" ? std::string_view("GET") : head.method;
  for (const RouteEntry& route : routes_) {
    if (route.path == head.path && route.method == method) return &route;
  }
  return nullptr;
}

void ParkedServer::Impl::Dispatch(const Connection& connection, const ThreadState& thread,
                                  const RequestHead& head, Response& response) {
  const RouteEntry* route = FindRoute(head);
  if (route == nullptr) {
    const bool known =
        std::any_of(routes_.begin(), routes_.end(),
                    [&head](const RouteEntry& other) { return other.path == head.path; });
    response.status = known ? 405 : 404;
    AppendError(known ? fmt::format("{} does not take {}", head.path, head.method)
                      : fmt::format("there is no {} here", head.path),
                &response.body);
    return;
  }
  const char* const data = connection.input->data();
  Request request;
  request.method = head.method;
  request.path = head.path;
  // The target goes on after the path, up to the space before the version.
  const char* const after_path = head.path.data() + head.path.size();
  if (*after_path == '?') {
    const std::string_view rest(after_path + 1,
                                static_cast<std::size_t>(data + head.head_bytes - after_path - 1));
    request.query = rest.substr(0, rest.find(' '));
  }
  request.body = std::string_view(data + head.head_bytes, head.content_length);
  request.remote = connection.remote;
  request.thread = thread.index;
  route->handler(request, response);
}

ParkedServer::Impl::Next ParkedServer::Impl::ServeOne(Connection* connection, ThreadState& thread,
                                                      const RequestHead& head) {
  connection->phase = Phase::kServing;
  connection->deadline_ms = Connection::kNever;
  const std::size_t bytes = head.head_bytes + head.content_length;
  Answer& answer = thread.answer;
  adapter_.Run(
      std::string_view(connection->input->data(), head.head_bytes), connection->remote, draining_,
      [&](Response& response) { Dispatch(*connection, thread, head, response); }, &thread.output,
      &answer);
  ++stats_.requests;
  if (answer.exception) ++stats_.handler_exceptions;
  connection->input->Consume(bytes);
  connection->unexamined = connection->input->size() > 0;
  connection->scanned = 0;
  connection->continue_sent = false;
  connection->close_after_write = answer.close;
  connection->linger_after_write = answer.status >= 400;
  return Send(connection, answer.head, answer.body);
}

bool ParkedServer::Impl::HandOver(Connection* connection) {
  {
    const std::lock_guard<std::mutex> lock(slow_mutex_);
    if (slow_queue_.size() >= options_.max_waiting_slow || stopping_) return false;
    connection->phase = Phase::kServing;
    connection->deadline_ms = Connection::kNever;
    slow_queue_.push_back(connection);
    ++stats_.waiting_slow;
  }
  slow_ready_.notify_one();
  return true;
}

ParkedServer::Impl::Next ParkedServer::Impl::Refuse(Connection* connection, int status,
                                                    std::string_view error) {
  std::string body;
  AppendError(error, &body);
  const std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
      status, StatusText(status), kJson, body.size());
  connection->close_after_write = true;
  connection->linger_after_write = true;
  Send(connection, head, body);
  return Next::kDone;
}

ParkedServer::Impl::Next ParkedServer::Impl::Send(Connection* connection, std::string_view head,
                                                  std::string_view body) {
  const std::size_t total = head.size() + body.size();
  const iovec parts[2] = {{const_cast<char*>(head.data()), head.size()},
                          {const_cast<char*>(body.data()), body.size()}};
  const ssize_t sent = connection->transport->Write(parts, body.empty() ? 1 : 2);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    Close(connection);
    return Next::kDone;
  }
  const std::size_t done = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  stats_.bytes_sent += done;
  if (done == total) return AfterWrite(connection);
  connection->pending_output.clear();
  if (done < head.size()) connection->pending_output.append(head.substr(done));
  connection->pending_output.append(body.substr(done > head.size() ? done - head.size() : 0));
  connection->pending_sent = 0;
  connection->deadline_ms = options_.now_ms() + options_.write_timeout_ms;
  connection->phase = Phase::kWriting;
  Arm(connection, EPOLLOUT);
  return Next::kDone;
}

ParkedServer::Impl::Next ParkedServer::Impl::FlushPending(Connection* connection) {
  while (connection->pending_sent < connection->pending_output.size()) {
    const iovec part{connection->pending_output.data() + connection->pending_sent,
                     connection->pending_output.size() - connection->pending_sent};
    const ssize_t sent = connection->transport->Write(&part, 1);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      Arm(connection, EPOLLOUT);
      return Next::kDone;
    }
    if (sent < 0) {
      Close(connection);
      return Next::kDone;
    }
    connection->pending_sent += static_cast<std::size_t>(sent);
    stats_.bytes_sent += static_cast<std::uint64_t>(sent);
  }
  std::string().swap(connection->pending_output);
  return AfterWrite(connection);
}

ParkedServer::Impl::Next ParkedServer::Impl::AfterWrite(Connection* connection) {
  if (!connection->close_after_write) {
    // Between requests, or in the middle of one after "100 Continue".
    const bool reading = connection->input != nullptr && connection->input->size() > 0;
    connection->deadline_ms =
        options_.now_ms() + (reading ? options_.request_timeout_ms : options_.idle_timeout_ms);
    connection->phase = reading ? Phase::kReading : Phase::kIdle;
    // Looked at after the phase is set: either we see the flag or Drain sees the idle connection.
    if (reading || !draining_) return Next::kGoOn;
    connection->linger_after_write = false;
  }
  if (!connection->linger_after_write) {
    Close(connection);
    return Next::kDone;
  }
  // Closing with unread bytes would reset the connection and may destroy the answer on its way.
  Detach(connection);
  ::shutdown(connection->fd, SHUT_WR);
  connection->deadline_ms = options_.now_ms() + options_.linger_ms;
  connection->phase = Phase::kLingering;
  Arm(connection, EPOLLIN);
  return Next::kDone;
}

void ParkedServer::Impl::Linger(Connection* connection, ThreadState& thread) {
  if (thread.spare == nullptr) thread.spare = std::make_unique<InputBuffer>();
  thread.spare->Grow(InputBuffer::kInitialCapacity);
  for (std::size_t total = 0; total < kLingerBytesPerTurn;) {
    const ssize_t got = connection->transport->Read(thread.spare->data(), thread.spare->capacity());
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      Close(connection);
      return;
    }
    total += static_cast<std::size_t>(got);
  }
  Arm(connection, EPOLLIN);
}

void ParkedServer::Impl::Park(Connection* connection, ThreadState& thread) {
  KeepWarmBuffer(connection, thread);
  // With a pipelined request waiting in our buffer, writability is what wakes us.
  Arm(connection, connection->unexamined ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void ParkedServer::Impl::KeepWarmBuffer(Connection* connection, ThreadState& thread) {
  const std::size_t size = connection->input->size();
  if (size > kSmallInput) return;
  std::unique_ptr<InputBuffer> warm = Detach(connection);
  if (size > 0) {
    auto small = std::make_unique<InputBuffer>();
    small->Grow(std::max<std::size_t>(size, 1024));
    std::copy_n(warm->data(), size, small->free_begin());
    small->Append(size);
    warm->Clear();
    Attach(connection, std::move(small));
  }
  if (thread.spare == nullptr || thread.spare->capacity() < warm->capacity()) {
    thread.spare = std::move(warm);
  }
}

void ParkedServer::Impl::Arm(Connection* connection, std::uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.ptr = connection;
  const int fd = connection->fd;
  connection->armed.store(true, std::memory_order_release);
  // From here on the connection is another thread's.
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
}

void ParkedServer::Impl::Close(Connection* connection) {
  Detach(connection);
  {
    const std::lock_guard<std::mutex> lock(connections_mutex_);
    connections_.erase(connection);
    ::close(connection->fd);
    --stats_.open;
  }
  connections_changed_.notify_all();
  delete connection;
}

void ParkedServer::Impl::Attach(Connection* connection, std::unique_ptr<InputBuffer> buffer) {
  stats_.buffered_bytes += static_cast<std::int64_t>(buffer->capacity());
  connection->input = std::move(buffer);
}

std::unique_ptr<InputBuffer> ParkedServer::Impl::Detach(Connection* connection) {
  if (connection->input == nullptr) return nullptr;
  stats_.buffered_bytes -= static_cast<std::int64_t>(connection->input->capacity());
  return std::move(connection->input);
}

}  // namespace numafit::extender::http
