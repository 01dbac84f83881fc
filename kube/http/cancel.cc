#include "kube/http/cancel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace numafit::kube {

Cancel::Cancel() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Cancel::~Cancel() {
  if (fd_ >= 0) ::close(fd_);
}

void Cancel::Set() {
  set_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  if (fd_ >= 0 && ::write(fd_, &one, sizeof one) < 0) {
    // EAGAIN: it is readable already.
  }
}

bool Cancel::SleepFor(std::chrono::milliseconds time) const {
  // In steps, so that it ends in time even without a descriptor to wait for.
  constexpr std::chrono::milliseconds kStep(200);
  const Clock::time_point end = Clock::now() + time;
  while (!IsSet()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return true;
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, static_cast<int>(std::min(left, kStep).count()));
  }
  return false;
}

}  // namespace numafit::kube
