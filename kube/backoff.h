// Waiting times between attempts: exponential, capped, with jitter.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace numafit::kube {

// The n-th wait is drawn evenly from the upper half of initial·2^n, at most `max`; so many clients
// that lost the same server come back spread out, and none comes back at once. Not thread-safe.
class Backoff {
 public:
  using Millis = std::chrono::milliseconds;

  Backoff(Millis initial, Millis max, std::uint32_t seed)
      : initial_(std::max(initial, Millis(1))),
        max_(std::max(max, initial_)),
        next_(initial_),
        random_(seed) {}

  Millis Next() {
    const std::int64_t full = next_.count();
    next_ = std::min(next_ * 2, max_);
    return Millis(std::uniform_int_distribution<std::int64_t>(full - full / 2, full)(random_));
  }
  void Reset() { next_ = initial_; }

 private:
  Millis initial_;
  Millis max_;
  Millis next_;
  std::minstd_rand random_;
};

}  // namespace numafit::kube
