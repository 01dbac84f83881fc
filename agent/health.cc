#include "agent/health.h"

#include <fmt/format.h>

#include <cstdint>

namespace numafit::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A change that cannot be published for as long is news that others do not have.
constexpr seconds kLongestPending{60};

std::int64_t Seconds(Health::Time::duration since) {
  return std::chrono::duration_cast<seconds>(since).count();
}

}  // namespace

Health::Health(milliseconds patience, Time now) : patience_(patience), looked_(now) {}

void Health::Looked(Time now) {
  const api::MutexLock lock(mutex_);
  looked_ = now;
}

void Health::Published(bool pending, Time now) {
  const api::MutexLock lock(mutex_);
  if (!pending) {
    ever_published_ = true;
    pending_since_.reset();
  } else if (!pending_since_.has_value()) {
    pending_since_ = now;
  }
}

std::string Health::WhyNotAlive(Time now) const {
  const api::MutexLock lock(mutex_);
  if (now - looked_ <= patience_) return {};
  return fmt::format("the last look at the node was {} s ago", Seconds(now - looked_));
}

std::string Health::WhyNotReady(Time now) const {
  if (std::string why = WhyNotAlive(now); !why.empty()) return why;
  const api::MutexLock lock(mutex_);
  if (!ever_published_) return "no report has been published yet";
  if (!pending_since_.has_value() || now - *pending_since_ <= kLongestPending) return {};
  return fmt::format("a report has not been published for {} s", Seconds(now - *pending_since_));
}

}  // namespace numafit::agent
