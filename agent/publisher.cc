#include "agent/publisher.h"

#include <limits>
#include <utility>

#include "agent/collector.h"

namespace numafit::agent {
namespace {

constexpr kube::Backoff::Millis kFirstWait{500};
constexpr kube::Backoff::Millis kLongestWait{15'000};

}  // namespace

Publisher::Publisher(ReportSink& sink, std::string node, std::function<absl::Time()> now,
                     std::function<void(const absl::Status&)> on_result, std::uint32_t seed)
    : sink_(sink),
      node_(std::move(node)),
      now_(std::move(now)),
      on_result_(std::move(on_result)),
      backoff_(kFirstWait, kLongestWait, seed) {}

void Publisher::Offer(v1alpha1::NodeReportStatus report) {
  std::string fingerprint = Fingerprint(report);
  // A change that was taken back before it was published is none.
  if (fingerprint == published_) {
    waiting_.reset();
    return;
  }
  waiting_ = std::move(report);
  waiting_fingerprint_ = std::move(fingerprint);
}

absl::Status Publisher::Attempt() {
  if (!generation_.has_value()) {
    const absl::StatusOr<std::int32_t> last = sink_.LastGeneration(node_);
    if (!last.ok()) return last.status();
    generation_ = *last;
    const std::shared_ptr<const v1alpha1::NodeReportStatus> former = sink_.TakeLast();
    if (Refresh refresh = std::exchange(refresh_, nullptr); refresh && former != nullptr) {
      waiting_ = refresh(*former);
      waiting_fingerprint_ = Fingerprint(*waiting_);
    }
  }
  const std::int32_t next =
      *generation_ < std::numeric_limits<std::int32_t>::max() && *generation_ > 0 ? *generation_ + 1
                                                                                  : 1;
  waiting_->set_generation(next);
  waiting_->set_node_name(node_);
  waiting_->set_observed_time(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now_(), absl::UTCTimeZone()));
  absl::Status status = sink_.Publish(node_, *waiting_);
  // A lost answer may hide that it arrived: the number is used up either way. Somebody else's
  // report is in the way when it was aborted: its generation has to be asked for.
  generation_ = next;
  if (absl::IsAborted(status)) generation_.reset();
  return status;
}

void Publisher::Publish(SteadyTime at) {
  if (!waiting_.has_value() || at < not_before_) return;
  const absl::Status status = Attempt();
  if (status.ok()) {
    published_ = std::move(waiting_fingerprint_);
    waiting_.reset();
    backoff_.Reset();
    not_before_ = SteadyTime{};
  } else {
    not_before_ = at + backoff_.Next();
  }
  if (on_result_) on_result_(status);
}

std::optional<SteadyTime> Publisher::NextAttempt() const {
  if (!waiting_.has_value()) return std::nullopt;
  return not_before_;
}

}  // namespace numafit::agent
