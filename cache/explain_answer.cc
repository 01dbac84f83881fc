// The sentence about one node: the first obstacle and its numbers.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cache/explain.h"
#include "cache/explain_compute.h"
#include "policy/needs.h"
#include "policy/pod_level.h"
#include "policy/unit_room.h"

namespace numafit::cache {
namespace {

using policy::DeviceRequest;
using policy::DeviceRequests;
using policy::NumaMask;
using policy::Reason;

constexpr std::size_t kMostPlaces = 3;

NumaMask MaskOf(const policy::Topology& topology, const policy::DeviceHolding& holding) {
  NumaMask mask;
  for (const policy::ClassCount& item : holding) {
    mask = mask | topology.classes()[static_cast<std::size_t>(item.class_index)].numa;
  }
  return mask;
}

int FreeOn(const policy::Topology& topology, const policy::Usage& usage, int pool, NumaMask mask) {
  const policy::Topology::Pool& own = topology.pools()[static_cast<std::size_t>(pool)];
  int free = 0;
  for (int i = own.first_class; i < own.first_class + own.class_count; ++i) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(i)];
    if (!device_class.healthy) continue;
    if (!mask.empty() && !device_class.numa.empty() && !device_class.numa.intersects(mask))
      continue;
    free += std::max(0, device_class.count - usage.taken(i));
  }
  return free;
}

// NUMA nodes where nothing that the Pod asks for is in use.
NumaMask WholeNodes(const policy::Topology& topology, const policy::Usage& usage,
                    const policy::Demand& demand) {
  NumaMask whole;
  topology.numa().ForEach([&](int numa) {
    bool any = false;
    bool free = true;
    for (const policy::ContainerDemand& container : demand.containers) {
      for (const auto& [resource, count] : container.devices) {
        const int pool = topology.FindPool(resource);
        if (pool < 0) continue;
        const policy::Topology::Pool& own = topology.pools()[static_cast<std::size_t>(pool)];
        for (int i = own.first_class; i < own.first_class + own.class_count; ++i) {
          if (!topology.classes()[static_cast<std::size_t>(i)].numa.contains(numa)) continue;
          any = true;
          free &= usage.taken(i) == 0;
        }
      }
    }
    if (any && free) whole.add(numa);
  });
  return whole;
}

std::string WhereItLands(const NodeState& state, const policy::Demand& demand) {
  const policy::Topology& topology = *state.topology;
  std::set<std::uint64_t> places;
  for (const policy::Usage& usage : state.knowledge.usages) {
    const policy::AdmitResult result = policy::Admit(topology, usage, demand);
    if (result.truncated) return {};
    for (const policy::Outcome& outcome : result.outcomes) {
      if (outcome.admitted) places.insert(MaskOf(topology, outcome.held.devices).bits());
    }
    if (places.size() > kMostPlaces) return {};
  }
  std::string text;
  for (const std::uint64_t bits : places) {
    if (bits == 0) return {};
    text +=
        fmt::format("{}NUMA {}", text.empty() ? "" : " or ", NumaList(NumaMask::FromBits(bits)));
  }
  if (places.size() == 1 && state.knowledge.usages.size() == 1) {
    const NumaMask taken = NumaMask::FromBits(*places.begin());
    const NumaMask whole = WholeNodes(topology, state.knowledge.usages.front(), demand);
    const NumaMask left = NumaMask::FromBits(whole.bits() & ~taken.bits());
    if (!left.empty()) text += fmt::format(", leaves NUMA {} whole", NumaList(left));
  }
  return text;
}

std::string FitAnswer(const NodeState& state, const policy::Demand& demand,
                      const policy::Judgement& judgement) {
  const policy::TopologyPolicy policy = state.topology->kubelet().policy;
  switch (judgement.alignment) {
    case policy::Alignment::kImpossible:
      return "the kubelet admits it, but its devices cannot land together";
    case policy::Alignment::kPossible:
      if (policy == policy::TopologyPolicy::kNone) {
        return "possible, not guaranteed: this kubelet aligns nothing";
      }
      if (policy == policy::TopologyPolicy::kBestEffort) {
        return "possible, not guaranteed: this kubelet prefers alignment and does not insist";
      }
      return "possible, not guaranteed";
    case policy::Alignment::kGuaranteed:
    case policy::Alignment::kNotNeeded:
      break;
  }
  const std::string where = WhereItLands(state, demand);
  return where.empty() ? "fits" : fmt::format("fits on {}", where);
}

// The state in which the kubelet refuses, with what the containers before the refused one take.
policy::Usage RefusingUsage(const NodeState& state, const policy::Demand& demand) {
  for (const policy::Usage& usage : state.knowledge.usages) {
    const policy::AdmitResult result = policy::Admit(*state.topology, usage, demand);
    for (const policy::Outcome& outcome : result.outcomes) {
      if (!outcome.admitted) return policy::UsageAtRefusal(*state.topology, usage, outcome);
    }
  }
  return state.knowledge.usages.front();
}

// Accelerators first, as people name them.
void AcceleratorsFirst(const policy::Topology& topology, const policy::Demand& demand,
                       DeviceRequests& requests) {
  std::stable_partition(requests.begin(), requests.end(), [&](const DeviceRequest& request) {
    const std::string& resource = topology.pools()[static_cast<std::size_t>(request.pool)].resource;
    return std::find(demand.accelerators.begin(), demand.accelerators.end(), resource) !=
           demand.accelerators.end();
  });
}

const std::string& ResourceOf(const policy::Topology& topology, const DeviceRequest& request) {
  return topology.pools()[static_cast<std::size_t>(request.pool)].resource;
}

// "4 nvidia.com/gpu + 4 device.gpustack.ai/rdma"
std::string Wanted(const policy::Topology& topology, const DeviceRequests& requests) {
  std::string text;
  for (const DeviceRequest& request : requests) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", request.count,
                        ResourceOf(topology, request));
  }
  return text;
}

// "4 + 3": what is free of each on the NUMA node that comes nearest.
std::string Nearest(const policy::Topology& topology, const policy::Usage& usage,
                    const DeviceRequests& requests) {
  std::string best;
  std::int64_t best_fit = -1;
  int best_numa = 0;
  topology.numa().ForEach([&](int numa) {
    std::string text;
    std::int64_t fit = 0;
    for (const DeviceRequest& request : requests) {
      const int free = FreeOn(topology, usage, request.pool, NumaMask::Of(numa));
      fit += std::min<std::int64_t>(free, request.count);
      text += fmt::format("{}{}", text.empty() ? "" : " + ", free);
    }
    if (fit > best_fit) {
      best_fit = fit;
      best = text;
      best_numa = numa;
    }
  });
  return fmt::format("{} on NUMA {}", best, best_numa);
}

// An obstacle in the counts of one resource, or empty.
std::string CountObstacle(const policy::Topology& topology, const policy::Usage& usage,
                          const DeviceRequests& requests, std::size_t width) {
  for (const DeviceRequest& request : requests) {
    const std::string& resource = ResourceOf(topology, request);
    const int all = FreeOn(topology, policy::Usage(topology), request.pool, {});
    if (all < request.count) {
      return fmt::format("this node has {} {} in all, {} are wanted", all, resource, request.count);
    }
    const int free = FreeOn(topology, usage, request.pool, {});
    if (free < request.count) {
      return fmt::format("{} of {} {} are free, {} are wanted", free, all, resource, request.count);
    }
  }
  if (width != 1) return {};
  for (const DeviceRequest& request : requests) {
    int most = 0;
    topology.numa().ForEach([&](int numa) {
      most = std::max(most, FreeOn(topology, usage, request.pool, NumaMask::Of(numa)));
    });
    if (most < request.count) {
      return fmt::format("{} {} are free, {} at most on one NUMA node",
                         FreeOn(topology, usage, request.pool, {}), ResourceOf(topology, request),
                         most);
    }
  }
  return {};
}

// A Pod with resources of its own whose containers leave nothing to those of them that share.
std::string SharedPoolText(const policy::Topology& topology, const policy::Demand& demand,
                           const policy::Judgement& judgement) {
  if (!policy::IsAllocatedAsAWhole(topology, demand)) return {};
  const policy::RequestsOfContainers containers = policy::ContainerRequestsOf(topology, demand);
  const policy::Requests pod = policy::PodRequestsOf(topology, demand, containers);
  const bool cpus = judgement.refused_resource == "cpu" && pod.cpus > 0 &&
                    policy::LeavesNoCpusToShare(pod.cpus, demand, containers);
  const bool memory = judgement.refused_resource == "memory" && pod.asks_memory &&
                      policy::LeavesNoMemoryToShare(pod.memory, demand, containers);
  if (!cpus && !memory) return {};
  return fmt::format(
      "the Pod's containers that are Guaranteed by themselves take all {} that the Pod asks for, "
      "and leave nothing to those that share it: the Pod has to ask for more, or no container may "
      "share",
      cpus ? "CPUs" : "memory");
}

std::string Refusal(const NodeState& state, const policy::Demand& demand,
                    const policy::Judgement& judgement) {
  const policy::Topology& topology = *state.topology;
  if (judgement.kubelet_reason == policy::RefusalReason::kNone &&
      !judgement.refused_resource.empty()) {
    return fmt::format("no: this node has no {}", judgement.refused_resource);
  }
  const auto container = static_cast<std::size_t>(std::max(0, judgement.refused_container));
  DeviceRequests requests = policy::UnitRequests(topology, demand, container);
  policy::Usage usage = RefusingUsage(state, demand);
  if (judgement.refused_container < 0) {
    // Not the kubelet but the alignment need: that of the first unit with one.
    const std::vector<policy::AlignmentUnit> units = policy::AlignmentUnits(topology, demand);
    if (!units.empty()) requests = units.front().requests;
    usage = state.knowledge.usages.front();
  }
  const int width = requests.empty() ? 0 : policy::FewestNumaNodes(topology, requests);
  AcceleratorsFirst(topology, demand, requests);
  const std::string who = demand.containers.size() > 1 && judgement.refused_container > 0
                              ? fmt::format(" for container {}", demand.containers[container].name)
                              : "";
  const bool never = judgement.reason == Reason::kNeverFits;
  const policy::Requests all = policy::AllUnitRequests(topology, demand, container);
  if (judgement.refused_container >= 0) {
    std::string compute = SharedPoolText(topology, demand, judgement);
    if (compute.empty()) {
      compute = ComputeObstacle(topology, never ? policy::Usage(topology) : usage, all, judgement);
    }
    if (!compute.empty()) {
      return fmt::format("no{}: {}{} ({})", never ? ", never here" : "", compute, who,
                         policy::RefusalReasonName(judgement.kubelet_reason));
    }
  }
  if (never) {
    const std::string counts =
        CountObstacle(topology, policy::Usage(topology), requests, static_cast<std::size_t>(width));
    return fmt::format("no, never here: {}{}",
                       !counts.empty()
                           ? counts
                           : fmt::format("no NUMA node has {}, even when empty; the "
                                         "nearest is {}",
                                         Wanted(topology, requests),
                                         Nearest(topology, policy::Usage(topology), requests)),
                       who);
  }
  const std::string counts =
      CountObstacle(topology, usage, requests, static_cast<std::size_t>(width));
  if (!counts.empty()) return fmt::format("no: {}{}", counts, who);
  if (judgement.reason == Reason::kNumaFragmented) {
    if (width == 1) {
      return fmt::format("no: {} are free, but not on one NUMA node; the nearest is {}{}",
                         Wanted(topology, requests), Nearest(topology, usage, requests), who);
    }
    return fmt::format("no: {} are free, but not on {} NUMA nodes{}", Wanted(topology, requests),
                       width, who);
  }
  const std::string widths = WidthsText(topology, all);
  return fmt::format(
      "no: the kubelet would refuse it{} ({}){}", who,
      policy::RefusalReasonName(judgement.kubelet_reason),
      widths.empty()
          ? std::string()
          : fmt::format(": {} wants one set of NUMA nodes that is the smallest for each, and {}",
                        policy::TopologyPolicyName(topology.kubelet().policy), widths));
}

}  // namespace

std::string AnswerOf(const NodeState& state, const policy::Demand& demand,
                     const policy::Judgement& judgement) {
  switch (judgement.reason) {
    case Reason::kFits:
      return FitAnswer(state, demand, judgement);
    case Reason::kSettling:
      if (state.pending.empty()) return "wait: it is not known where earlier Pods have landed";
      return fmt::format("wait: {} earlier Pod{} not shown yet where {} landed",
                         state.pending.size(), state.pending.size() == 1 ? " has" : "s have",
                         state.pending.size() == 1 ? "it" : "they");
    case Reason::kNotGuaranteed:
      return "no: alignment is possible here, but not guaranteed as the Pod asks";
    case Reason::kEndpointsNotDistinct:
      return "no: there are not enough distinct endpoints";
    case Reason::kNumaFragmented:
    case Reason::kNeverFits:
    case Reason::kKubeletRefuses:
      return Refusal(state, demand, judgement);
    case Reason::kUnsupported:
      if (judgement.admission.endless) {
        return "not known: the kubelet would search for CPUs for ever (a fault of "
               "distribute-cpus-across-numa), and admit no other Pod on this node until it is "
               "started again";
      }
      if (judgement.admission.intractable) {
        return "not known: with so many NUMA nodes the kubelet itself would search for minutes or "
               "hours before it admits or refuses this Pod";
      }
      if (policy::GetsDevicesOnlyWhenItStarts(*state.topology, demand)) {
        return "not known: with the feature gate PodLevelResourceManagers, in pod scope, this "
               "kubelet gives a Pod with resources of its own no devices before its containers "
               "start; without spec.resources of the Pod, or in container scope, it could be said";
      }
      [[fallthrough]];
    default: {
      std::string_view text = policy::ReasonText(judgement.reason);
      constexpr std::string_view kUs = "numafit: ";
      if (text.starts_with(kUs)) text.remove_prefix(kUs.size());
      return fmt::format("no: {}", text);
    }
  }
}

}  // namespace numafit::cache
