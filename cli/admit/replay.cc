#include "cli/admit/replay.h"

#include <algorithm>
#include <utility>

#include "cli/admit/pod_demand.h"
#include "nlohmann/json.hpp"
#include "policy/memory_manager/memory_manager.h"
#include "policy/memory_manager/release_orders.h"

namespace numafit::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxOutcomesOfAWorld = 512;
// Of one admission in all worlds together.
constexpr std::size_t kMaxOutcomes = 4096;

}  // namespace

Replay::Replay(const Case& replayed)
    : case_(replayed), kinds_(replayed), devices_(replayed.devices), prefer_(replayed.prefer) {
  for (const CaseStep& step : case_.steps) {
    if (step.kind == CaseStep::Kind::kResize) resized_.insert(step.pod.name);
  }
}

absl::Status Replay::Start() {
  if (absl::Status status = Rebuild(); !status.ok()) return status;
  World start;
  start.compute = topology_->initial_compute();
  worlds_ = {std::move(start)};
  return absl::OkStatus();
}

absl::Status Replay::Rebuild() {
  policy::TopologySpec spec = case_.machine;
  spec.preferred_allocation = prefer_;
  for (const auto& [resource, devices] : devices_) {
    std::vector<policy::DeviceSpec>& out = spec.devices[resource];
    for (const CaseDevice& device : devices) {
      policy::DeviceSpec& added = out.emplace_back();
      added.id = device.id;
      added.numa = device.numa;
      added.healthy = device.healthy;
      added.cohort = kinds_.Cohort(resource, device.id);
    }
  }
  auto topology = policy::Topology::Create(std::move(spec));
  if (!topology.ok()) return topology.status();
  topology_ = *std::move(topology);
  kind_of_class_.assign(topology_->classes().size(), -1);
  numa_set_of_class_.assign(topology_->classes().size(), "");
  class_of_kind_.clear();
  for (const auto& [resource, devices] : devices_) {
    const int pool = topology_->FindPool(resource);
    for (const CaseDevice& device : devices) {
      const int class_index = topology_->FindDevice(pool, device.id).class_index;
      const int kind = kinds_.Find(resource, device.id);
      kind_of_class_[static_cast<std::size_t>(class_index)] = kind;
      class_of_kind_[kind] = class_index;
      numa_set_of_class_[static_cast<std::size_t>(class_index)] = NumaSetName(device);
    }
  }
  return absl::OkStatus();
}

policy::Usage Replay::UsageOf(const World& world) const {
  policy::Usage usage(*topology_);
  for (const auto& [name, pod] : world.pods) {
    for (const policy::ClassCount& item : pod.holding.devices) {
      // A device that is held but no longer listed is out of the kubelet's sight.
      const auto at = class_of_kind_.find(item.class_index);
      if (at != class_of_kind_.end()) usage.Add({{at->second, item.count}});
    }
  }
  usage.compute() = world.compute;
  return usage;
}

Replay::Kinds Replay::KindsOf(const policy::DeviceHolding& holding) const {
  Kinds kinds;
  for (const policy::ClassCount& item : holding) {
    AddCount(kinds, kind_of_class_[static_cast<std::size_t>(item.class_index)], item.count);
  }
  return kinds;
}

absl::Status Replay::Play(const CaseStep& step, Json& answer) {
  answer = Json::object();
  switch (step.kind) {
    case CaseStep::Kind::kAdmit:
      known_pods_[step.pod.name] = {++admissions_, &step.pod};
      return Admit(step, answer);
    case CaseStep::Kind::kRestart:
      return Restart(step, answer);
    case CaseStep::Kind::kResize:
      return Resize(step, answer);
    case CaseStep::Kind::kRemove:
      Remove(step.name);
      return absl::OkStatus();
    case CaseStep::Kind::kStart:
      return Start(step, answer);
    case CaseStep::Kind::kDevices:
      for (const auto& [resource, devices] : step.devices) devices_[resource] = devices;
      return Rebuild();
    case CaseStep::Kind::kDisconnect:
      for (CaseDevice& device : devices_[step.name]) device.healthy = false;
      return Rebuild();
    case CaseStep::Kind::kPrefer:
      for (const auto& [resource, order] : step.prefer) prefer_[resource] = order;
      return Rebuild();
  }
  return absl::OkStatus();
}

void Replay::Remove(const std::string& pod) {
  std::set<World> left;
  for (World world : worlds_) {
    RemovePod(world, pod);
    left.insert(std::move(world));
  }
  worlds_ = std::move(left);
  lost_pods_.erase(pod);
}

void Replay::Lose(const std::string& pod) {
  lost_pods_.insert(pod);
  lost_ = true;
}

// Devices and CPUs are known again once every Pod is that has any; the memory manager's book
// depends on what happened, and is known when nobody has any.
void Replay::Find() {
  if (!lost_pods_.empty()) return;
  const bool nobody = std::all_of(worlds_.begin(), worlds_.end(), [](const World& world) {
    return std::all_of(world.pods.begin(), world.pods.end(),
                       [](const auto& pod) { return pod.second.holding.empty(); });
  });
  if (topology_->memory_manager() != nullptr && !nobody) return;
  std::set<World> found;
  for (World world : worlds_) {
    world.leaving.clear();
    world.compute = topology_->initial_compute();
    world.compute.default_cpus -= world.stranded;
    for (const auto& [name, pod] : world.pods) world.compute.default_cpus -= pod.holding.cpus;
    found.insert(std::move(world));
  }
  worlds_ = std::move(found);
  lost_ = false;
}

absl::Status Replay::Start(const CaseStep& step, Json& answer) {
  std::set<World> after;
  for (World world : worlds_) {
    const auto pod = world.pods.find(step.name);
    if (pod != world.pods.end()) pod->second.started = true;
    if (pod != world.pods.end() && topology_->memory_manager() != nullptr) {
      policy::Holding& holding = pod->second.holding;
      for (std::size_t i = 0; i < holding.memory.size(); ++i) {
        // What belongs to the Pod as a whole stays with it.
        if (holding.pod_memory.empty()) {
          topology_->memory_manager()->StartContainer(world.compute.memory, holding.memory, i);
        } else {
          policy::ForgetEndedContainers(holding.memory, i);
        }
      }
    }
    after.insert(std::move(world));
  }
  worlds_ = std::move(after);
  if (!lost_) {
    std::vector<const World*> worlds;
    for (const World& world : worlds_) worlds.push_back(&world);
    WriteBooks(worlds, answer);
  }
  if (!step.observed) return absl::OkStatus();
  std::set<World> agreeing;
  for (const World& world : worlds_) {
    if (BooksAreObserved(*step.observed, world)) agreeing.insert(world);
  }
  if (agreeing.empty()) {
    for (World world : worlds_) {
      ImposeBooks(*step.observed, world);
      agreeing.insert(std::move(world));
    }
  }
  worlds_ = std::move(agreeing);
  return absl::OkStatus();
}

bool Replay::Verdicts::admits() const {
  return std::any_of(branches.begin(), branches.end(),
                     [](const Branch& branch) { return branch.admitted; });
}

bool Replay::Verdicts::refuses() const {
  return std::any_of(branches.begin(), branches.end(),
                     [](const Branch& branch) { return !branch.admitted; });
}

std::vector<World> Replay::Released(const World& world, bool& truncated) const {
  World base = world;
  base.leaving.clear();
  std::vector<std::vector<policy::ContainerMemory>> memory;
  for (const policy::Holding& holding : world.leaving) {
    base.compute.default_cpus |= holding.cpus;
    if (!holding.memory.empty()) memory.push_back(holding.MemoryToRelease());
  }
  if (memory.empty()) return {std::move(base)};
  const policy::ReleasedStates released =
      policy::AfterReleases(*topology_->memory_manager(), base.compute.memory, memory);
  truncated = truncated || released.truncated;
  std::vector<World> worlds;
  for (const policy::MemoryState& state : released.states) {
    World& next = worlds.emplace_back(base);
    next.compute.memory = state;
  }
  return worlds;
}

// A manager releases the Pods that are gone when it is asked for hints or for an allocation. With
// policy none nobody is asked for hints, and those after the one that refuses not at all.
void Replay::KeepUntidied(const World& before, const policy::Outcome& outcome, World& after) const {
  const bool refuses_at_once = outcome.refused_container == 0 &&
                               topology_->kubelet().policy == policy::TopologyPolicy::kNone;
  if (!refuses_at_once || outcome.refused_resource == "memory") return;
  after.compute.memory = before.compute.memory;
  after.leaving = before.leaving;
  if (outcome.refused_resource != "cpu") {
    after.compute.default_cpus = before.compute.default_cpus;
    return;
  }
  for (policy::Holding& holding : after.leaving) holding.cpus = {};
  std::erase_if(after.leaving, [](const policy::Holding& holding) { return holding.empty(); });
  std::sort(after.leaving.begin(), after.leaving.end());
}

Replay::Branch Replay::BranchOf(const World& world, const policy::Outcome& outcome) const {
  Branch branch;
  branch.admitted = outcome.admitted;
  branch.reason = outcome.reason;
  for (std::size_t i = 0; i < outcome.containers.size(); ++i) {
    Given& given = branch.given.emplace_back();
    given.allocation = outcome.containers[i];
    given.devices = KindsOf(outcome.containers[i].devices);
    if (i < outcome.held.memory.size()) given.memory = outcome.held.memory[i].blocks;
  }
  branch.after = world;
  if (topology_->HasBooks()) {
    branch.after.compute = outcome.compute;
    branch.after.stranded |= outcome.stranded;
    branch.as_a_whole = {outcome.held.container_cpus.empty() ? policy::CpuSet() : outcome.held.cpus,
                         outcome.held.pod_memory};
    if (!outcome.stranded.empty()) branch.as_a_whole.cpus = outcome.stranded;
  }
  return branch;
}

ActivePod Replay::PodAfter(const policy::Outcome& outcome) const {
  ActivePod pod;
  pod.holding = outcome.held;
  pod.holding.devices = KindsOf(outcome.held.devices);
  if (pod.holding.cpus.empty()) return pod;
  for (const policy::ContainerAllocation& container : outcome.containers) {
    pod.cpus.push_back(container.cpus);
  }
  return pod;
}

Replay::Branch Replay::BranchOf(const World& before, const World& world,
                                const policy::Outcome& outcome, const CaseStep& step,
                                const policy::Demand& demand) const {
  Branch branch = BranchOf(world, outcome);
  ActivePod pod = PodAfter(outcome);
  pod.asked = IndexOf(step);
  if (resized_.contains(step.pod.name)) {
    for (const Given& given : branch.given) pod.devices.push_back(given.devices);
  }
  NoteGiven(step.pod.name, demand, outcome, outcome.admitted, branch.after);
  if (outcome.admitted) {
    branch.after.pods[step.pod.name] = std::move(pod);
  } else {
    AddLeaving(branch.after, std::move(pod.holding));
    KeepUntidied(before, outcome, branch.after);
  }
  return branch;
}

void Replay::Collect(const World& before, const World& world, const policy::AdmitResult& result,
                     const CaseStep& step, const policy::Demand& demand, Verdicts& verdicts) const {
  verdicts.truncated = verdicts.truncated || result.truncated;
  if (result.truncated && !result.same_affinities) verdicts.same_affinities = false;
  verdicts.unknown = verdicts.unknown || result.verdict() == policy::Verdict::kUnknown;
  verdicts.intractable = verdicts.intractable || result.intractable;
  verdicts.endless = verdicts.endless || result.endless;
  for (const policy::Outcome& outcome : result.outcomes) {
    Branch& branch = verdicts.branches.emplace_back(BranchOf(before, world, outcome, step, demand));
    branch.observed = step.observed && IsObserved(step, branch);
  }
}

bool Replay::AsksAnybody(const CasePod& pod) const {
  return !pod.containers.empty() || (topology_->kubelet().policy != policy::TopologyPolicy::kNone &&
                                     topology_->kubelet().scope == policy::TopologyScope::kPod);
}

Replay::Verdicts Replay::Ask(const CaseStep& step) const {
  const policy::Demand demand = DemandOf(step.pod);
  Verdicts verdicts;
  for (const World& before : worlds_) {
    bool released_truncated = false;
    for (const World& world : AsksAnybody(step.pod) ? Released(before, released_truncated)
                                                    : std::vector<World>{before}) {
      ++verdicts.worlds;
      Collect(before, world,
              policy::Admit(*topology_, UsageOf(world), demand, kMaxOutcomesOfAWorld), step, demand,
              verdicts);
    }
    if (released_truncated || verdicts.branches.size() > kMaxOutcomes) {
      verdicts.truncated = true;
      verdicts.unknown = true;
      break;
    }
  }
  std::set<World> after;
  for (const Branch& branch : verdicts.branches) after.insert(branch.after);
  if (after.size() > kMaxWorlds) verdicts.truncated = true;
  return verdicts;
}

absl::Status Replay::Admit(const CaseStep& step, Json& answer) {
  answer["pod"] = step.pod.name;
  const bool was_lost = lost_;
  if (lost_ && AsksAnybody(step.pod)) Find();
  if (lost_) {
    answer["admitted"] = nullptr;
    answer["settling"] = true;
    if (step.observed) return GoOnFromObserved(step, {});
    Lose(step.pod.name);
    return absl::OkStatus();
  }
  const Verdicts verdicts = Ask(step);
  if (verdicts.intractable) {
    answer["admitted"] = nullptr;
    answer["unsupported"] = true;
    if (verdicts.endless) answer["endless"] = true;
  } else if (verdicts.unknown) {
    answer["admitted"] = nullptr;
    answer["settling"] = true;
  } else {
    Write(step.pod, verdicts, answer);
  }
  // Not every manager may have released what was not followed (KeepUntidied).
  if (was_lost && verdicts.refuses() &&
      topology_->kubelet().policy == policy::TopologyPolicy::kNone) {
    answer.erase("defaultCpus");
    answer.erase("memoryState");
    lost_ = true;
  }
  if (step.observed) return GoOnFromObserved(step, verdicts);
  if (verdicts.truncated) {
    Lose(step.pod.name);
    return absl::OkStatus();
  }
  std::set<World> after;
  for (const Branch& branch : verdicts.branches) after.insert(branch.after);
  worlds_ = std::move(after);
  return absl::OkStatus();
}

}  // namespace numafit::cli
