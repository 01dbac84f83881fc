// One admission, played through. Used by admit.cc alone; the contract is admit.h.
#pragma once

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "policy/admit.h"
#include "policy/compute_state.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/device_manager/allocation.h"
#include "policy/device_manager/state.h"
#include "policy/requests.h"
#include "policy/topology.h"
#include "policy/topology_manager/merge.h"
#include "policy/usage.h"

namespace numafit::policy {

// Walks the containers in kubelet order, and every pick of devices that the kubelet may make.
// Hint providers and allocations are those of pkg/kubelet/cm/container_manager_linux.go, in its
// order: devices, CPUs, memory. A view: all arguments must outlive it.
class Admission {
 public:
  Admission(const Topology& topology, const Usage& usage, const Demand& demand,
            absl::FunctionRef<bool(const Outcome&)> visit);

  void Run();

  // Whether a merge was asked after a pick among several.
  [[nodiscard]] bool asked_after_choice() const { return asked_after_choice_; }
  // Something was not decided because nobody can wait for it, the kubelet included.
  [[nodiscard]] bool intractable() const { return intractable_; }

 private:
  using Plans = absl::InlinedVector<AllocationPlan, 4>;
  using HintsOfAll = absl::InlinedVector<ResourceHints, 4>;

  // What the CPU and the memory manager write down on the way.
  struct Books {
    ComputeState compute;
    CpuSet reusable_cpus;
    CpuSet pod_cpus;
    ReusableMemory reusable_memory;
    std::vector<ContainerMemory> pod_memory;  // of the containers so far
  };
  struct Refusal {
    RefusalReason reason = RefusalReason::kNone;
    std::string resource;
  };

  [[nodiscard]] bool PodScope() const;
  [[nodiscard]] bool HasBooks() const {
    return topology_.cpu_manager() != nullptr || topology_.memory_manager() != nullptr;
  }
  // `names` gets the resource of each entry.
  HintsOfAll Hints(const Requests& requests, bool use_reusable, std::vector<std::string>* names);
  MergeResult Ask(const Requests& requests, bool use_reusable);
  // The resource that alone explains the refusal, if one does.
  std::string InTheWay(const Requests& requests, bool use_reusable);

  // The methods below return false when the visitor wants no more.
  bool Container(std::size_t index);
  bool Allocate(std::size_t index, const Hint& hint);
  bool Choose(std::size_t index, const Plans& plans, std::size_t at,
              ContainerAllocation& allocation);
  bool Refuse(std::size_t index, RefusalReason reason, const std::string& resource);
  bool Emit(RefusalReason reason, int refused_container, const std::string& refused_resource);

  Refusal AllocateCpus(std::size_t index, const Hint& hint, ContainerAllocation& allocation);
  Refusal AllocateMemory(std::size_t index, const Hint& hint, ContainerAllocation& allocation);

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

  RequestsOfContainers requests_;
  MergeResult pod_merge_;
  DeviceState devices_;
  Books books_;
  std::vector<ContainerAllocation> allocations_;  // of the containers so far
  int choices_ = 0;                               // open choices on the way here
  bool asked_after_choice_ = false;
  bool intractable_ = false;
  bool panics_ = false;  // the hints that were asked for last
};

}  // namespace numafit::policy
