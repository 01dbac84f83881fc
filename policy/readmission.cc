#include "policy/readmission.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "policy/admission.h"
#include "policy/cpu_manager/static_policy.h"
#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"

namespace numafit::policy {

std::optional<ResourceHints> Admission::HeldCpuHints(std::int64_t requested, Asker asker) const {
  if (!Readmits() || Mutated(Mutation::kRestartCpuHintsAnew)) return std::nullopt;
  const CpuManager& manager = *topology_.cpu_manager();
  if (asker) {
    const CpuSet& cpus = held_[*asker].cpus;
    if (cpus.empty()) return std::nullopt;
    return manager.AllocatedHints(cpus, requested);
  }
  CpuSet of_pod;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].cpus.empty()) continue;
    // Impossible, as a number that is not the requested one is.
    if (held_[i].cpus.count() != requests_[i].cpus) return manager.AllocatedHints({}, requested);
    of_pod |= held_[i].cpus;
  }
  if (of_pod.count() == requested) return manager.AllocatedHints(of_pod, requested);
  return manager.Hints(books_.compute.default_cpus, requested, of_pod);
}

std::optional<ResourceHints> Admission::HeldMemoryHints(const MemoryRequests& requests,
                                                        Asker asker) const {
  if (Mutated(Mutation::kRestartMemoryHintsAnew)) return std::nullopt;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if ((asker && *asker != i) || !held_[i].memory.held) continue;
    return MemoryManager::RegeneratedHints(requests, books_.pod_memory[i].blocks);
  }
  return std::nullopt;
}

bool Admission::Runs(std::size_t index) const {
  return Readmits() && !Resizes() && held_[index].runs && !Mutated(Mutation::kRestartDevicesAnew);
}

Admission::Refusal Admission::KeepCpus(std::size_t index, ContainerAllocation& allocation) {
  const CpuSet& cpus = held_[index].cpus;
  allocation.cpus = cpus;
  const CpuAllocation::Outcome outcome =
      topology_.cpu_manager()->CheckAllocated(books_.compute.default_cpus, requests_[index].cpus);
  if (outcome != CpuAllocation::Outcome::kAllocated && !Mutated(Mutation::kRestartCoresUnchecked)) {
    return {RefusalReason::kSmtAlignmentError, "cpu"};
  }
  UpdateReusableCpus(books_.reusable_cpus, cpus, IsInit(index));
  return {};
}

void Admission::KeepMemory(std::size_t index, ContainerAllocation& allocation) {
  const MemoryBlocks& blocks = books_.pod_memory[index].blocks;
  books_.reusable_memory.Update(blocks, IsInit(index));
  allocation.memory = blocks;
}

void Admission::AddWhatIsHeld(Outcome& outcome) const {
  if (Mutated(Mutation::kRestartNothingLeft)) return;
  for (std::size_t i = outcome.containers.size(); i < held_.size(); ++i) {
    outcome.containers.emplace_back().cpus = held_[i].cpus;
  }
}

ReadmitResult Readmit(const Topology& topology, const Usage& usage, const Demand& demand,
                      std::span<const HeldContainer> held, const HeldAsAWhole& held_pod) {
  ReadmitResult result;
  const auto visit = [&](const Outcome& outcome) {
    result.outcome = outcome;
    return true;
  };
  Admission admission(topology, usage, demand, visit, held, held_pod);
  admission.Run();
  result.intractable = admission.intractable();
  result.endless = admission.endless();
  return result;
}

}  // namespace numafit::policy
