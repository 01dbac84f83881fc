#include "cache/verdicts.h"

#include <utility>

namespace numafit::cache {

std::shared_ptr<VerdictStore::Shape> VerdictStore::Find(std::string_view shape_key) {
  std::string key(shape_key);
  const api::MutexLock lock(mutex_);
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    order_.splice(order_.begin(), order_, it->second);
    return it->second->shape;
  }
  order_.push_front({key, std::make_shared<Shape>()});
  by_key_[std::move(key)] = order_.begin();
  if (order_.size() > options_.max_shapes) {
    by_key_.erase(order_.back().key);
    order_.pop_back();
    ++stats_.evictions;
  }
  return order_.front().shape;
}

std::size_t VerdictStore::shapes() const {
  const api::MutexLock lock(mutex_);
  return order_.size();
}

VerdictStore::Session::Session(VerdictStore& store, std::string_view shape_key, std::size_t nodes)
    : store_(store), shape_(store.Find(shape_key)), lock_(shape_->mutex_) {
  if (shape_->slots_.size() < nodes) shape_->slots_.resize(nodes);
  slots_ = shape_->slots_.data();
}

VerdictStore::Session::~Session() {
  store_.stats_.hits += hits_;
  store_.stats_.shared += shared_;
  store_.stats_.judged += judged_;
  // States are never entered twice, so those that nodes have left pile up.
  if (shape_->by_state_.size() > 2 * shape_->slots_.size() + 1024) ForgetOldStates();
}

Verdict VerdictStore::Session::Miss(int index, std::uint64_t state_id,
                                    absl::FunctionRef<Verdict()> judge) {
  Slot& recent = shape_->recent_[state_id % Shape::kRecent];
  if (recent.state_id == state_id) {
    ++shared_;
    slots_[index] = recent;
    return recent.verdict;
  }
  const auto [it, is_new] = shape_->by_state_.try_emplace(state_id);
  if (is_new) {
    it->second = judge();
    ++judged_;
  } else {
    ++shared_;
  }
  recent = slots_[index] = {state_id, it->second};
  return recent.verdict;
}

void VerdictStore::Session::ForgetOldStates() {
  absl::flat_hash_map<std::uint64_t, Verdict> kept;
  for (const Slot& slot : shape_->slots_) {
    if (slot.state_id != 0) kept[slot.state_id] = slot.verdict;
  }
  shape_->by_state_ = std::move(kept);
}

}  // namespace numafit::cache
