#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "extender/http/parked_server.h"
#include "extender/http/parked_server_impl.h"
#include "extender/http/socket.h"
#include "extender/json_text.h"
#include "fmt/format.h"

namespace numafit::extender::http {
namespace {

using Phase = Connection::Phase;

constexpr int kAcceptTickMs = 200;

std::int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void NameThread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace

void AppendError(std::string_view message, std::string* out) {
  out->append(R"({"error":)");
  AppendJsonString(message, out);
  out->append("}\n");
}

ParkedServer::Impl::Impl(Options options)
    : options_(std::move(options)), adapter_(options_.idle_timeout_ms / 1000) {
  if (!options_.now_ms) options_.now_ms = SteadyMs;
}

ParkedServer::Impl::~Impl() {
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

void ParkedServer::Impl::Route(std::string method, std::string path, Pool pool, Handler handler) {
  routes_.push_back({std::move(method), std::move(path), pool, std::move(handler)});
}

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
