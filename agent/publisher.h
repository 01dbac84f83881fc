// Publishes a report when it differs from the last one that arrived, and again after a failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "agent/report_sink.h"
#include "kube/backoff.h"

namespace numafit::agent {

using SteadyTime = std::chrono::steady_clock::time_point;

// Not thread-safe. Times to wait are counted with the steady clock; the wall clock (`now`) is only
// written into reports.
class Publisher {
 public:
  // `sink` must outlive it. `on_result` is told about each attempt; it may be empty.
  Publisher(ReportSink& sink, std::string node, std::function<absl::Time()> now,
            std::function<void(const absl::Status&)> on_result, std::uint32_t seed);

  // `refresh` is told the report that a former agent left behind, once and before the first one is
  // published; what it answers is published instead of what waits.
  using Refresh = std::function<v1alpha1::NodeReportStatus(const v1alpha1::NodeReportStatus& last)>;
  void OnLast(Refresh refresh) { refresh_ = std::move(refresh); }

  // The newest report. Replaces one that has not been published yet.
  void Offer(v1alpha1::NodeReportStatus report);

  // Publishes what is due at `at`; no-op when there is nothing, or when a failure is too fresh.
  // Now and then it looks whether the last report is still there, and publishes it again if not.
  void Publish(SteadyTime at);

  // When Publish has something to publish; nothing when there is nothing.
  [[nodiscard]] std::optional<SteadyTime> NextAttempt() const;
  // When Publish should be called to look whether the last report is still there.
  [[nodiscard]] std::optional<SteadyTime> NextLook() const;
  // The Node may be another one soon (its kubelet has started): the next looks come sooner.
  void LookSoon(SteadyTime at);

 private:
  absl::Status Attempt();
  void Look(SteadyTime at);

  ReportSink& sink_;
  const std::string node_;
  const std::function<absl::Time()> now_;
  const std::function<void(const absl::Status&)> on_result_;
  Refresh refresh_;
  kube::Backoff backoff_;
  std::optional<std::int32_t> generation_;  // of the last report that arrived
  std::string published_;                   // its fingerprint
  std::optional<v1alpha1::NodeReportStatus> waiting_;
  std::string waiting_fingerprint_;
  SteadyTime not_before_{};
  // What was published last, to be published again when it is gone.
  std::optional<v1alpha1::NodeReportStatus> last_;
  SteadyTime look_at_{};
  std::chrono::milliseconds look_pause_;
};

}  // namespace numafit::agent
