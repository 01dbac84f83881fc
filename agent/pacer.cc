#include "agent/pacer.h"

#include <algorithm>

namespace numafit::agent {

Pacer::Pacer(const Options& options, Time now)
    : options_(options), last_change_(now), next_pods_(now), next_full_(now), earliest_(now) {}

void Pacer::OnChange(Time now) {
  if (!first_change_.has_value()) first_change_ = now;
  last_change_ = now;
}

void Pacer::OnKubelet(Time now) {
  OnChange(now);
  kubelet_changed_ = true;
}

std::optional<Pacer::Time> Pacer::ChangeDue() const {
  if (!first_change_.has_value()) return std::nullopt;
  const Time settled =
      std::min(last_change_ + options_.settle, *first_change_ + 3 * options_.settle);
  return std::max(settled, earliest_);
}

Pacer::Look Pacer::Due(Time now) const {
  if (kubelet_ended_) return Look::kPods;
  if (now >= next_full_) return Look::kEverything;
  const std::optional<Time> change = ChangeDue();
  if (change.has_value() && now >= *change) {
    return kubelet_changed_ ? Look::kEverything : Look::kPods;
  }
  return now >= next_pods_ ? Look::kPodsChanged : Look::kNothing;
}

void Pacer::Done(Look look, Time now) {
  if (look == Look::kNothing) return;
  next_pods_ = now + options_.pods_poll;
  if (look == Look::kPodsChanged) return;
  kubelet_ended_ = false;
  earliest_ = now + options_.min_interval;
  // A kubelet that ended and has come back since is looked at as a whole.
  if (look == Look::kPods && kubelet_changed_) return;
  first_change_.reset();
  if (look == Look::kEverything) {
    next_full_ = now + options_.full_poll;
    kubelet_changed_ = false;
  }
}

Pacer::Time Pacer::Next() const {
  if (kubelet_ended_) return Time::min();
  const Time poll = std::min(next_pods_, next_full_);
  const std::optional<Time> change = ChangeDue();
  return change.has_value() ? std::min(poll, *change) : poll;
}

}  // namespace numafit::agent
