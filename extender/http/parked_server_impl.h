// Inside of ParkedServer: what its threads share. parked_server.cc holds the threads and the whole
// life of the server, connection_loop.cc what happens to one connection.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "extender/http/connection.h"
#include "extender/http/httplib_adapter.h"
#include "extender/http/parked_server.h"

namespace numafit::extender::http {

class ParkedServer::Impl {
 public:
  explicit Impl(Options options);
  ~Impl();

  void Route(std::string method, std::string path, Pool pool, Handler handler);
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

}  // namespace numafit::extender::http
