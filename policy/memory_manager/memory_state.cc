#include "policy/memory_manager/memory_state.h"

#include <algorithm>

#include "policy/mutation.h"

namespace numafit::policy {

void MemoryRequests::Add(int type, std::int64_t bytes) {
  const auto at =
      std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.type >= type; });
  if (at != items.end() && at->type == type) return;
  items.insert(at, {type, static_cast<std::uint64_t>(bytes)});
}

std::uint64_t ReusableMemory::Of(NumaMask numa, int type) const {
  for (const MemoryBlock& entry : entries_) {
    if (entry.numa == numa && entry.type == type) return entry.size;
  }
  return 0;
}

void ReusableMemory::Update(const MemoryBlocks& blocks, bool is_regular_init) {
  for (const MemoryBlock& block : blocks) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const MemoryBlock& e) {
      return e.numa == block.numa && e.type == block.type;
    });
    if (!is_regular_init && !Mutated(Mutation::kMemoryAnyoneLeaves)) {
      if (entry != entries_.end()) entry->size -= std::min(entry->size, block.size);
    } else if (entry == entries_.end()) {
      entries_.push_back(block);
    } else {
      entry->size = std::max(entry->size, block.size);
    }
  }
}

}  // namespace numafit::policy
