// One object per distinct Demand: the Pods of a Job ask for the same, and there are many of them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "policy/demand.h"

namespace numafit::cache {

// Not thread-safe; the demands may go anywhere.
class DemandTable {
 public:
  // The demand that equals `demand`, names of its containers included.
  std::shared_ptr<const policy::Demand> Intern(policy::Demand demand);
  [[nodiscard]] std::size_t size() const { return demands_.size(); }

 private:
  // Those that nobody uses any more are dropped when there are many.
  static constexpr std::size_t kMinKept = 1024;

  std::size_t sweep_at_ = kMinKept;
  absl::flat_hash_map<std::string, std::weak_ptr<const policy::Demand>> demands_;
};

}  // namespace numafit::cache
