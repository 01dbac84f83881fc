#include "workloads/owner_chain.h"

#include <utility>

namespace numafit::workloads {

void OwnerChains::Learn(const std::string& uid, std::optional<api::OwnerReference> controller,
                        std::int64_t now) {
  if (controller.has_value() && controller->uid.empty()) controller.reset();
  const auto [entry, is_new] = answers_.try_emplace(uid);
  entry->second = {std::move(controller), now};
  if (!is_new) return;
  order_.push_back(uid);
  if (order_.size() <= kMostOwners) return;
  answers_.erase(order_.front());
  order_.pop_front();
}

std::vector<std::string> OwnerChains::Above(const api::OwnerReference& controller) const {
  std::vector<std::string> above;
  const std::string* uid = &controller.uid;
  while (above.size() < kMostReads) {
    const auto known = answers_.find(*uid);
    if (known == answers_.end() || !known->second.controller.has_value()) break;
    uid = &known->second.controller->uid;
    above.push_back(*uid);
  }
  return above;
}

std::optional<OwnerChains::Unread> OwnerChains::NextUnread(const api::OwnerReference& controller,
                                                           std::int64_t now) const {
  const api::OwnerReference* owner = &controller;
  for (std::size_t reads = 0; reads < kMostReads; ++reads) {
    const auto known = answers_.find(owner->uid);
    if (known == answers_.end()) return Unread{*owner, true};
    const Answer& answer = known->second;
    if (!answer.controller.has_value()) {
      if (now - answer.learned < kNobodyHolds) return std::nullopt;
      return Unread{*owner, false};
    }
    owner = &*answer.controller;
  }
  return std::nullopt;
}

}  // namespace numafit::workloads
