#include "agent/publisher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "agent/collector.h"

namespace numafit::agent {
namespace {

constexpr kube::Backoff::Millis kFirstWait{500};
constexpr kube::Backoff::Millis kLongestWait{15'000};
// Between looks whether the report is still there: doubled from the first to the longest. Each
// costs the API server two reads, so 15,000 idle agents are 100 reads a second.
constexpr std::chrono::milliseconds kFirstLook{10'000};
constexpr std::chrono::milliseconds kLongestLook{300'000};

}  // namespace

Publisher::Publisher(ReportSink& sink, std::string node, std::function<absl::Time()> now,
                     std::function<void(const absl::Status&)> on_result, std::uint32_t seed)
    : sink_(sink),
      node_(std::move(node)),
      now_(std::move(now)),
      on_result_(std::move(on_result)),
      backoff_(kFirstWait, kLongestWait, seed),
      look_pause_(kFirstLook) {}

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

void Publisher::LookSoon(SteadyTime at) {
  look_pause_ = kFirstLook;
  look_at_ = at + look_pause_;
}

void Publisher::Look(SteadyTime at) {
  look_pause_ = std::min(2 * look_pause_, kLongestLook);
  look_at_ = at + look_pause_;
  const absl::StatusOr<bool> stands = sink_.Stands(node_, last_->generation());
  // An API server that cannot be asked is no reason to write.
  if (!stands.ok() || *stands) return;
  published_.clear();
  waiting_ = last_;
  waiting_fingerprint_ = Fingerprint(*waiting_);
  // Generations go on: whoever has missed the deletion knows the last one. Where somebody else has
  // written, Publish says so.
}

void Publisher::Publish(SteadyTime at) {
  if (!waiting_.has_value() && last_.has_value() && at >= look_at_) Look(at);
  if (!waiting_.has_value() || at < not_before_) return;
  const absl::Status status = Attempt();
  if (status.ok()) {
    published_ = std::move(waiting_fingerprint_);
    if (!last_.has_value()) LookSoon(at);
    last_ = std::move(waiting_);
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

std::optional<SteadyTime> Publisher::NextLook() const {
  if (waiting_.has_value() || !last_.has_value()) return std::nullopt;
  return look_at_;
}

}  // namespace numafit::agent
