#include "extender/http/parked_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "extender/http/connection.h"
#include "extender/http/httplib_adapter.h"
#include "extender/http/socket.h"
#include "extender/json_text.h"
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
constexpr int kAcceptTickMs = 200;

std::int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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

void AppendError(std::string_view message, std::string* out) {
  out->append(R"({"error":)");
  AppendJsonString(message, out);
  out->append("}\n");
}

class ParkedServer::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)), adapter_(options_.idle_timeout_ms / 1000) {
    if (!options_.now_ms) options_.now_ms = SteadyMs;
  }

  ~Impl() {
    Drain(0);
    JoinAll();
    for (Connection* connection : connections_) {
      ::close(connection->fd);
      delete connection;
    }
    for (const int fd : {epoll_fd_, stop_event_, accept_event_, listen_fd_}) {
      if (fd >= 0) ::close(fd);
    }
  }

  void Route(std::string method, std::string path, Pool pool, Handler handler) {
    routes_.push_back({std::move(method), std::move(path), pool, std::move(handler)});
  }

  absl::Status Start(const std::string& address);
  bool Drain(std::int64_t timeout_ms);
  void CheckDeadlines();

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int threads() const { return options_.workers + options_.slow_workers; }
  [[nodiscard]] const ServerStats& stats() const { return stats_; }

 private:
  struct RouteEntry {
    std::string method;
    std::string path;
    Pool pool;
    Handler handler;
  };
  struct ThreadState {
    int index = 0;
    std::unique_ptr<InputBuffer> spare;
    std::string output;
    Answer answer;
  };
  // What became of the connection: still ours to go on with, or armed, handed over or closed.
  enum class Next { kGoOn, kDone };

  // --- threads ---
  void AcceptLoop();
  void AcceptOne();
  void WorkerLoop(int index);
  void SlowLoop(int index);
  void JoinAll();
  static void NameThread(const std::string& name) {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  }

  // --- one connection ---
  void Resume(Connection* connection, ThreadState& thread);
  void ReadAndServe(Connection* connection, ThreadState& thread);
  Next Fill(Connection* connection, ThreadState& thread, std::size_t wanted, int* patience);
  Next ServeOne(Connection* connection, ThreadState& thread, const RequestHead& head);
  void Dispatch(const Connection& connection, const ThreadState& thread, const RequestHead& head,
                Response& response);
  const RouteEntry* FindRoute(const RequestHead& head) const;
  bool HandOver(Connection* connection);
  Next Refuse(Connection* connection, int status, std::string_view error);
  Next Send(Connection* connection, std::string_view head, std::string_view body);
  Next FlushPending(Connection* connection);
  Next AfterWrite(Connection* connection);
  void Linger(Connection* connection, ThreadState& thread);
  void Park(Connection* connection, ThreadState& thread);
  // A connection that waits holds little more than what it has sent; the large buffer stays here.
  void KeepWarmBuffer(Connection* connection, ThreadState& thread);
  void Arm(Connection* connection, std::uint32_t events);
  void Close(Connection* connection);
  void Attach(Connection* connection, std::unique_ptr<InputBuffer> buffer);
  std::unique_ptr<InputBuffer> Detach(Connection* connection);

  Options options_;
  ServerStats stats_;
  std::vector<RouteEntry> routes_;
  HttplibAdapter adapter_;
  int port_ = 0;
  int listen_fd_ = -1;
  int epoll_fd_ = -1;
  int stop_event_ = -1;
  int accept_event_ = -1;
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopping_{false};

  std::mutex connections_mutex_;
  std::condition_variable connections_changed_;
  std::unordered_set<Connection*> connections_;

  std::mutex slow_mutex_;
  std::condition_variable slow_ready_;
  std::deque<Connection*> slow_queue_;

  std::thread acceptor_;
  std::vector<std::thread> workers_;
};

absl::Status ParkedServer::Impl::Start(const std::string& address) {
  absl::StatusOr<int> listener = Listen(address, options_.backlog, &port_);
  if (!listener.ok()) return listener.status();
  listen_fd_ = *listener;
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  stop_event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  accept_event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll_fd_ < 0 || stop_event_ < 0 || accept_event_ < 0) {
    return absl::ResourceExhaustedError("no file descriptors left for the HTTP server");
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the stop event
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, stop_event_, &event);
  for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
  for (int i = 0; i < options_.slow_workers; ++i) {
    workers_.emplace_back([this, i] { SlowLoop(options_.workers + i); });
  }
  acceptor_ = std::thread([this] { AcceptLoop(); });
  return absl::OkStatus();
}

bool ParkedServer::Impl::Drain(std::int64_t timeout_ms) {
  if (listen_fd_ < 0 || stopping_) return true;
  draining_ = true;
  ::eventfd_write(accept_event_, 1);
  if (acceptor_.joinable()) acceptor_.join();
  bool empty = false;
  {
    std::unique_lock<std::mutex> lock(connections_mutex_);
    for (Connection* connection : connections_) {
      const Phase phase = connection->phase;
      if (phase == Phase::kIdle) ::shutdown(connection->fd, SHUT_RD);
      if (phase == Phase::kLingering) ::shutdown(connection->fd, SHUT_RDWR);
    }
    empty = connections_changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                          [this] { return connections_.empty(); });
  }
  stopping_ = true;
  ::eventfd_write(stop_event_, 1);
  {
    // The lock orders the flag before the waiters' look at it.
    const std::lock_guard<std::mutex> lock(slow_mutex_);
  }
  slow_ready_.notify_all();
  if (empty) JoinAll();
  return empty;
}

void ParkedServer::Impl::JoinAll() {
  if (acceptor_.joinable()) acceptor_.join();
  for (std::thread& worker : workers_) {
    if (worker.joinable()) worker.join();
  }
}

void ParkedServer::Impl::AcceptLoop() {
  NameThread(options_.name + "-accept");
  while (!draining_) {
    pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {accept_event_, POLLIN, 0}};
    ::poll(fds, 2, kAcceptTickMs);
    if ((fds[0].revents & POLLIN) != 0) AcceptOne();
    CheckDeadlines();
  }
  // Connections in the backlog get a reset rather than silence.
  ::shutdown(listen_fd_, SHUT_RDWR);
}

void ParkedServer::Impl::AcceptOne() {
  for (int i = 0; i < 256; ++i) {
    std::string remote;
    const int fd = Accept(listen_fd_, &remote);
    if (fd < 0) {
      // Out of descriptors: the connection stays in the backlog; do not spin on it.
      if (errno == EMFILE || errno == ENFILE) ::poll(nullptr, 0, 20);
      return;
    }
    if (stats_.open >= options_.max_connections) {
      ++stats_.refused_connections;
      ::close(fd);
      continue;
    }
    ++stats_.accepted;
    ++stats_.open;
    auto* connection = new Connection;
    connection->fd = fd;
    connection->remote = std::move(remote);
    connection->transport = MakePlainTransport(fd);
    connection->deadline_ms = options_.now_ms() + options_.idle_timeout_ms;
    {
      const std::lock_guard<std::mutex> lock(connections_mutex_);
      connections_.insert(connection);
    }
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.ptr = connection;
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  }
}

void ParkedServer::Impl::CheckDeadlines() {
  const std::int64_t now = options_.now_ms();
  const std::lock_guard<std::mutex> lock(connections_mutex_);
  for (Connection* connection : connections_) {
    if (connection->deadline_ms > now) continue;
    const Phase phase = connection->phase;
    if (phase == Phase::kServing) continue;
    connection->deadline_ms = Connection::kNever;
    connection->expired = true;
    if (phase == Phase::kIdle) ++stats_.idle_closed;
    if (phase == Phase::kReading) ++stats_.slow_requests;
    if (phase == Phase::kWriting) ++stats_.slow_readers;
    // Wakes a worker, which finds the end of the stream. Bytes that have arrived are still read.
    const bool reading = phase == Phase::kIdle || phase == Phase::kReading;
    ::shutdown(connection->fd, reading ? SHUT_RD : SHUT_RDWR);
  }
}

void ParkedServer::Impl::WorkerLoop(int index) {
  NameThread(fmt::format("{}-{}", options_.name, index));
  ThreadState thread;
  thread.index = index;
  while (!stopping_) {
    epoll_event event{};
    const int count = ::epoll_wait(epoll_fd_, &event, 1, -1);
    if (count == 1 && event.data.ptr != nullptr) {
      Resume(static_cast<Connection*>(event.data.ptr), thread);
    }
  }
}

void ParkedServer::Impl::SlowLoop(int index) {
  NameThread(fmt::format("{}-slow-{}", options_.name, index));
  ThreadState thread;
  thread.index = index;
  while (true) {
    Connection* connection = nullptr;
    {
      std::unique_lock<std::mutex> lock(slow_mutex_);
      slow_ready_.wait(lock, [this] { return stopping_ || !slow_queue_.empty(); });
      if (slow_queue_.empty()) return;
      connection = slow_queue_.front();
      slow_queue_.pop_front();
    }
    --stats_.waiting_slow;
    RequestHead head;
    std::size_t scanned = 0;
    ScanHead(connection->input->data(), connection->input->size(), options_.limits, &scanned,
             &head);
    if (ServeOne(connection, thread, head) == Next::kGoOn) Park(connection, thread);
  }
}

void ParkedServer::Impl::Resume(Connection* connection, ThreadState& thread) {
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
    stats_.bytes_received += static_cast<std::uint64_t>(got);
    if (connection->phase == Phase::kIdle) {
      connection->deadline_ms = options_.now_ms() + options_.request_timeout_ms;
      connection->phase = Phase::kReading;
    }
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
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, connection->fd, &event);
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

ParkedServer::ParkedServer(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
ParkedServer::~ParkedServer() = default;
void ParkedServer::Route(std::string method, std::string path, Pool pool, Handler handler) {
  impl_->Route(std::move(method), std::move(path), pool, std::move(handler));
}
absl::Status ParkedServer::Start(const std::string& address) {
  return impl_->Start(address);
}
int ParkedServer::port() const {
  return impl_->port();
}
int ParkedServer::threads() const {
  return impl_->threads();
}
bool ParkedServer::Drain(std::int64_t timeout_ms) {
  return impl_->Drain(timeout_ms);
}
void ParkedServer::CheckDeadlines() {
  impl_->CheckDeadlines();
}
const ServerStats& ParkedServer::stats() const {
  return impl_->stats();
}

}  // namespace numafit::extender::http
