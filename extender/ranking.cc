#include "extender/ranking.h"

#include <algorithm>
#include <limits>

#include "api/extender.h"

namespace numafit::extender {

void Ranking::Reset(std::size_t best) {
  best_ = best;
  // Trimming costs a partition; three times the room makes it rare.
  trim_at_ = best == 0 ? std::numeric_limits<std::size_t>::max() : best * 3 + 64;
  added_ = 0;
  threshold_ = 0;
  entries_.clear();
  result_.clear();
}

void Ranking::Trim() {
  const auto better = [](const Entry& a, const Entry& b) { return a.key > b.key; };
  const auto last = entries_.begin() + static_cast<std::ptrdiff_t>(best_ - 1);
  std::nth_element(entries_.begin(), last, entries_.end(), better);
  threshold_ = last->key;
  entries_.resize(best_);
}

const std::vector<Ranked>& Ranking::Finish() {
  if (!result_.empty()) return result_;
  if (best_ != 0 && entries_.size() > best_) Trim();
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.key > b.key; });
  result_.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    result_.push_back({0xFFFFFFFFU - static_cast<std::uint32_t>(entry.key), entry.index});
  }
  return result_;
}

std::int64_t PriorityOfRank(std::size_t rank, std::size_t count) {
  if (rank == 0) return api::kMaxExtenderPriority;
  const std::size_t steps = static_cast<std::size_t>(api::kMaxExtenderPriority) - 1;
  return static_cast<std::int64_t>(steps - (rank - 1) * steps / std::max<std::size_t>(count, 1));
}

}  // namespace numafit::extender
