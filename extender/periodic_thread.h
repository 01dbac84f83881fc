// A thread that does something every so often until it is told to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace numafit::extender {

// Start once; Stop from any thread but its own. As a member it comes last: what the step uses is
// still there while it ends.
class PeriodicThread {
 public:
  PeriodicThread() = default;
  ~PeriodicThread() { Stop(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Calls `step` on a thread of its own, for the first time after one period.
  void Start(std::chrono::milliseconds period, std::function<void()> step);
  // Waits for a step that runs. May be repeated.
  void Stop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace numafit::extender
