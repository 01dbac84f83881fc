// What the CPU and the memory manager have in their books.
#pragma once

#include <compare>

#include "policy/cpu_set.h"
#include "policy/memory_manager/memory_state.h"

namespace numafit::policy {

// The books of the static CPU manager and the Static memory manager; both stay empty without them.
struct ComputeState {
  // CPUs that nobody has for himself, the reserved ones included (cpu_manager_state's
  // defaultCpuSet).
  CpuSet default_cpus;
  MemoryState memory;

  friend bool operator==(const ComputeState&, const ComputeState&) = default;
  friend std::strong_ordering operator<=>(const ComputeState&, const ComputeState&) = default;
};

}  // namespace numafit::policy
