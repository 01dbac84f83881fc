// What a replay answers, of everything that may have happened.
#include <algorithm>
#include <set>
#include <utility>

#include "cli/admit/replay.h"
#include "nlohmann/json.hpp"
#include "policy/memory_manager/memory_manager.h"

namespace numafit::cli {
namespace {

using Json = nlohmann::ordered_json;

Json IdsJson(policy::NumaMask mask) {
  Json ids = Json::array();
  mask.ForEach([&](int id) { ids.push_back(id); });
  return ids;
}

// Whether f(item) is the same for all. Precondition: not empty.
template <typename List, typename F>
bool AllSame(const List& list, F&& f) {
  return std::all_of(list.begin(), list.end(),
                     [&](const auto& item) { return f(item) == f(list.front()); });
}

}  // namespace

void Replay::Write(const CasePod& pod, const Verdicts& verdicts, Json& answer) const {
  const bool dies = std::any_of(
      verdicts.branches.begin(), verdicts.branches.end(),
      [](const Branch& branch) { return branch.reason == policy::RefusalReason::kPanic; });
  // What was left out differs in devices alone, as long as no affinity depends on them.
  const bool all_books = !dies && (!verdicts.truncated || verdicts.same_affinities);
  WriteVerdict(pod, verdicts, all_books, answer);
  if (!all_books) return;
  std::vector<const World*> after;
  for (const Branch& branch : verdicts.branches) after.push_back(&branch.after);
  WriteBooks(after, answer);
}

void Replay::WriteVerdict(const CasePod& pod, const Verdicts& verdicts, bool with_left,
                          Json& answer) const {
  const bool admits = verdicts.admits();
  const bool refuses = verdicts.refuses();
  if (admits && refuses) {
    answer["admitted"] = nullptr;
  } else {
    answer["admitted"] = admits;
  }
  if (refuses) {
    std::set<std::string> reasons;
    for (const Branch& branch : verdicts.branches) {
      if (!branch.admitted) reasons.emplace(policy::RefusalReasonName(branch.reason));
    }
    if (!admits && reasons.size() == 1) answer["reason"] = *reasons.begin();
    answer["reasons"] = reasons;
  }
  if (admits) WriteContainers(pod, verdicts, answer);
  if (admits != refuses && with_left) WriteAsAWhole(verdicts, answer);
  if (refuses && with_left) WriteLeft(pod, verdicts, answer);
}

void Replay::WriteContainers(const CasePod& pod, const Verdicts& verdicts, Json& answer) const {
  std::vector<const std::vector<Given>*> given;
  for (const Branch& branch : verdicts.branches) {
    if (branch.admitted) given.push_back(&branch.given);
  }
  Json& containers = answer["containers"] = Json::array();
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    Json container = {{"name", pod.containers[i].name}};
    const Given& first = (*given.front())[i];
    const bool same_affinity = AllSame(given, [i](const std::vector<Given>* outcome) {
      const policy::ContainerAllocation& allocation = (*outcome)[i].allocation;
      return std::make_pair(allocation.affinity, allocation.preferred);
    });
    // What was left out may differ.
    if (same_affinity && (verdicts.same_affinities || (i == 0 && verdicts.worlds == 1))) {
      container["affinity"] =
          first.allocation.affinity ? IdsJson(*first.allocation.affinity) : Json(nullptr);
      container["preferred"] = first.allocation.preferred;
    }
    if (!verdicts.truncated) {
      Json devices = WriteDevices(given, i);
      if (!devices.empty()) container["devices"] = std::move(devices);
    }
    // The first container's CPUs follow from its affinity; its memory can be used again by others.
    const bool all_known = !verdicts.truncated || verdicts.same_affinities;
    if (all_known || (i == 0 && verdicts.worlds == 1)) {
      const auto cpus = [i](const std::vector<Given>* g) { return (*g)[i].allocation.cpus; };
      if (AllSame(given, cpus) && !first.allocation.cpus.empty()) {
        container["cpus"] = policy::FormatCpuSet(first.allocation.cpus);
      }
      const auto memory = [i](const std::vector<Given>* g) { return (*g)[i].memory; };
      if (all_known && AllSame(given, memory) && !first.memory.empty()) {
        container["memory"] = WriteMemory(first.memory);
      }
    }
    containers.push_back(std::move(container));
  }
}

void Replay::WriteAsAWhole(const Verdicts& verdicts, Json& answer) const {
  const policy::HeldAsAWhole& first = verdicts.branches.front().as_a_whole;
  const auto cpus = [](const Branch& branch) { return branch.as_a_whole.cpus; };
  if (!first.cpus.empty() && AllSame(verdicts.branches, cpus)) {
    answer["podCpus"] = policy::FormatCpuSet(first.cpus);
  }
  const auto memory = [](const Branch& branch) { return branch.as_a_whole.memory; };
  if (!first.memory.empty() && AllSame(verdicts.branches, memory)) {
    answer["podMemory"] = WriteMemory(first.memory);
  }
}

void Replay::WriteLeft(const CasePod& pod, const Verdicts& verdicts, Json& answer) const {
  std::vector<Json> all;
  for (const Branch& branch : verdicts.branches) {
    if (branch.admitted) continue;
    Json& left = all.emplace_back(Json::array());
    for (std::size_t i = 0; i < branch.given.size(); ++i) {
      const Given& given = branch.given[i];
      if (given.allocation.cpus.empty() && given.memory.empty()) continue;
      Json container = {{"name", pod.containers[i].name}};
      if (!given.allocation.cpus.empty()) {
        container["cpus"] = policy::FormatCpuSet(given.allocation.cpus);
      }
      if (!given.memory.empty()) container["memory"] = WriteMemory(given.memory);
      left.push_back(std::move(container));
    }
  }
  if (!all.front().empty() && AllSame(all, [](const Json& left) { return left; })) {
    answer["left"] = all.front();
  }
}

void Replay::WriteBooks(const std::vector<const World*>& worlds, Json& answer) const {
  if (worlds.empty()) return;
  const policy::ComputeState& first = worlds.front()->compute;
  if (topology_->cpu_manager() != nullptr &&
      AllSame(worlds, [](const World* world) { return world->compute.default_cpus; })) {
    answer["defaultCpus"] = policy::FormatCpuSet(first.default_cpus);
  }
  const policy::MemoryManager* manager = topology_->memory_manager();
  if (manager == nullptr ||
      !AllSame(worlds, [](const World* world) { return world->compute.memory; })) {
    return;
  }
  Json& nodes = answer["memoryState"] = Json::array();
  for (std::size_t position = 0; position < manager->numa_ids().size(); ++position) {
    const int id = manager->numa_ids()[position];
    const policy::MemoryState::Node& node = first.memory.nodes[position];
    Json free = Json::object();
    for (int type = 0; type < static_cast<int>(manager->types().size()); ++type) {
      if (!manager->HasType(id, type)) continue;
      free[manager->types()[static_cast<std::size_t>(type)]] = first.memory.at(position, type).free;
    }
    nodes.push_back({{"numa", id},
                     {"assignments", node.assignments},
                     {"cells", IdsJson(node.cells)},
                     {"free", std::move(free)}});
  }
}

Json Replay::WriteMemory(const policy::MemoryBlocks& blocks) const {
  const policy::MemoryManager& manager = *topology_->memory_manager();
  std::vector<policy::MemoryBlock> sorted(blocks.begin(), blocks.end());
  const auto name = [&](const policy::MemoryBlock& block) {
    return manager.types()[static_cast<std::size_t>(block.type)];
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const auto& a, const auto& b) { return name(a) < name(b); });
  Json out = Json::array();
  for (const policy::MemoryBlock& block : sorted) {
    out.push_back({{"type", name(block)}, {"numa", IdsJson(block.numa)}, {"size", block.size}});
  }
  return out;
}

std::map<std::string, int> Replay::CountByNumaSet(const Kinds& kinds, int pool) const {
  const policy::Topology::Pool& p = topology_->pools()[static_cast<std::size_t>(pool)];
  std::map<std::string, int> counts;
  for (const policy::ClassCount& item : kinds) {
    if (kinds_.Resource(item.class_index) != p.resource) continue;
    const auto listed = class_of_kind_.find(item.class_index);
    counts[listed == class_of_kind_.end()
               ? "unlisted"
               : numa_set_of_class_[static_cast<std::size_t>(listed->second)]] += item.count;
  }
  return counts;
}

bool Replay::IdsAreKnown(const Kinds& kinds, int pool) const {
  const policy::Topology::Pool& p = topology_->pools()[static_cast<std::size_t>(pool)];
  return std::all_of(kinds.begin(), kinds.end(), [&](const policy::ClassCount& item) {
    if (kinds_.Resource(item.class_index) != p.resource) return true;
    const auto listed = class_of_kind_.find(item.class_index);
    return listed != class_of_kind_.end() &&
           topology_->classes()[static_cast<std::size_t>(listed->second)].count == item.count;
  });
}

Json Replay::WriteDevices(const std::vector<const std::vector<Given>*>& given,
                          std::size_t container) const {
  std::set<Kinds> distinct;
  for (const std::vector<Given>* outcome : given) distinct.insert((*outcome)[container].devices);
  Json out = Json::object();
  for (int pool = 0; pool < static_cast<int>(topology_->pools().size()); ++pool) {
    const policy::Topology::Pool& p = topology_->pools()[static_cast<std::size_t>(pool)];
    std::set<std::map<std::string, int>> counts;
    for (const Kinds& kinds : distinct) counts.insert(CountByNumaSet(kinds, pool));
    if (counts.size() == 1 && counts.begin()->empty()) continue;
    if (distinct.size() == 1 && IdsAreKnown(*distinct.begin(), pool)) {
      std::set<std::string> ids;
      for (const policy::ClassCount& item : *distinct.begin()) {
        if (kinds_.Resource(item.class_index) != p.resource) continue;
        const int class_index = class_of_kind_.at(item.class_index);
        for (const std::string& id : topology_->DeviceIds(class_index)) ids.insert(id);
      }
      out[p.resource] = ids;
    } else if (counts.size() == 1) {
      out[p.resource] = *counts.begin();
    } else {
      out[p.resource] = counts;
    }
  }
  return out;
}

}  // namespace numafit::cli
