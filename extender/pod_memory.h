// What filter read of a Pod, for bind: kube-scheduler's bind call names the Pod and nothing else.
//
// Bounded, least recently filtered first out; a Pod that is not here is read from the API server.
// Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "api/mutex.h"
#include "api/objects.h"
#include "policy/demand.h"

namespace numafit::extender {

struct RememberedPod {
  api::Pod pod;
  policy::Demand demand;
};

class PodMemory {
 public:
  explicit PodMemory(std::size_t capacity) : capacity_(capacity) {}

  // Replaces what was remembered under the same uid. A no-op for an empty uid.
  void Remember(std::shared_ptr<const RememberedPod> pod);
  // Null when not there.
  [[nodiscard]] std::shared_ptr<const RememberedPod> Find(std::string_view uid) const;
  void Forget(std::string_view uid);

 private:
  const std::size_t capacity_;
  mutable api::Mutex mutex_;
  std::list<std::shared_ptr<const RememberedPod>> order_ NUMAFIT_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, decltype(order_)::iterator> by_uid_ NUMAFIT_GUARDED_BY(mutex_);
};

}  // namespace numafit::extender
