#include "extender/http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace numafit::extender::http {
namespace {

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(int fd) : fd_(fd) {}

  ssize_t Read(char* data, std::size_t size) override {
    ssize_t got = 0;
    do {
      got = ::recv(fd_, data, size, 0);
    } while (got < 0 && errno == EINTR);
    return got;
  }

  ssize_t Write(const iovec* parts, int count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = static_cast<std::size_t>(count);
    ssize_t sent = 0;
    do {
      sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
  }

 private:
  int fd_;
};

}  // namespace

std::unique_ptr<Transport> MakePlainTransport(int fd) {
  return std::make_unique<PlainTransport>(fd);
}

void InputBuffer::Grow(std::size_t capacity) {
  if (capacity <= capacity_) return;
  auto larger = std::make_unique_for_overwrite<char[]>(capacity + kBodyPadding);
  if (size_ > 0) std::memcpy(larger.get(), data_.get(), size_);
  // Defined bytes behind the end, so that sanitizers see what the parser may look at.
  std::memset(larger.get() + capacity, 0, kBodyPadding);
  data_ = std::move(larger);
  capacity_ = capacity;
}

void InputBuffer::Consume(std::size_t bytes) {
  if (bytes < size_) std::memmove(data_.get(), data_.get() + bytes, size_ - bytes);
  size_ -= bytes;
}

}  // namespace numafit::extender::http
