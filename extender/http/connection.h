// One accepted connection: its socket, what was received and what is left to send.
//
// Owned by one thread at a time (epoll's one-shot registration hands it over); only `deadline_ms`,
// `phase` and `expired` are looked at from outside.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "extender/http/parked_server.h"
#include "extender/http/request_head.h"

namespace numafit::extender::http {

// Bytes in and out of a non-blocking socket; -1 with errno EAGAIN when it would block. The place
// where TLS goes.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual ssize_t Read(char* data, std::size_t size) = 0;
  virtual ssize_t Write(const iovec* parts, int count) = 0;
};
std::unique_ptr<Transport> MakePlainTransport(int fd);

// A grow-only byte buffer with kBodyPadding bytes behind its end. Reused between requests, because
// the first touch of fresh pages costs more than parsing them.
class InputBuffer {
 public:
  static constexpr std::size_t kInitialCapacity = 64 * 1024;

  [[nodiscard]] char* data() { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] char* free_begin() { return data_.get() + size_; }
  [[nodiscard]] std::size_t free_size() const { return capacity_ - size_; }
  void Append(std::size_t bytes) { size_ += bytes; }
  void Clear() { size_ = 0; }
  // Makes room for `capacity` bytes in all.
  void Grow(std::size_t capacity);
  // Drops the first `bytes`.
  void Consume(std::size_t bytes);

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

struct Connection {
  enum class Phase { kIdle, kReading, kServing, kWriting, kLingering };
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  int fd = -1;
  std::unique_ptr<Transport> transport;
  std::string remote;

  std::unique_ptr<InputBuffer> input;  // null while idle
  std::size_t scanned = 0;             // of the head, see ScanHead
  bool continue_sent = false;
  bool unexamined = false;     // input holds bytes that arrived behind the last request
  std::string pending_output;  // what the socket did not take yet
  std::size_t pending_sent = 0;
  bool close_after_write = false;
  bool linger_after_write = false;  // the client may still be sending

  // Set by who hands the connection to epoll, taken by who gets it from there: the kernel orders
  // the two, but neither the language nor ThreadSanitizer knows that.
  std::atomic<bool> armed{true};
  std::atomic<Phase> phase{Phase::kIdle};
  std::atomic<std::int64_t> deadline_ms{kNever};
  std::atomic<bool> expired{false};
};

}  // namespace numafit::extender::http
