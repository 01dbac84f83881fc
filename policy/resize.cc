#include "policy/resize.h"

#include <algorithm>
#include <cstddef>

#include "policy/admission.h"
#include "policy/device_manager/hints.h"
#include "policy/feature_gates.h"
#include "policy/kubelet_version.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

// 2 to its power is more than any number of outcomes that a caller takes.
constexpr std::size_t kMostPlansInParts = 20;

std::int64_t RequestOf(const ContainerDemand& container, std::string_view resource) {
  const auto at = container.requests.find(resource);
  return at == container.requests.end() ? 0 : at->second;
}

// guaranteedPodResourceResizeRequired.
bool Changes(const Topology& topology, const Demand& has, const Demand& asked,
             std::string_view resource) {
  const bool init_containers = topology.kubelet().version.ResizesInitContainers() !=
                               Mutated(Mutation::kResizeInitContainers);
  for (std::size_t i = 0; i < asked.containers.size(); ++i) {
    if (asked.containers[i].kind == ContainerDemand::Kind::kInit && !init_containers) continue;
    if (RequestOf(has.containers[i], resource) != RequestOf(asked.containers[i], resource)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view ResizeVerdictName(ResizeVerdict verdict) {
  switch (verdict) {
    case ResizeVerdict::kNone:
      return "none";
    case ResizeVerdict::kTaken:
      return "taken";
    case ResizeVerdict::kInfeasible:
      return "Infeasible";
    case ResizeVerdict::kDeferred:
      return "Deferred";
  }
  return "";
}

std::optional<std::string_view> WhyInfeasible(const Topology& topology, const Demand& has,
                                              const Demand& asked) {
  if (!asked.IsGuaranteed() || Mutated(Mutation::kResizeFeasible)) return std::nullopt;
  const KubeletSettings& kubelet = topology.kubelet();
  const auto exclusive_too = [&](const char* gate) {
    return GateIsOn(kubelet.feature_gates, gate, "AllAlpha", false);
  };
  if (kubelet.cpu_policy == CpuPolicy::kStatic &&
      !exclusive_too("InPlacePodVerticalScalingExclusiveCPUs") &&
      Changes(topology, has, asked, "cpu")) {
    return "guaranteed_pod_cpu_manager_static_policy";
  }
  if (kubelet.memory_policy == MemoryPolicy::kStatic &&
      !exclusive_too("InPlacePodVerticalScalingExclusiveMemory") &&
      Changes(topology, has, asked, "memory")) {
    return "guaranteed_pod_memory_manager_static_policy";
  }
  return std::nullopt;
}

bool Admission::AsksForDevicesAlone() const {
  return Resizes() && topology_.kubelet().version.ResizesByDevicesAlone() !=
                          Mutated(Mutation::kResizeOtherVersion);
}

const HeldDevices* Admission::DevicesOf(Asker asker) const {
  if (!Resizes() || Mutated(Mutation::kResizeDevicesAnew)) return nullptr;
  return asker ? &held_[*asker].devices : &running_->devices;
}

ResourceHints Admission::HintsOfDevices(const DeviceRequest& request, Asker asker) {
  if (!Resizes()) {
    return DeviceHints(topology_, devices_, request, /*use_reusable=*/asker.has_value());
  }
  const HeldDevices* held = DevicesOf(asker);
  const HeldDevices* counted = nullptr;  // the kubelet dereferences what it finds of these
  const int has = held == nullptr ? 0 : held->Of(topology_, request.pool);
  if (has > 0) {
    counted = has == request.count ? held : nullptr;
  } else if (held != nullptr && asker) {
    counted = &running_->left_devices;
  }
  const Topology::Pool& pool = topology_.pools()[static_cast<std::size_t>(request.pool)];
  if (counted != nullptr && pool.aligned && counted->HasUnlisted(request.pool)) {
    panics_ = true;
    panics_on_ = pool.resource;
  }
  if (has > 0) return HeldDeviceHints(topology_, devices_, request, *held);
  return DeviceHints(topology_, devices_, request, /*use_reusable=*/asker.has_value());
}

std::string Admission::PlanDevicesAgain(std::size_t index, const Hint& hint, Plans& plans) const {
  std::string refused;
  const HeldDevices& held = held_[index].devices;
  for (const DeviceRequest& request : requests_[index].devices) {
    bool possible = true;
    if (const int has = held.Of(topology_, request.pool); has > 0) {
      possible = has == request.count && (held.AreHealthy(topology_, request.pool) ||
                                          Mutated(Mutation::kResizeHealthIgnored));
    } else {
      AllocationPlan plan = PlanAllocation(topology_, devices_, request, hint.affinity);
      possible = plan.possible;
      if (possible && request.count > 0) plans.push_back(std::move(plan));
    }
    if (!possible) {
      refused = topology_.pools()[static_cast<std::size_t>(request.pool)].resource;
    }
  }
  return refused;
}

bool Admission::RefuseDevices(std::size_t index, const Plans& plans, const std::string& resource) {
  const Refusal refusal = {RefusalReason::kUnexpectedAdmissionError, resource};
  ContainerAllocation allocation;
  allocation.cpus = held_[index].cpus;
  late_refusal_ = &refusal;
  bool go_on = true;
  // More parts than anybody collects: `visit` ends it long before.
  const std::size_t some = std::min(plans.size(), kMostPlansInParts);
  for (std::size_t before = 0; go_on && before < std::size_t{1} << some; ++before) {
    Plans given;
    for (std::size_t i = 0; i < some; ++i) {
      if ((before >> i & 1U) != 0) given.push_back(plans[i]);
    }
    go_on = Choose(index, given, 0, allocation);
  }
  late_refusal_ = nullptr;
  return go_on;
}

void Admission::PassOnDevices(std::size_t index) {
  for (const ClassCount& item : held_[index].devices.listed) {
    const auto at = static_cast<std::size_t>(item.class_index);
    // A container takes what is left before anything else: its devices include all of that, or
    // are part of it.
    std::int32_t& left = passed_on_[at];
    left = LeavesDevices(index) ? std::max(left, item.count) : std::max(0, left - item.count);
    devices_.reusable[at] = left;
  }
  if (Mutated(Mutation::kResizeForgetsLeftovers)) return;
  for (const ClassCount& item : running_->left_devices.listed) {
    std::int32_t& reusable = devices_.reusable[static_cast<std::size_t>(item.class_index)];
    reusable = std::max(reusable, item.count);
  }
}

bool Admission::AllocateAgain(std::size_t index, const Hint& hint) {
  ContainerAllocation allocation;
  allocation.affinity = hint.affinity;
  allocation.preferred = hint.preferred;
  if (AsksForDevicesAlone()) {
    allocation.cpus = held_[index].cpus;
    allocation.memory = held_[index].memory.blocks;
    return Choose(index, {}, 0, allocation);
  }
  Plans plans;
  if (const std::string refused = PlanDevicesAgain(index, hint, plans); !refused.empty()) {
    return RefuseDevices(index, plans, refused);
  }
  const Books books = books_;
  const DeviceState devices = devices_;
  const auto passed_on = passed_on_;
  PassOnDevices(index);
  Refusal refusal;
  if (topology_.HasBooks()) refusal = AllocateCpus(index, hint, allocation);
  if (topology_.HasBooks() && refusal.reason == RefusalReason::kNone) {
    refusal = AllocateMemory(index, hint, allocation);
  }
  // Devices come first: the container has new ones although CPUs or memory are refused.
  if (refusal.reason != RefusalReason::kNone) late_refusal_ = &refusal;
  const bool go_on = Choose(index, plans, 0, allocation);
  late_refusal_ = nullptr;
  books_ = books;
  devices_ = devices;
  passed_on_ = passed_on;
  return go_on;
}

ResizeResult Resize(const Topology& topology, const Usage& usage, const Demand& asked,
                    const RunningPod& running, int max_outcomes) {
  ResizeResult result;
  const auto visit = [&](const Outcome& outcome) {
    if (static_cast<int>(result.outcomes.size()) == max_outcomes) {
      result.truncated = true;
      return false;
    }
    result.outcomes.push_back(outcome);
    return true;
  };
  Admission admission(topology, usage, asked, visit, running);
  admission.Run();
  result.intractable = admission.intractable();
  result.endless = admission.endless();
  return result;
}

}  // namespace numafit::policy
