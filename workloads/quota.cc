#include "workloads/quota.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "cache/judge.h"
#include "policy/admit.h"
#include "policy/usage.h"
#include "workloads/device_totals.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {
namespace {

// Filter calls are let in between so many nodes.
constexpr std::size_t kChunk = 512;
// Ways in which a kubelet may pick that are looked at for one that lies together.
constexpr int kMaxOutcomes = 1024;

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

std::int64_t HealthyDevices(const policy::Topology& topology, const policy::Topology::Pool& pool) {
  std::int64_t devices = 0;
  for (int i = pool.first_class; i < pool.first_class + pool.class_count; ++i) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(i)];
    if (device_class.healthy) devices += device_class.count;
  }
  return devices;
}

// How many NUMA nodes the devices of its containers are on, each container by itself.
int WidthOf(const policy::Topology& topology, const policy::Outcome& outcome) {
  int width = 0;
  for (const policy::ContainerAllocation& container : outcome.containers) {
    policy::NumaMask numa;
    for (const policy::ClassCount& item : container.devices) {
      numa = numa | topology.classes()[static_cast<std::size_t>(item.class_index)].hardware;
    }
    width += numa.count();
  }
  return width;
}

// The kubelet admits the Pod, with devices that lie together. False: it does not.
bool AdmitTogether(const policy::Topology& topology, const policy::Demand& demand,
                   policy::Usage* usage) {
  std::optional<policy::Outcome> best;
  int best_width = 0;
  int seen = 0;
  policy::ForEachOutcome(topology, *usage, demand, [&](const policy::Outcome& outcome) {
    if (outcome.admitted) {
      const int width = WidthOf(topology, outcome);
      if (!best.has_value() || width < best_width) {
        best = outcome;
        best_width = width;
      }
    }
    const bool no_better = best.has_value() && best_width <= 1;
    return ++seen < kMaxOutcomes && !no_better;
  });
  if (!best.has_value()) return false;
  policy::Apply(topology, *best, *usage);
  return true;
}

bool AsksForMore(const QuotaAdvice::Shape& a, const QuotaAdvice::Shape& b,
                 const std::string& resource) {
  const std::int64_t devices_a = a.pods * a.per_pod.at(resource);
  const std::int64_t devices_b = b.pods * b.per_pod.at(resource);
  return std::tie(devices_b, a.placeable, a.workload) <
         std::tie(devices_a, b.placeable, b.workload);
}

}  // namespace

struct QuotaAdvisor::Use {
  std::shared_ptr<const policy::Demand> demand;
  std::string fingerprint;
  std::map<std::string, std::int64_t> per_pod;
  std::int64_t pods = 0;
  std::string workload;  // the first by name
  bool ended = true;     // all of them have
};

QuotaAdvisor::QuotaAdvisor(api::ResourceClasses classes)
    : QuotaAdvisor(std::move(classes), Limits()) {}

QuotaAdvisor::QuotaAdvisor(api::ResourceClasses classes, Limits limits)
    : classes_(std::move(classes)), limits_(limits) {}

std::size_t QuotaAdvisor::kept() const {
  std::size_t count = 0;
  for (const auto& [machine, by_shape] : known_) count += by_shape.size();
  return count;
}

QuotaAdvisor::Uses QuotaAdvisor::Sort(const std::vector<QuotaUse>& uses) const {
  Uses sorted;
  for (const QuotaUse& use : uses) {
    if (use.demand == nullptr || use.pods <= 0) continue;
    const std::string fingerprint = use.demand->Fingerprint();
    const std::map<std::string, std::int64_t> per_pod = DeviceTotals(*use.demand);
    for (const auto& [resource, flavor] : use.flavors) {
      if (!per_pod.contains(resource) || !Contains(use.demand->accelerators, resource)) continue;
      std::vector<Use>& shapes = sorted[use.cluster_queue][{flavor, resource}];
      auto shape = std::find_if(shapes.begin(), shapes.end(), [&](const Use& each) {
        return each.fingerprint == fingerprint && each.ended == use.ended;
      });
      if (shape == shapes.end()) {
        shapes.push_back(Use{.demand = use.demand,
                             .fingerprint = fingerprint,
                             .per_pod = per_pod,
                             .pods = 0,
                             .workload = use.workload,
                             .ended = use.ended});
        shape = std::prev(shapes.end());
      }
      shape->pods += use.pods;
      shape->workload = std::min(shape->workload, use.workload);
    }
  }
  return sorted;
}

// By flavor that some queue has a quota of accelerators in.
std::map<std::string, QuotaAdvisor::Machines> QuotaAdvisor::MachinesOf(const Inputs& inputs) const {
  std::map<std::string, Machines> machines;
  for (const auto& [name, queue] : inputs.queues) {
    for (const api::ClusterQueue::Quota& quota : queue.quotas) {
      const bool counts = classes_.Classify(quota.resource) == api::ResourceKind::kAccelerator;
      if (counts && inputs.flavors.contains(quota.flavor)) machines.try_emplace(quota.flavor);
    }
  }
  if (machines.empty()) return machines;
  std::vector<std::pair<const api::StringMap*, Machines*>> flavors;
  for (auto& [name, of_flavor] : machines) {
    flavors.emplace_back(&inputs.flavors.at(name).node_labels, &of_flavor);
  }
  const std::size_t nodes = inputs.fleet.size();
  std::vector<std::pair<std::string, Machine>> chunk;
  for (std::size_t begin = 0; begin < nodes; begin += kChunk) {
    chunk.clear();
    {
      const cache::Fleet::ReadGuard guard(inputs.fleet);
      for (std::size_t i = begin; i < std::min(nodes, begin + kChunk); ++i) {
        const int index = static_cast<int>(i);
        const cache::NodeState& state = *inputs.fleet.State(guard, index);
        if (!state.HasInventory()) continue;
        chunk.emplace_back(inputs.fleet.NodeName(guard, index),
                           Machine{state.topology, state.counts_only});
      }
    }
    for (const auto& [name, machine] : chunk) {
      for (const auto& [labels, of_flavor] : flavors) {
        if (inputs.nodes.Allows(name, *labels)) ++(*of_flavor)[machine];
      }
    }
  }
  return machines;
}

std::optional<int> QuotaAdvisor::PodsOn(const Machine& machine, const Use& use) {
  absl::flat_hash_map<std::string, Known>& by_shape = known_[machine];
  if (const auto found = by_shape.find(use.fingerprint); found != by_shape.end()) {
    found->second.round = round_;
    return found->second.pods;
  }
  if (tries_left_ <= 0) return std::nullopt;
  const policy::Topology& topology = *machine.topology;
  cache::NodeState state;
  state.topology = machine.topology;
  state.counts_only = machine.counts_only;
  state.knowledge.usages.emplace_back(topology);
  int pods = 0;
  while (pods < limits_.max_pods_per_machine) {
    --tries_left_;
    if (!cache::JudgeOnNode(state, *use.demand, nullptr).fits()) break;
    if (!AdmitTogether(topology, *use.demand, &state.knowledge.usages.front())) break;
    ++pods;
  }
  by_shape[use.fingerprint] = {.pods = pods, .round = round_};
  return pods;
}

bool QuotaAdvisor::AddShapes(const std::vector<Use>& uses, const Machines& machines,
                             QuotaAdvice* advice) {
  const std::string& resource = advice->resource;
  const bool all_ended =
      std::all_of(uses.begin(), uses.end(), [](const Use& use) { return use.ended; });
  std::vector<const Use*> shapes;
  for (const Use& use : uses) {
    if (use.ended == all_ended) shapes.push_back(&use);
  }
  std::sort(shapes.begin(), shapes.end(), [&](const Use* a, const Use* b) {
    const std::int64_t devices_a = a->pods * a->per_pod.at(resource);
    const std::int64_t devices_b = b->pods * b->per_pod.at(resource);
    return std::tie(devices_b, a->fingerprint) < std::tie(devices_a, b->fingerprint);
  });
  if (shapes.size() > limits_.max_shapes) shapes.resize(limits_.max_shapes);
  for (const Use* use : shapes) {
    QuotaAdvice::Shape& shape = advice->shapes.emplace_back();
    shape.per_pod = use->per_pod;
    shape.pods = use->pods;
    shape.workload = use->workload;
    for (const auto& [machine, count] : machines) {
      if (machine.topology->FindPool(resource) < 0) continue;
      const std::optional<int> pods = PodsOn(machine, *use);
      if (!pods.has_value()) return false;
      shape.placeable += count * *pods * use->per_pod.at(resource);
    }
  }
  std::sort(advice->shapes.begin(), advice->shapes.end(),
            [&](const auto& a, const auto& b) { return AsksForMore(a, b, resource); });
  if (!advice->shapes.empty()) advice->placeable = advice->shapes.front().placeable;
  return true;
}

std::optional<std::vector<QuotaAdvice>> QuotaAdvisor::Advise(const Inputs& inputs) {
  tries_left_ = limits_.max_tries;
  const Uses uses = Sort(inputs.uses);
  const std::map<std::string, Machines> by_flavor = MachinesOf(inputs);
  static const std::vector<Use> kNone;
  const auto uses_of = [&](const QuotaAdvice& advice) -> const std::vector<Use>& {
    const auto queue = uses.find(advice.cluster_queue);
    if (queue == uses.end()) return kNone;
    const auto found = queue->second.find({advice.flavor, advice.resource});
    return found == queue->second.end() ? kNone : found->second;
  };
  std::vector<QuotaAdvice> all;
  for (const auto& [name, queue] : inputs.queues) {
    for (const api::ClusterQueue::Quota& quota : queue.quotas) {
      const auto machines = by_flavor.find(quota.flavor);
      const bool counts = classes_.Classify(quota.resource) == api::ResourceKind::kAccelerator;
      if (!counts || machines == by_flavor.end()) continue;
      QuotaAdvice& advice = all.emplace_back();
      advice.cluster_queue = name;
      advice.flavor = quota.flavor;
      advice.resource = quota.resource;
      // Rounded down: nobody gets a part of a device.
      advice.quota = quota.nominal.milli() / 1000;
      for (const auto& [machine, count] : machines->second) {
        const int pool = machine.topology->FindPool(quota.resource);
        if (pool < 0) continue;
        advice.nodes += count;
        advice.devices +=
            count * HealthyDevices(*machine.topology,
                                   machine.topology->pools()[static_cast<std::size_t>(pool)]);
      }
      advice.placeable = advice.devices;
      if (!AddShapes(uses_of(advice), machines->second, &advice)) return std::nullopt;
    }
  }
  for (auto& [machine, by_shape] : known_) {
    absl::erase_if(by_shape, [&](const auto& entry) { return entry.second.round != round_; });
  }
  absl::erase_if(known_, [](const auto& entry) { return entry.second.empty(); });
  ++round_;
  return all;
}

std::vector<QuotaUse> WorkloadIndex::QuotaUses() const {
  std::vector<QuotaUse> uses;
  // Which of them are of one queue and ask for the same: Jobs come in thousands.
  using Kind = std::tuple<std::string_view, const policy::Demand*, bool>;
  absl::flat_hash_map<Kind, std::vector<std::size_t>> alike;
  for (const auto& [uid, entry] : workloads_) {
    const api::Workload& workload = entry->workload;
    // What runs in another cluster holds no device here.
    if (workload.cluster_queue.empty() || !workload.cluster_name.empty()) continue;
    const bool ended = entry->phase == Phase::kFinished;
    for (std::size_t i = 0; i < entry->kinds.size(); ++i) {
      const PodsToPlace& kind = entry->kinds[i];
      const api::PodSetAssignment* const assignment = AssignmentOf(workload, kind.pod_set);
      if (kind.demand == nullptr || kind.demand->accelerators.empty() || assignment == nullptr) {
        continue;
      }
      const std::int64_t pods = assignment->count.value_or(workload.pod_sets[i].count);
      std::vector<std::size_t>& indices = alike[{workload.cluster_queue, kind.demand.get(), ended}];
      const auto same = std::find_if(indices.begin(), indices.end(), [&](std::size_t index) {
        return uses[index].flavors == assignment->flavors;
      });
      if (same != indices.end()) {
        QuotaUse& use = uses[*same];
        use.pods += pods;
        use.workload = std::min(use.workload, workload.FullName());
        continue;
      }
      indices.push_back(uses.size());
      uses.push_back({.workload = workload.FullName(),
                      .cluster_queue = workload.cluster_queue,
                      .flavors = assignment->flavors,
                      .demand = kind.demand,
                      .pods = pods,
                      .ended = ended});
    }
  }
  return uses;
}

}  // namespace numafit::workloads
