#include "extender/offers.h"

namespace numafit::extender {

Offers::Offers(std::size_t nodes, std::int64_t ttl_ms) : ttl_ms_(ttl_ms), counts_(nodes) {}

void Offers::Set(std::string_view uid, int node, std::int64_t now_ms) {
  if (uid.empty() || ttl_ms_ <= 0 || static_cast<std::size_t>(node) >= counts_.size()) return;
  std::string key(uid);
  const api::MutexLock lock(mutex_);
  Remove(key);
  counts_[static_cast<std::size_t>(node)].fetch_add(1, std::memory_order_relaxed);
  in_order_.push_back({now_ms, key});
  by_uid_[std::move(key)] = {node, now_ms};
}

void Offers::Forget(std::string_view uid) {
  const std::string key(uid);
  const api::MutexLock lock(mutex_);
  Remove(key);
}

void Offers::ForgetOld(std::int64_t now_ms) {
  const api::MutexLock lock(mutex_);
  while (!in_order_.empty() && in_order_.front().made_ms + ttl_ms_ <= now_ms) {
    const Made& oldest = in_order_.front();
    // The Pod may have got a newer offer since.
    const auto it = by_uid_.find(oldest.uid);
    if (it != by_uid_.end() && it->second.made_ms <= oldest.made_ms) Remove(oldest.uid);
    in_order_.pop_front();
  }
}

int Offers::NodeOf(std::string_view uid) const {
  const std::string key(uid);
  const api::MutexLock lock(mutex_);
  const auto it = by_uid_.find(key);
  return it == by_uid_.end() ? -1 : it->second.node;
}

std::size_t Offers::size() const {
  const api::MutexLock lock(mutex_);
  return by_uid_.size();
}

void Offers::Remove(const std::string& uid) {
  const auto it = by_uid_.find(uid);
  if (it == by_uid_.end()) return;
  counts_[static_cast<std::size_t>(it->second.node)].fetch_sub(1, std::memory_order_relaxed);
  by_uid_.erase(it);
}

}  // namespace numafit::extender
