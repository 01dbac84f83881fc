#include "extender/name_table.h"

namespace numafit::extender {

void NameTable::Append(const cache::Fleet& fleet, const cache::Fleet::ReadGuard& guard) {
  const std::size_t count = fleet.size();
  ends_.reserve(count + 1);
  for (std::size_t i = size(); i < count; ++i) {
    text_.append(fleet.NodeName(guard, static_cast<int>(i)));
    ends_.push_back(static_cast<std::uint32_t>(text_.size()));
  }
}

}  // namespace numafit::extender
