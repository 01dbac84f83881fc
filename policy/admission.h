// One admission, played through. Used by admit.cc, readmission.cc and resize.cc alone; the
// contracts are admit.h, readmission.h and resize.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "policy/admit.h"
#include "policy/compute_state.h"
#include "policy/cpu_manager/static_policy.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/device_manager/allocation.h"
#include "policy/device_manager/state.h"
#include "policy/readmission.h"
#include "policy/requests.h"
#include "policy/resize.h"
#include "policy/topology.h"
#include "policy/topology_manager/merge.h"
#include "policy/usage.h"

namespace numafit::policy {

// Walks the containers in kubelet order, and every pick of devices that the kubelet may make.
// Hint providers and allocations are those of pkg/kubelet/cm/container_manager_linux.go, in its
// order: devices, CPUs, memory. With `held`, one per container, the Pod is admitted again by a
// kubelet that has restarted; with `running`, for a resize. A view: all arguments must outlive it.
class Admission {
 public:
  Admission(const Topology& topology, const Usage& usage, const Demand& demand,
            absl::FunctionRef<bool(const Outcome&)> visit, std::span<const HeldContainer> held = {},
            const HeldAsAWhole& held_pod = {});
  Admission(const Topology& topology, const Usage& usage, const Demand& demand,
            absl::FunctionRef<bool(const Outcome&)> visit, const RunningPod& running);

  void Run();

  // Whether a merge was asked after a pick among several.
  [[nodiscard]] bool asked_after_choice() const { return asked_after_choice_; }
  // Something was not decided because nobody can wait for it, the kubelet included.
  [[nodiscard]] bool intractable() const { return intractable_; }
  [[nodiscard]] bool endless() const { return endless_; }

 private:
  using Plans = absl::InlinedVector<AllocationPlan, 4>;
  using HintsOfAll = absl::InlinedVector<ResourceHints, 4>;

  // What the CPU and the memory manager write down on the way.
  struct Books {
    ComputeState compute;
    CpuSet reusable_cpus;
    CpuSet pod_cpus;
    ReusableMemory reusable_memory;
    // Of the containers so far; when they are admitted again, of all.
    std::vector<ContainerMemory> pod_memory;
    // Of a Pod that is allocated as a whole: as in Holding and Outcome.
    CpuSet container_cpus;
    MemoryBlocks whole_pod_memory;
    CpuSet stranded;
  };
  struct Refusal {
    RefusalReason reason = RefusalReason::kNone;
    std::string resource;
    MemoryAllocation::Outcome memory = MemoryAllocation::Outcome::kAllocated;
  };

  [[nodiscard]] bool PodScope() const;
  // After a restart or for a resize.
  [[nodiscard]] bool Readmits() const { return !held_.empty(); }
  [[nodiscard]] bool Resizes() const { return running_ != nullptr; }

  // Who asks: a container, or (nullopt) the Pod as a whole.
  using Asker = std::optional<std::size_t>;
  // `names` gets the resource of each entry.
  HintsOfAll Hints(const Requests& requests, Asker asker, std::vector<std::string>* names);
  ResourceHints CpuHints(const Requests& requests, Asker asker);
  ResourceHints HintsOfAskersMemory(const Requests& requests, Asker asker);
  MergeResult Ask(const Requests& requests, Asker asker);
  // The resource that alone explains the refusal, if one does.
  std::string InTheWay(const Requests& requests, Asker asker);

  // The methods below return false when the visitor wants no more.
  bool Container(std::size_t index);
  bool Allocate(std::size_t index, const Hint& hint);
  bool Choose(std::size_t index, const Plans& plans, std::size_t at,
              ContainerAllocation& allocation);
  bool Refuse(std::size_t index, const Refusal& refusal);
  bool Emit(const Refusal& refusal, int refused_container);

  Refusal AllocateCpus(std::size_t index, const Hint& hint, ContainerAllocation& allocation);
  Refusal AllocateMemory(std::size_t index, const Hint& hint, ContainerAllocation& allocation);

  // The Pod as a whole (pod_admission.cc).
  void AllocatePod(const Requests& pod);
  Refusal AllocatePodCpus(const Requests& pod);
  Refusal AllocatePodMemory(const Requests& pod);
  [[nodiscard]] bool NoCpusToShare(const Requests& pod) const;
  [[nodiscard]] bool NoMemoryToShare(const Requests& pod) const;

  // Notes what cannot be waited for. Precondition: not allocated.
  Refusal RefusalOf(const CpuAllocation& cpus);
  Refusal RefusalOf(const MemoryAllocation& memory);

  // Readmission: what follows from what containers have; nullopt where the asker has nothing.
  [[nodiscard]] std::optional<ResourceHints> HeldCpuHints(std::int64_t requested,
                                                          Asker asker) const;
  [[nodiscard]] std::optional<ResourceHints> HeldMemoryHints(const MemoryRequests& requests,
                                                             Asker asker) const;
  [[nodiscard]] bool Runs(std::size_t index) const;
  Refusal KeepCpus(std::size_t index, ContainerAllocation& allocation);
  void KeepMemory(std::size_t index, ContainerAllocation& allocation);
  // A refused Pod still has what its containers had.
  void AddWhatIsHeld(Outcome& outcome) const;

  // A resize (resize.cc).
  [[nodiscard]] bool AsksForDevicesAlone() const;
  // What the asker has; nullptr when that is not asked.
  [[nodiscard]] const HeldDevices* DevicesOf(Asker asker) const;
  [[nodiscard]] ResourceHints HintsOfDevices(const DeviceRequest& request, Asker asker);
  bool AllocateAgain(std::size_t index, const Hint& hint);
  // `plans` are for what the container has none of. Returns a resource that is refused, if any.
  std::string PlanDevicesAgain(std::size_t index, const Hint& hint, Plans& plans) const;
  // The kubelet allocates in the order of a Go map until it comes to the resource that it refuses,
  // and the Pod keeps what it got: any part of the plans.
  bool RefuseDevices(std::size_t index, const Plans& plans, const std::string& resource);
  // What later containers may use again of what this one has, or may not any more.
  void PassOnDevices(std::size_t index);

  template <typename Split>
  void GiveSplit(std::size_t index, const AllocationPlan& plan, const Split& split, int sign,
                 ContainerAllocation& allocation);
  // Books devices for the container (sign +1), or takes that back (-1).
  void Give(std::size_t index, ClassCount item, bool reused, int sign,
            ContainerAllocation& allocation);
  // Whether later containers use again what this one has.
  [[nodiscard]] bool LeavesDevices(std::size_t index) const;
  [[nodiscard]] bool IsInit(std::size_t index) const {
    return demand_.containers[index].kind == ContainerDemand::Kind::kInit;
  }

  const Topology& topology_;
  const Usage& usage_;
  const Demand& demand_;
  absl::FunctionRef<bool(const Outcome&)> visit_;
  std::span<const HeldContainer> held_;
  const RunningPod* running_ = nullptr;
  bool as_a_whole_ = false;

  RequestsOfContainers requests_;
  MergeResult pod_merge_;
  DeviceState devices_;
  Books books_;
  std::vector<ContainerAllocation> allocations_;  // of the containers so far
  int choices_ = 0;                               // open choices on the way here
  bool asked_after_choice_ = false;
  bool intractable_ = false;
  bool endless_ = false;
  bool panics_ = false;  // the hints that were asked for last
  std::string panics_on_;
  // A resize: per class, what containers so far pass on of what they had before it.
  absl::InlinedVector<std::int32_t, 32> passed_on_;
  const Refusal* late_refusal_ = nullptr;  // the container is refused, once it has its devices
};

}  // namespace numafit::policy
