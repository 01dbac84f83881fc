#include "policy/admission.h"

#include <algorithm>
#include <utility>

#include "policy/cpu_manager/static_policy.h"
#include "policy/memory_manager/memory_manager.h"
#include "policy/mutation.h"
#include "policy/topology_manager/policy.h"

namespace numafit::policy {
namespace {

void AddTo(DeviceHolding& holding, int class_index, int count) {
  if (count == 0) return;
  const auto at =
      std::lower_bound(holding.begin(), holding.end(), class_index,
                       [](const ClassCount& item, int index) { return item.class_index < index; });
  if (at != holding.end() && at->class_index == class_index) {
    at->count += count;
  } else {
    holding.insert(at, {class_index, count});
  }
}

void Drop(DeviceHolding& holding, ClassCount item) {
  const auto at = std::find_if(holding.begin(), holding.end(), [&](const ClassCount& held) {
    return held.class_index == item.class_index;
  });
  at->count -= item.count;
  if (at->count == 0) holding.erase(at);
}

bool Refuses(const MergeResult& merged) {
  return merged.intractable || !merged.admit;
}

}  // namespace

Admission::Admission(const Topology& topology, const Usage& usage, const Demand& demand,
                     absl::FunctionRef<bool(const Outcome&)> visit,
                     std::span<const HeldContainer> held, const HeldAsAWhole& held_pod)
    : topology_(topology),
      usage_(usage),
      demand_(demand),
      visit_(visit),
      held_(held),
      as_a_whole_(IsAllocatedAsAWhole(topology, demand)),
      requests_(ContainerRequestsOf(topology, demand)),
      devices_(usage) {
  if (!topology_.HasBooks()) return;
  books_.compute = usage.compute();
  for (const HeldContainer& container : held_) {
    books_.pod_cpus |= container.cpus;
    books_.pod_memory.push_back(container.memory);
  }
  if (!as_a_whole_) return;
  books_.container_cpus = books_.pod_cpus;
  books_.pod_cpus = held_pod.cpus;
  books_.whole_pod_memory = held_pod.memory;
}

Admission::Admission(const Topology& topology, const Usage& usage, const Demand& demand,
                     absl::FunctionRef<bool(const Outcome&)> visit, const RunningPod& running)
    : Admission(topology, usage, demand, visit, running.containers) {
  running_ = &running;
  passed_on_.assign(devices_.reusable.size(), 0);
  if (Mutated(Mutation::kResizeForgetsLeftovers)) return;
  for (const ClassCount& item : running.left_devices.listed) {
    devices_.reusable[static_cast<std::size_t>(item.class_index)] = item.count;
  }
  books_.reusable_cpus = running.left_cpus;
  books_.reusable_memory = running.left_memory;
}

void Admission::Run() {
  if (PodScope()) {
    const Requests pod = PodRequestsOf(topology_, demand_, requests_);
    pod_merge_ = Ask(pod, std::nullopt);
    if (panics_) {
      Refuse(0, {RefusalReason::kPanic, panics_on_});
      return;
    }
    if (Refuses(pod_merge_)) {
      Refuse(0, {RefusalReason::kTopologyAffinityError, InTheWay(pod, std::nullopt)});
      return;
    }
    if (as_a_whole_) {
      AllocatePod(pod);
      return;
    }
  }
  Container(0);
}

bool Admission::PodScope() const {
  return topology_.kubelet().policy != TopologyPolicy::kNone &&
         topology_.kubelet().scope == TopologyScope::kPod;
}

Admission::HintsOfAll Admission::Hints(const Requests& requests, Asker asker,
                                       std::vector<std::string>* names) {
  HintsOfAll hints;
  for (const DeviceRequest& request : requests.devices) {
    hints.push_back(HintsOfDevices(request, asker));
    if (names != nullptr) {
      names->push_back(topology_.pools()[static_cast<std::size_t>(request.pool)].resource);
    }
  }
  if (AsksForDevicesAlone()) return hints;
  if (requests.cpus != 0) {
    hints.push_back(CpuHints(requests, asker));
    if (names != nullptr) names->emplace_back("cpu");
  }
  if (requests.asks_memory) {
    hints.push_back(HintsOfAskersMemory(requests, asker));
    if (names != nullptr) names->emplace_back("memory");
  }
  return hints;
}

ResourceHints Admission::CpuHints(const Requests& requests, Asker asker) {
  const std::int64_t requested = requests.cpus;
  if (NoCpusToShare(requests)) return topology_.cpu_manager()->AllocatedHints({}, requested);
  if (!topology_.cpu_manager()->TractableHints()) intractable_ = true;
  if (std::optional<ResourceHints> held = HeldCpuHints(requested, asker)) return *std::move(held);
  return topology_.cpu_manager()->Hints(books_.compute.default_cpus, requested,
                                        books_.reusable_cpus);
}

ResourceHints Admission::HintsOfAskersMemory(const Requests& asked, Asker asker) {
  const MemoryRequests& requests = asked.memory;
  if (NoMemoryToShare(asked)) {
    return topology_.memory_manager()->NoHints(requests);
  }
  if (std::optional<ResourceHints> held = HeldMemoryHints(requests, asker)) {
    return *std::move(held);
  }
  MemoryHints memory =
      topology_.memory_manager()->Hints(books_.compute.memory, requests, books_.reusable_memory);
  if (memory.outcome == MemoryHints::Outcome::kIntractable) intractable_ = true;
  if (memory.outcome == MemoryHints::Outcome::kPanics) {
    panics_ = true;
    panics_on_ = "memory";
  }
  return std::move(memory.hints);
}

MergeResult Admission::Ask(const Requests& requests, Asker asker) {
  if (topology_.kubelet().policy == TopologyPolicy::kNone) return MergeNone();
  MergeResult result = Merge(topology_, Hints(requests, asker, nullptr));
  if (result.intractable) intractable_ = true;
  return result;
}

std::string Admission::InTheWay(const Requests& requests, Asker asker) {
  std::vector<std::string> names;
  const HintsOfAll hints = Hints(requests, asker, &names);
  for (std::size_t i = 0; i < hints.size(); ++i) {
    if (hints[i].kind == ResourceHints::Kind::kImpossible ||
        Refuses(Merge(topology_, {&hints[i], 1}))) {
      return names[i];
    }
  }
  return "";
}

bool Admission::Container(std::size_t index) {
  if (index == requests_.size()) return Emit({}, -1);
  if (PodScope()) return Allocate(index, pod_merge_.hint);
  if (choices_ > 0 && !requests_[index].empty() &&
      topology_.kubelet().policy != TopologyPolicy::kNone) {
    asked_after_choice_ = true;
  }
  const MergeResult merged = Ask(requests_[index], index);
  if (panics_) {
    panics_ = false;
    return Refuse(index, {RefusalReason::kPanic, panics_on_});
  }
  if (Refuses(merged)) {
    return Refuse(index,
                  {RefusalReason::kTopologyAffinityError, InTheWay(requests_[index], index)});
  }
  return Allocate(index, merged.hint);
}

bool Admission::Allocate(std::size_t index, const Hint& hint) {
  if (Resizes()) return AllocateAgain(index, hint);
  Plans plans;
  for (const DeviceRequest& request : requests_[index].devices) {
    if (Runs(index)) break;  // it can only be because it has its devices
    plans.push_back(PlanAllocation(topology_, devices_, request, hint.affinity));
    if (!plans.back().possible) {
      const auto& pool = topology_.pools()[static_cast<std::size_t>(request.pool)];
      return Refuse(index, {RefusalReason::kUnexpectedAdmissionError, pool.resource});
    }
  }
  ContainerAllocation allocation;
  allocation.affinity = hint.affinity;
  allocation.preferred = hint.preferred;
  if (!topology_.HasBooks()) return Choose(index, plans, 0, allocation);
  // Which CPUs and memory there will be does not depend on which devices are picked.
  const Books before = books_;
  Refusal refusal = AllocateCpus(index, hint, allocation);
  if (refusal.reason == RefusalReason::kNone) {
    refusal = AllocateMemory(index, hint, allocation);
  }
  bool go_on = true;
  if (refusal.reason == RefusalReason::kNone) {
    go_on = Choose(index, plans, 0, allocation);
  } else {
    const bool got_cpus = !allocation.cpus.empty();
    if (got_cpus) allocations_.push_back(allocation);
    go_on = Refuse(index, refusal);
    if (got_cpus) allocations_.pop_back();
  }
  books_ = before;
  return go_on;
}

Admission::Refusal Admission::AllocateCpus(std::size_t index, const Hint& hint,
                                           ContainerAllocation& allocation) {
  const std::int64_t count = requests_[index].cpus;
  if (count == 0) {
    // What it has after a resize, although it asks for none now, stays in the book.
    if (Readmits()) allocation.cpus = held_[index].cpus;
    return {};
  }
  if (Readmits() && !held_[index].cpus.empty()) return KeepCpus(index, allocation);
  const CpuManager& manager = *topology_.cpu_manager();
  CpuAllocation cpus =
      manager.Allocate(books_.compute.default_cpus, count, hint.affinity, books_.reusable_cpus);
  if (cpus.outcome != CpuAllocation::Outcome::kAllocated) return RefusalOf(cpus);
  UpdateReusableCpus(books_.reusable_cpus, cpus.cpus, IsInit(index));
  books_.pod_cpus |= cpus.cpus;
  allocation.cpus = std::move(cpus.cpus);
  return {};
}

Admission::Refusal Admission::RefusalOf(const CpuAllocation& cpus) {
  if (cpus.outcome == CpuAllocation::Outcome::kSmtAlignmentError) {
    return {RefusalReason::kSmtAlignmentError, "cpu"};
  }
  if (cpus.outcome == CpuAllocation::Outcome::kIntractable) {
    intractable_ = true;
    endless_ = endless_ || cpus.failure == TakeFailure::kEndless;
  }
  return {RefusalReason::kUnexpectedAdmissionError, "cpu"};
}

Admission::Refusal Admission::RefusalOf(const MemoryAllocation& memory) {
  if (memory.outcome == MemoryAllocation::Outcome::kPanics) {
    return {RefusalReason::kPanic, "memory", memory.outcome};
  }
  if (memory.outcome == MemoryAllocation::Outcome::kIntractable) intractable_ = true;
  return {RefusalReason::kUnexpectedAdmissionError, "memory", memory.outcome};
}

Admission::Refusal Admission::AllocateMemory(std::size_t index, const Hint& hint,
                                             ContainerAllocation& allocation) {
  if (!requests_[index].asks_memory) return {};
  if (Readmits() && held_[index].memory.held && !Mutated(Mutation::kRestartMemoryAnew)) {
    KeepMemory(index, allocation);
    return {};
  }
  MemoryAllocation memory = topology_.memory_manager()->Allocate(
      books_.compute.memory, requests_[index].memory, hint, books_.reusable_memory, IsInit(index));
  if (memory.outcome != MemoryAllocation::Outcome::kAllocated) return RefusalOf(memory);
  ShrinkReusedBlocks({books_.pod_memory.data(), index}, memory.blocks);
  ContainerMemory& entry = Readmits() ? books_.pod_memory[index] : books_.pod_memory.emplace_back();
  entry.kind = demand_.containers[index].kind;
  entry.held = memory.held;
  entry.blocks = memory.blocks;
  allocation.memory = std::move(memory.blocks);
  return {};
}

// Plays the plans of one container from `at` on, then the next containers.
bool Admission::Choose(std::size_t index, const Plans& plans, std::size_t at,
                       ContainerAllocation& allocation) {
  if (at == plans.size()) {
    allocations_.push_back(allocation);
    const bool go_on =
        late_refusal_ != nullptr ? Refuse(index, *late_refusal_) : Container(index + 1);
    allocations_.pop_back();
    return go_on;
  }
  const AllocationPlan& plan = plans[at];
  for (const ClassCount& item : plan.reused) Give(index, item, /*reused=*/true, +1, allocation);
  for (const ClassCount& item : plan.taken) Give(index, item, /*reused=*/false, +1, allocation);
  bool go_on = true;
  if (plan.choice.empty()) {
    go_on = Choose(index, plans, at + 1, allocation);
  } else {
    ++choices_;
    go_on = ForEachSplit(plan.choice, plan.chosen, [&](const auto& split) {
      GiveSplit(index, plan, split, +1, allocation);
      const bool more = Choose(index, plans, at + 1, allocation);
      GiveSplit(index, plan, split, -1, allocation);
      return more;
    });
    --choices_;
  }
  for (const ClassCount& item : plan.reused) Give(index, item, /*reused=*/true, -1, allocation);
  for (const ClassCount& item : plan.taken) Give(index, item, /*reused=*/false, -1, allocation);
  return go_on;
}

template <typename Split>
void Admission::GiveSplit(std::size_t index, const AllocationPlan& plan, const Split& split,
                          int sign, ContainerAllocation& allocation) {
  for (std::size_t i = 0; i < split.size(); ++i) {
    if (split[i] == 0) continue;
    Give(index, {plan.choice[i].class_index, split[i]}, plan.choose_reusable, sign, allocation);
  }
}

void Admission::Give(std::size_t index, ClassCount item, bool reused, int sign,
                     ContainerAllocation& allocation) {
  const auto at = static_cast<std::size_t>(item.class_index);
  if (!reused) devices_.taken[at] += sign * item.count;
  // An init container's devices are reusable from now on, those it re-used stay so; an app
  // container or a sidecar takes those that it re-used out of reach.
  if (LeavesDevices(index)) {
    if (!reused) devices_.reusable[at] += sign * item.count;
  } else if (reused) {
    devices_.reusable[at] -= sign * item.count;
  }
  if (sign > 0) {
    AddTo(allocation.devices, item.class_index, item.count);
  } else {
    Drop(allocation.devices, item);
  }
}

bool Admission::LeavesDevices(std::size_t index) const {
  if (Mutated(Mutation::kNoReuse)) return false;
  if (Mutated(Mutation::kSidecarReuse) &&
      demand_.containers[index].kind == ContainerDemand::Kind::kSidecar) {
    return true;
  }
  return IsInit(index);
}

bool Admission::Refuse(std::size_t index, const Refusal& refusal) {
  return Emit(refusal, static_cast<int>(index));
}

bool Admission::Emit(const Refusal& refusal, int refused_container) {
  Outcome outcome;
  outcome.admitted = refusal.reason == RefusalReason::kNone;
  outcome.reason = refusal.reason;
  outcome.refused_container = refused_container;
  outcome.refused_resource = refusal.resource;
  outcome.memory_failure = refusal.memory;
  outcome.containers = allocations_;
  for (std::size_t c = 0; c < devices_.taken.size(); ++c) {
    const int count = devices_.taken[c] - usage_.raw()[c];
    if (count > 0) outcome.held.devices.push_back({static_cast<int>(c), count});
  }
  if (topology_.HasBooks()) {
    outcome.held.cpus = books_.pod_cpus;
    const bool holds_memory =
        std::any_of(books_.pod_memory.begin(), books_.pod_memory.end(),
                    [](const ContainerMemory& memory) { return memory.held; });
    if (holds_memory) outcome.held.memory = books_.pod_memory;
    outcome.held.container_cpus = books_.container_cpus;
    outcome.held.pod_memory = books_.whole_pod_memory;
    outcome.stranded = books_.stranded;
    outcome.compute = books_.compute;
  }
  if (Readmits() && !outcome.admitted) AddWhatIsHeld(outcome);
  return visit_(outcome);
}

}  // namespace numafit::policy
