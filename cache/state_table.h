// One object per distinct node state, so that equal questions are answered once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "cache/judge.h"

namespace numafit::cache {

// Not thread-safe; the states that it hands out are immutable and may go anywhere.
class StateTable {
 public:
  // The state that equals `described` (its id and topology object aside from the address), or
  // `described` with a new id.
  std::shared_ptr<const NodeState> Intern(NodeState described);

 private:
  // States that no node is in are kept for a while: nodes come back to them.
  static constexpr std::size_t kMinKept = 4096;

  void Sweep();

  absl::flat_hash_map<std::string, std::shared_ptr<const NodeState>> states_;
  std::size_t sweep_at_ = kMinKept;
};

}  // namespace numafit::cache
