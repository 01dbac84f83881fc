#include "cache/explain_compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cache/free_devices.h"
#include "policy/needs.h"
#include "policy/numa_subsets.h"
#include "policy/unit_room.h"

namespace numafit::cache {
namespace {

using policy::Counted;
using policy::NumaMask;
using policy::RefusalReason;
using policy::Requests;
using policy::Topology;
using policy::Usage;
using MemoryFailure = policy::MemoryAllocation::Outcome;

std::string TypeText(const Topology& topology, int type) {
  if (type < 0) return "hugepages of that size";
  return topology.memory_manager()->types()[static_cast<std::size_t>(type)];
}

// The most that so many NUMA nodes have; of `of(mask)`.
template <typename Of>
std::int64_t MostOn(const Topology& topology, int width, Of&& of) {
  if (policy::SubsetsAreTooMany(topology.numa().count(), width)) return of(topology.numa());
  std::int64_t most = 0;
  policy::ForEachSubsetOfSize(topology.numa(), width, [&](NumaMask mask) {
    most = std::max(most, of(mask));
    return true;
  });
  return most;
}

std::string Nodes(int width) {
  return width == 1 ? "one NUMA node" : fmt::format("{} NUMA nodes", width);
}

// Why so much of something does not fit; `text` words an amount. Empty when counting does not say.
template <typename Of, typename Text>
std::string CountText(const Topology& topology, std::int64_t wanted, int width, const Of& of,
                      const Text& text, bool single) {
  const std::int64_t all = of(topology.numa(), Counted::kHealthy);
  if (wanted > all) {
    return fmt::format("this node has {} for Pods in all, {} are wanted", text(all), text(wanted));
  }
  const std::int64_t free = of(topology.numa(), Counted::kFree);
  if (wanted > free) {
    return fmt::format("{} of {} are free, {} are wanted", text(free), text(all), text(wanted));
  }
  if (single && width > 1) {
    return fmt::format("{} need {}, and this kubelet gives a container one", text(wanted),
                       Nodes(width));
  }
  const auto most_on = [&](Counted counted) {
    return MostOn(topology, width, [&](NumaMask mask) { return of(mask, counted); });
  };
  if (const std::int64_t most = most_on(Counted::kHealthy); most < wanted) {
    return fmt::format("{} are wanted, {} at most can be had on {} once what is reserved is off",
                       text(wanted), text(most), Nodes(width));
  }
  if (const std::int64_t most = most_on(Counted::kFree); most < wanted) {
    return fmt::format("{} are free, {} at most on {}", text(free), text(most), Nodes(width));
  }
  return {};
}

std::string CpuText(std::int64_t cpus) {
  return fmt::format("{} CPU{}", cpus, cpus == 1 ? "" : "s");
}

std::string CpuCountText(const Topology& topology, const Usage& usage, const Requests& requests) {
  const bool enforces = policy::Enforces(topology.kubelet().policy);
  const int width = enforces ? topology.cpu_manager()->topology().MinimalWidth(requests.cpus)
                             : topology.numa().count();
  return CountText(
      topology, requests.cpus, width,
      [&](NumaMask mask, Counted counted) {
        return policy::CpusOn(topology, mask, counted, usage);
      },
      CpuText, topology.kubelet().policy == policy::TopologyPolicy::kSingleNumaNode);
}

std::string SmtText(const Topology& topology, const Requests& requests) {
  const int threads = topology.cpu_manager()->topology().CpusPerCore();
  if (requests.cpus % threads != 0) {
    return fmt::format(
        "{} are not whole cores of {} threads each, and this kubelet gives out whole "
        "cores only (full-pcpus-only)",
        CpuText(requests.cpus), threads);
  }
  return fmt::format(
      "{} are wanted, and fewer are free on cores without a reserved CPU: this "
      "kubelet gives out whole cores only (full-pcpus-only)",
      CpuText(requests.cpus));
}

std::string CpuObstacle(const Topology& topology, const Usage& usage, const Requests& requests,
                        RefusalReason reason) {
  if (std::string counts = CpuCountText(topology, usage, requests); !counts.empty()) return counts;
  if (reason == RefusalReason::kUnexpectedAdmissionError) {
    return fmt::format(
        "{} are free where they are wanted, and the kubelet's way of picking CPUs "
        "fails on this machine: a fault of the kubelet",
        CpuText(requests.cpus));
  }
  return fmt::format(
      "{} are free, but not where the CPUs that this Pod's init containers have left "
      "must be used again",
      CpuText(requests.cpus));
}

// What counting does not say of a failed allocation.
std::string MemoryFailureText(MemoryFailure failure) {
  switch (failure) {
    case MemoryFailure::kGroupViolation:
      return "the memory is free, but on NUMA nodes that already serve others in another "
             "combination: one that serves a container with memory of several NUMA nodes serves no "
             "other set of them until it is empty again";
    case MemoryFailure::kDefaultHintNotPreferred:
    case MemoryFailure::kExtendedHintNotPreferred:
      return "the memory is free only on more NUMA nodes than it would take on an empty machine, "
             "and the kubelet has promised this Pod the fewest";
    default:
      return "the memory is free, but not on NUMA nodes that the kubelet's memory manager still "
             "gives out together: one that serves a container with memory of several NUMA nodes "
             "serves no other set of them until it is empty again";
  }
}

std::string MemoryObstacle(const Topology& topology, const Usage& usage, const Requests& requests,
                           const policy::Judgement& judgement) {
  const policy::MemoryRequests& memory = requests.memory;
  if (judgement.memory_failure == MemoryFailure::kGroupViolation) {
    return MemoryFailureText(judgement.memory_failure);
  }
  if (memory.unreadable) {
    return "the memory that is wanted is no whole number of bytes, which the kubelet cannot read";
  }
  const bool enforces = policy::Enforces(topology.kubelet().policy);
  const int width =
      enforces ? policy::FewestNumaNodesOfMemory(topology, memory) : topology.numa().count();
  for (const policy::MemoryRequests::Item& item : memory.items) {
    if (item.type < 0) return "no NUMA node of this node has hugepages of that size";
    std::string counts = CountText(
        topology, static_cast<std::int64_t>(item.bytes), width,
        [&](NumaMask mask, Counted counted) {
          return policy::MemoryOn(topology, mask, item.type, counted, usage);
        },
        [&](std::int64_t bytes) {
          return fmt::format("{} of {}", BytesText(bytes), TypeText(topology, item.type));
        },
        topology.kubelet().policy == policy::TopologyPolicy::kSingleNumaNode);
    if (!counts.empty()) return counts;
  }
  if (judgement.kubelet_reason == RefusalReason::kUnexpectedAdmissionError) {
    return MemoryFailureText(judgement.memory_failure);
  }
  return fmt::format("the memory is free, but not on {} that belong together", Nodes(width));
}

// What is free of everything on the NUMA node that comes nearest.
std::string NearestText(const Topology& topology, const Usage& usage, const Requests& requests) {
  std::string best;
  int best_met = -1;
  topology.numa().ForEach([&](int numa) {
    const NumaMask mask = NumaMask::Of(numa);
    std::string text;
    int met = 0;
    const auto add = [&](const std::string& part, bool is_met) {
      text += (text.empty() ? "" : " + ") + part;
      met += is_met ? 1 : 0;
    };
    for (const policy::DeviceRequest& request : requests.devices) {
      policy::DeviceRequest some = request;
      some.count = 0;
      while (some.count < request.count) {
        ++some.count;
        if (policy::HasRoom(topology, {some}, mask, Counted::kFree, usage)) continue;
        --some.count;
        break;
      }
      const std::string& name = topology.pools()[static_cast<std::size_t>(request.pool)].resource;
      add(fmt::format("{} {}", some.count, ShortName(name)), some.count == request.count);
    }
    if (requests.cpus > 0) {
      const std::int64_t free = policy::CpusOn(topology, mask, Counted::kFree, usage);
      add(CpuText(std::min(free, requests.cpus)), free >= requests.cpus);
    }
    if (requests.asks_memory) {
      for (const policy::MemoryRequests::Item& item : requests.memory.items) {
        const auto bytes = static_cast<std::int64_t>(item.bytes);
        const std::int64_t free =
            policy::MemoryOn(topology, mask, item.type, Counted::kFree, usage);
        add(fmt::format("{} of {}", BytesText(std::min(free, bytes)),
                        TypeText(topology, item.type)),
            free >= bytes);
      }
    }
    if (met > best_met) {
      best_met = met;
      best = fmt::format("{} on NUMA {}", text, numa);
    }
  });
  return best;
}

std::string TogetherObstacle(const Topology& topology, const Usage& usage,
                             const Requests& requests) {
  if (std::string widths = WidthsText(topology, requests); !widths.empty()) {
    return fmt::format(
        "the kubelet would refuse it, whatever is free: {} wants one set of NUMA "
        "nodes that is the smallest for each, and {}",
        policy::TopologyPolicyName(topology.kubelet().policy), widths);
  }
  const int width = policy::FewestNumaNodes(topology, requests);
  if (policy::SomeNodesHaveRoom(topology, requests, width, Counted::kFree, usage)) {
    return "devices, CPUs and memory are free together, but the kubelet does not see it so: what "
           "this Pod's init containers have left, or the groups of its memory manager, stand in "
           "the way";
  }
  return fmt::format(
      "devices, CPUs and memory are each free, but not together on {}; the nearest "
      "is {}",
      Nodes(width), NearestText(topology, usage, requests));
}

ComputeCount CountOf(const std::vector<std::int64_t>& free, std::int64_t all, int numa) {
  const auto [least, most] = std::minmax_element(free.begin(), free.end());
  return {.numa = numa, .at_least = *least, .at_most = *most, .all = all};
}

// Free and all on every NUMA node, over the states that the kubelet may be in.
template <typename Of>
ComputeFree FreeOf(const NodeState& state, std::string resource, Of&& of) {
  ComputeFree result;
  result.resource = std::move(resource);
  const auto count = [&](NumaMask mask, int numa) {
    std::vector<std::int64_t> free;
    for (const Usage& usage : state.knowledge.usages) {
      free.push_back(of(mask, Counted::kFree, usage));
    }
    return CountOf(free, of(mask, Counted::kHealthy, state.knowledge.usages.front()), numa);
  };
  const Topology& topology = *state.topology;
  topology.numa().ForEach(
      [&](int numa) { result.by_numa.push_back(count(NumaMask::Of(numa), numa)); });
  result.total = count(topology.numa(), -1);
  return result;
}

}  // namespace

std::string BytesText(std::int64_t bytes) {
  constexpr std::string_view kUnits[] = {"", "Ki", "Mi", "Gi"};
  std::size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  // Down, so that what is free is never said to be enough when it is not.
  const auto tenths = static_cast<std::int64_t>(amount * 10);
  if (tenths % 10 == 0) return fmt::format("{}{}", tenths / 10, kUnits[unit]);
  return fmt::format("{}.{}{}", tenths / 10, tenths % 10, kUnits[unit]);
}

std::vector<ComputeFree> FreeCompute(const NodeState& state, const policy::Demand& demand) {
  std::vector<ComputeFree> result;
  const Topology& topology = *state.topology;
  bool cpus = false;
  std::set<int> types;
  for (const Requests& requests : policy::ContainerRequestsOf(topology, demand)) {
    cpus |= requests.cpus > 0;
    if (!requests.asks_memory) continue;
    for (const policy::MemoryRequests::Item& item : requests.memory.items) {
      if (item.type >= 0) types.insert(item.type);
    }
  }
  if (cpus) {
    result.push_back(FreeOf(state, "cpu", [&](NumaMask mask, Counted counted, const Usage& usage) {
      return policy::CpusOn(topology, mask, counted, usage);
    }));
  }
  for (const int type : types) {
    result.push_back(FreeOf(state, TypeText(topology, type),
                            [&](NumaMask mask, Counted counted, const Usage& usage) {
                              return policy::MemoryOn(topology, mask, type, counted, usage);
                            }));
  }
  return result;
}

std::string ComputeObstacle(const Topology& topology, const Usage& usage, const Requests& requests,
                            const policy::Judgement& judgement) {
  const RefusalReason reason = judgement.kubelet_reason;
  if (reason == RefusalReason::kPanic) {
    return "the kubelet's process would die of this Pod, and again after every restart: its memory "
           "manager does not expect that a NUMA node lacks the hugepages that are asked for";
  }
  if (reason == RefusalReason::kSmtAlignmentError) return SmtText(topology, requests);
  if (judgement.refused_resource == "cpu" && requests.cpus > 0) {
    return CpuObstacle(topology, usage, requests, reason);
  }
  if (judgement.refused_resource == "memory" && requests.asks_memory) {
    return MemoryObstacle(topology, usage, requests, judgement);
  }
  const bool asks = requests.cpus > 0 || (requests.asks_memory && !requests.memory.items.empty());
  if (!asks || !judgement.refused_resource.empty()) return {};
  return TogetherObstacle(topology, usage, requests);
}

std::string WidthsText(const Topology& topology, const Requests& requests) {
  std::string text;
  std::set<int> widths;
  const auto add = [&](const std::string& what, int width) {
    widths.insert(width);
    text += fmt::format("{}{} need {}", text.empty() ? "" : ", ", what, width);
  };
  for (const policy::DeviceRequest& request : requests.devices) {
    const auto& pool = topology.pools()[static_cast<std::size_t>(request.pool)];
    if (!pool.aligned) continue;
    add(fmt::format("{} {}", request.count, ShortName(pool.resource)),
        topology.MinimalWidth(pool, request.count));
  }
  if (requests.cpus > 0) {
    add(CpuText(requests.cpus), topology.cpu_manager()->topology().MinimalWidth(requests.cpus));
  }
  if (requests.asks_memory && !requests.memory.items.empty()) {
    std::string what;
    for (const policy::MemoryRequests::Item& item : requests.memory.items) {
      what += fmt::format("{}{} of {}", what.empty() ? "" : " with ",
                          BytesText(static_cast<std::int64_t>(item.bytes)),
                          TypeText(topology, item.type));
    }
    add(what, policy::FewestNumaNodesOfMemory(topology, requests.memory));
  }
  return widths.size() < 2 ? std::string() : text;
}

}  // namespace numafit::cache
