// What a watch delivers, as lines.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "api/node_report.pb.h"
#include "kube/client.h"

namespace numafit::kube_testing {

using kube::WatchHandlers;

// Writes down what a watch delivers, as "list a,b", "put a@n1" (reports: "put a#7",
// "put a!" when it has a problem; other custom resources likewise), "del a", "state OK".
template <typename T>
class Recorder {
 public:
  WatchHandlers<T> Handlers() {
    return {.on_list =
                [this](std::vector<T> items) {
                  std::string text = "list ";
                  for (const T& item : items) {
                    text += (text.size() > 5 ? "," : "") + item.metadata.name;
                  }
                  Add(text, false);
                },
            .on_upsert = [this](T item) { Add("put " + Describe(item), false); },
            .on_delete = [this](T item) { Add("del " + item.metadata.name, false); },
            .on_state =
                [this](const absl::Status& status) {
                  Add("state " + std::string(absl::StatusCodeToString(status.code())), true);
                }};
  }

  // Waits until `done` holds of the lines so far; the wait has an end so that a test can fail.
  bool WaitUntil(const std::function<bool(const std::vector<std::string>&)>& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return done(lines_); });
  }
  bool WaitFor(const std::string& line, int times = 1) {
    return WaitUntil(
        [&](const auto& lines) { return std::count(lines.begin(), lines.end(), line) >= times; });
  }
  // Without the states.
  std::vector<std::string> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  static std::string Describe(const api::Pod& pod) {
    return pod.metadata.name + (pod.node_name.empty() ? "" : "@" + pod.node_name);
  }
  static std::string Describe(const api::Node& node) { return node.metadata.name; }
  template <typename U>
  static std::string Describe(const U& object) {
    return object.metadata.name + (object.problem.ok() ? "" : "!");
  }
  static std::string Describe(const api::NodeReport& report) {
    return report.status == nullptr
               ? report.metadata.name + "!"
               : report.metadata.name + "#" + std::to_string(report.status->generation());
  }

  void Add(const std::string& line, bool state) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    if (!state) events_.push_back(line);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::vector<std::string> events_;
};

}  // namespace numafit::kube_testing
