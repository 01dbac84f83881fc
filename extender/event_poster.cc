#include "extender/event_poster.h"

#include <chrono>
#include <string>
#include <utility>

#include "prometheus/counter.h"

namespace numafit::extender {

EventPoster::EventPoster(Options options, Parts parts)
    : options_(options), parts_(parts), thread_([this] { Run(); }) {}

EventPoster::~EventPoster() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EventPoster::Post(kube::EventRequest event) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= options_.capacity) {
      parts_.metrics.events_total.dropped->Increment();
      return;
    }
    waiting_.push_back(std::move(event));
  }
  changed_.notify_all();
}

void EventPoster::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const kube::EventRequest event = std::move(waiting_.front());
    waiting_.pop_front();
    for (int attempt = 1;; ++attempt) {
      lock.unlock();
      const bool done = Deliver(event, attempt);
      lock.lock();
      if (done) break;
      const auto pause = std::chrono::milliseconds(options_.pause_ms);
      if (changed_.wait_for(lock, pause, [this] { return stopping_; })) return;
    }
  }
}

bool EventPoster::Deliver(const kube::EventRequest& event, int attempt) {
  const absl::Status status = parts_.client.PostEvent(event);
  if (status.ok()) {
    parts_.metrics.events_total.posted->Increment();
    return true;
  }
  // No right, no such namespace, not well-formed: asking again changes nothing.
  const bool is_final = absl::IsPermissionDenied(status) || absl::IsNotFound(status) ||
                        absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
  if (!is_final && attempt < options_.attempts) return false;
  parts_.metrics.events_total.dropped->Increment();
  parts_.log.Write(LogLevel::kWarn, LogLine("event-dropped")
                                        .Text("object", event.object_namespace + "/" + event.name)
                                        .Text("reason", event.reason)
                                        .Text("error", std::string(status.message())));
  return true;
}

}  // namespace numafit::extender
