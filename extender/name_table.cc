#include "extender/name_table.h"

namespace numafit::extender {

NameTable::NameTable(const cache::Fleet& fleet) {
  const cache::Fleet::ReadGuard guard(fleet);
  const std::size_t count = fleet.size();
  ends_.reserve(count + 1);
  ends_.push_back(0);
  for (std::size_t i = 0; i < count; ++i) {
    text_.append(fleet.NodeName(guard, static_cast<int>(i)));
    ends_.push_back(static_cast<std::uint32_t>(text_.size()));
  }
}

}  // namespace numafit::extender
