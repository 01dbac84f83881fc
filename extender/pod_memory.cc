#include "extender/pod_memory.h"

#include <utility>

namespace numafit::extender {

void PodMemory::Remember(std::shared_ptr<const RememberedPod> pod) {
  const std::string& uid = pod->pod.metadata.uid;
  if (uid.empty()) return;
  const api::MutexLock lock(mutex_);
  const auto it = by_uid_.find(uid);
  if (it != by_uid_.end()) order_.erase(it->second);
  order_.push_front(std::move(pod));
  by_uid_[order_.front()->pod.metadata.uid] = order_.begin();
  if (order_.size() > capacity_) {
    by_uid_.erase(order_.back()->pod.metadata.uid);
    order_.pop_back();
  }
}

std::shared_ptr<const RememberedPod> PodMemory::Find(std::string_view uid) const {
  const std::string key(uid);
  const api::MutexLock lock(mutex_);
  const auto it = by_uid_.find(key);
  return it == by_uid_.end() ? nullptr : *it->second;
}

void PodMemory::Forget(std::string_view uid) {
  const std::string key(uid);
  const api::MutexLock lock(mutex_);
  const auto it = by_uid_.find(key);
  if (it == by_uid_.end()) return;
  order_.erase(it->second);
  by_uid_.erase(it);
}

}  // namespace numafit::extender
