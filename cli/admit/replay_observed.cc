// What a real kubelet was seen to do, and how a replay goes on from it.
#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "cli/admit/pod_demand.h"
#include "cli/admit/replay.h"
#include "policy/memory_manager/memory_manager.h"

namespace numafit::cli {
namespace {

policy::NumaMask MaskOf(const std::vector<int>& ids) {
  policy::NumaMask mask;
  for (const int id : ids) mask.add(id);
  return mask;
}

policy::MemoryBlocks BlocksOf(const policy::MemoryManager& manager,
                              const std::vector<CaseMemoryBlock>& written) {
  policy::MemoryBlocks blocks;
  for (const CaseMemoryBlock& block : written) {
    blocks.push_back(
        {.numa = MaskOf(block.numa), .type = manager.FindType(block.type), .size = block.size});
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

}  // namespace

bool Replay::HoldsObserved(const CaseHolding& observed, const Given& given) const {
  if (observed.cpus != given.allocation.cpus) return false;
  if (topology_->memory_manager() == nullptr) return observed.memory.empty();
  return BlocksOf(*topology_->memory_manager(), observed.memory) == given.memory;
}

bool Replay::GivesObserved(const CasePod& pod, const CaseObserved& observed,
                           const Branch& branch) const {
  if (branch.admitted != observed.admitted) return false;
  if (observed.as_a_whole.cpus != branch.as_a_whole.cpus) return false;
  if (topology_->memory_manager() != nullptr &&
      BlocksOf(*topology_->memory_manager(), observed.as_a_whole.memory) !=
          branch.as_a_whole.memory) {
    return false;
  }
  const std::map<std::string, CaseHolding>& containers =
      observed.admitted ? observed.containers : observed.left;
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    const auto container = containers.find(pod.containers[i].name);
    const CaseHolding holding = container != containers.end() ? container->second : CaseHolding{};
    const Given given = i < branch.given.size() ? branch.given[i] : Given{};
    if (!HoldsObserved(holding, given)) return false;
  }
  return true;
}

bool Replay::GivesObservedDevices(const CasePod& pod, const CaseObserved& observed,
                                  const Branch& branch) const {
  // A Pod that is refused has none; one that is not resized keeps them.
  if (!observed.admitted && observed.resize.empty()) return true;
  const auto& containers = observed.admitted ? observed.containers : observed.left;
  for (std::size_t i = 0; i < std::min(pod.containers.size(), branch.given.size()); ++i) {
    Kinds seen;
    if (const auto container = containers.find(pod.containers[i].name);
        container != containers.end()) {
      for (const auto& [resource, ids] : container->second.devices) {
        // PodResources lists a device once for each of its NUMA nodes.
        const std::set<std::string> distinct(ids.begin(), ids.end());
        for (const std::string& id : distinct) AddCount(seen, kinds_.Find(resource, id), 1);
      }
    }
    if (seen != branch.given[i].devices) return false;
  }
  return true;
}

bool Replay::IsObserved(const CaseStep& step, const Branch& branch) const {
  return GivesObserved(step.pod, *step.observed, branch) &&
         GivesObservedDevices(step.pod, *step.observed, branch) &&
         BooksAreObserved(*step.observed, branch.after);
}

bool Replay::BooksAreObserved(const CaseObserved& observed, const World& world) const {
  if (observed.default_cpus && topology_->cpu_manager() != nullptr &&
      *observed.default_cpus != world.compute.default_cpus) {
    return false;
  }
  if (!observed.memory_state || topology_->memory_manager() == nullptr) return true;
  World imposed = world;
  ImposeBooks(observed, imposed);
  return imposed.compute.memory == world.compute.memory;
}

void Replay::ImposeBooks(const CaseObserved& observed, World& world) const {
  if (observed.default_cpus && topology_->cpu_manager() != nullptr) {
    world.compute.default_cpus = *observed.default_cpus;
  }
  const policy::MemoryManager* manager = topology_->memory_manager();
  if (!observed.memory_state || manager == nullptr) return;
  policy::MemoryState& state = world.compute.memory;
  for (const CaseMemoryNode& node : *observed.memory_state) {
    const std::span<const int> ids = manager->numa_ids();
    const auto at = std::find(ids.begin(), ids.end(), node.numa);
    if (at == ids.end()) continue;
    const auto position = static_cast<std::size_t>(at - ids.begin());
    state.nodes[position].assignments = node.assignments;
    state.nodes[position].cells = MaskOf(node.cells);
    for (const auto& [name, free] : node.free) {
      const int type = manager->FindType(name);
      if (type < 0) continue;
      state.at(position, type) = {.free = free,
                                  .reserved = manager->allocatable(position, type) - free};
    }
  }
}

absl::Status Replay::CheckObserved(const CasePod& pod, const CaseObserved& observed) const {
  for (const auto* containers : {&observed.containers, &observed.left}) {
    for (const auto& [container, holding] : *containers) {
      const bool known = std::any_of(pod.containers.begin(), pod.containers.end(),
                                     [&](const CaseContainer& c) { return c.name == container; });
      if (!known) {
        return absl::InvalidArgumentError("observed: Pod \"" + pod.name + "\" has no container \"" +
                                          container + "\"");
      }
      for (const auto& [resource, list] : holding.devices) {
        for (const std::string& id : list) {
          if (kinds_.Find(resource, id) < 0) {
            return absl::InvalidArgumentError("observed: " + resource + " has no device \"" + id +
                                              "\"");
          }
        }
      }
      if (absl::Status status = CheckMemory(holding.memory); !status.ok()) return status;
    }
  }
  return CheckMemory(observed.as_a_whole.memory);
}

absl::Status Replay::CheckMemory(const std::vector<CaseMemoryBlock>& blocks) const {
  const policy::MemoryManager* const manager = topology_->memory_manager();
  if (manager == nullptr) return absl::OkStatus();
  for (const CaseMemoryBlock& block : blocks) {
    const int type = manager->FindType(block.type);
    if (type < 0) {
      return absl::InvalidArgumentError("observed: the machine has no memory of the type \"" +
                                        block.type + "\"");
    }
    for (const int id : block.numa) {
      if (!manager->numa().contains(id) || !manager->HasType(id, type)) {
        return absl::InvalidArgumentError("observed: NUMA node " + std::to_string(id) + " has no " +
                                          block.type);
      }
    }
  }
  return absl::OkStatus();
}

ActivePod Replay::ObservedPod(const CasePod& pod, const CaseObserved& observed) const {
  ActivePod active;
  policy::Holding& held = active.holding;
  std::set<std::pair<std::string, std::string>> ids;
  const auto& containers = observed.admitted ? observed.containers : observed.left;
  for (const CaseContainer& container : pod.containers) {
    const auto at = containers.find(container.name);
    policy::ContainerMemory memory;
    memory.kind = KindOf(container.kind);
    active.cpus.push_back(at != containers.end() ? at->second.cpus : policy::CpuSet{});
    held.cpus |= active.cpus.back();
    Kinds of_container;
    if (at != containers.end()) {
      for (const auto& [resource, list] : at->second.devices) {
        for (const std::string& id : std::set<std::string>(list.begin(), list.end())) {
          ids.emplace(resource, id);
          AddCount(of_container, kinds_.Find(resource, id), 1);
        }
      }
      if (topology_->memory_manager() != nullptr && !at->second.memory.empty()) {
        memory.held = true;
        memory.blocks = BlocksOf(*topology_->memory_manager(), at->second.memory);
      }
    }
    if (resized_.contains(pod.name)) active.devices.push_back(std::move(of_container));
    held.memory.push_back(std::move(memory));
  }
  if (!observed.as_a_whole.cpus.empty()) {
    held.container_cpus = std::exchange(held.cpus, observed.as_a_whole.cpus);
  }
  if (topology_->memory_manager() != nullptr) {
    held.pod_memory = BlocksOf(*topology_->memory_manager(), observed.as_a_whole.memory);
  }
  const bool no_memory = std::none_of(held.memory.begin(), held.memory.end(),
                                      [](const auto& memory) { return memory.held; });
  if (no_memory) held.memory.clear();
  if (held.cpus.empty()) active.cpus.clear();
  for (const auto& [resource, id] : ids) AddCount(held.devices, kinds_.Find(resource, id), 1);
  return active;
}

absl::Status Replay::GoOnFromObserved(const CaseStep& step, const Verdicts& verdicts) {
  if (absl::Status status = CheckObserved(step.pod, *step.observed); !status.ok()) return status;
  const CaseObserved& observed = *step.observed;
  std::set<World> after;
  for (const Branch& branch : verdicts.branches) {
    if (branch.observed) after.insert(branch.after);
  }
  if (!after.empty()) {
    worlds_ = std::move(after);
    return absl::OkStatus();
  }
  // No world could do it: the two disagree, and the answer has said so; or nobody knows. Go on from
  // all, with those released that had left: the kubelet has done that, whatever it was asked.
  ActivePod active = ObservedPod(step.pod, observed);
  active.asked = IndexOf(step);
  bool truncated = false;
  for (const World& before : worlds_) {
    for (World world :
         AsksAnybody(step.pod) ? Released(before, truncated) : std::vector<World>{before}) {
      world.compute.default_cpus -= active.holding.cpus;
      ImposeBooks(observed, world);
      if (!observed.admitted) {
        AddLeaving(world, active.holding);
      } else {
        world.pods[step.pod.name] = active;
      }
      after.insert(std::move(world));
    }
  }
  worlds_ = std::move(after);
  return absl::OkStatus();
}

}  // namespace numafit::cli
