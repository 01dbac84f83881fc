#include "extender/periodic_thread.h"

#include <utility>

namespace numafit::extender {

void PeriodicThread::Start(std::chrono::milliseconds period, std::function<void()> step) {
  thread_ = std::thread([this, period, step = std::move(step)] {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, period, [this] { return stopping_; })) {
      lock.unlock();
      step();
      lock.lock();
    }
  });
}

void PeriodicThread::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace numafit::extender
