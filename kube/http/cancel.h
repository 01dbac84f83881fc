// A one-way switch that wakes whoever waits for the network.
#pragma once

#include <atomic>
#include <chrono>

namespace numafit::kube {

using Clock = std::chrono::steady_clock;

// Thread-safe. Once set it stays set: a blocked connect, handshake, read or write that was given
// this switch returns Cancelled at once, and so do all later ones.
class Cancel {
 public:
  Cancel();
  ~Cancel();
  Cancel(const Cancel&) = delete;
  Cancel& operator=(const Cancel&) = delete;

  void Set();
  [[nodiscard]] bool IsSet() const { return set_.load(std::memory_order_acquire); }
  // Sleeps; false when the switch was set before the time was over.
  [[nodiscard]] bool SleepFor(std::chrono::milliseconds time) const;
  // Readable once set; -1 when the process had no descriptor left (then only IsSet tells).
  [[nodiscard]] int fd() const { return fd_; }

 private:
  std::atomic<bool> set_ = false;
  int fd_;
};

}  // namespace numafit::kube
