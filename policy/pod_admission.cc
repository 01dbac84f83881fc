// The admission of a Pod with resources of its own, as a whole (pod_level.h): topologymanager's
// admitUsingPodResources. Also when it is admitted again: AllocatePod does not ask what the Pod has
// already, so it has it twice then, or moves.
#include <utility>

#include "policy/admission.h"
#include "policy/cpu_manager/static_policy.h"
#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"
#include "policy/pod_level.h"

namespace numafit::policy {

bool Admission::NoCpusToShare(const Requests& pod) const {
  return as_a_whole_ && LeavesNoCpusToShare(pod.cpus, demand_, requests_);
}

bool Admission::NoMemoryToShare(const Requests& pod) const {
  return as_a_whole_ && !pod.memory.unreadable &&
         LeavesNoMemoryToShare(pod.memory, demand_, requests_);
}

void Admission::AllocatePod(const Requests& pod) {
  allocations_.assign(requests_.size(), {});
  for (ContainerAllocation& allocation : allocations_) {
    allocation.affinity = pod_merge_.hint.affinity;
    allocation.preferred = pod_merge_.hint.preferred;
  }
  if (Readmits() && Mutated(Mutation::kPodLevelKeepsOnRestart)) {
    for (std::size_t i = 0; i < held_.size(); ++i) allocations_[i].cpus = held_[i].cpus;
    Emit({}, -1);
    return;
  }
  Refusal refusal = AllocatePodCpus(pod);
  if (refusal.reason != RefusalReason::kNone) {
    allocations_.clear();
    Refuse(0, refusal);
    return;
  }
  refusal = AllocatePodMemory(pod);
  if (refusal.reason == RefusalReason::kNone) {
    Emit(refusal, -1);
  } else {
    // Without CPUs nobody holds anything, and a Pod that is admitted again what it had.
    if (pod.cpus == 0) allocations_.clear();
    Refuse(0, refusal);
  }
}

Admission::Refusal Admission::AllocatePodCpus(const Requests& pod) {
  if (pod.cpus == 0) return {};
  if (NoCpusToShare(pod)) return {RefusalReason::kEmptyPodSharedPoolError, "cpu"};
  CpuAllocation cpus = topology_.cpu_manager()->Allocate(books_.compute.default_cpus, pod.cpus,
                                                         pod_merge_.hint.affinity, CpuSet());
  if (cpus.outcome != CpuAllocation::Outcome::kAllocated) return RefusalOf(cpus);
  CpuParts parts = PartCpus(*topology_.cpu_manager(), cpus.cpus, demand_, requests_);
  if (parts.failure != TakeFailure::kNone) {
    // The Pod's entry is written, its containers' are not: nothing will ever release it, unless the
    // containers have older ones.
    const bool has_older = books_.container_cpus.count() > 0;
    (has_older ? books_.pod_cpus : books_.stranded) = std::move(cpus.cpus);
    return RefusalOf(FailedCpus(parts.failure));
  }
  books_.pod_cpus = std::move(cpus.cpus);
  books_.container_cpus = {};
  for (std::size_t i = 0; i < allocations_.size(); ++i) {
    books_.container_cpus |= parts.containers[i];
    allocations_[i].cpus = std::move(parts.containers[i]);
  }
  return {};
}

Admission::Refusal Admission::AllocatePodMemory(const Requests& pod) {
  if (!pod.asks_memory || pod.memory.unreadable) return {};
  if (NoMemoryToShare(pod)) return {RefusalReason::kEmptyPodSharedPoolError, "memory"};
  ReusableMemory none;
  MemoryAllocation memory = topology_.memory_manager()->Allocate(
      books_.compute.memory, pod.memory, pod_merge_.hint, none, /*is_regular_init=*/false);
  if (memory.outcome != MemoryAllocation::Outcome::kAllocated) return RefusalOf(memory);
  const std::vector<MemoryBlocks> parts = PartMemory(memory.blocks, demand_, requests_);
  books_.whole_pod_memory = std::move(memory.blocks);
  books_.pod_memory.assign(parts.size(), {});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    books_.pod_memory[i] = {.kind = demand_.containers[i].kind, .held = true, .blocks = parts[i]};
    allocations_[i].memory = parts[i];
  }
  return {};
}

}  // namespace numafit::policy
