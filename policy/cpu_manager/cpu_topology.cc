#include "policy/cpu_manager/cpu_topology.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"

namespace numafit::policy {
namespace {

absl::Status CheckInfo(const CpuInfo& info) {
  if (info.cpu < 0 || info.cpu >= CpuSet::kMaxIds) {
    return absl::InvalidArgumentError("CPU " + std::to_string(info.cpu) + ": ids are 0.." +
                                      std::to_string(CpuSet::kMaxIds - 1));
  }
  if (info.numa < 0 || info.numa >= NumaMask::kMaxIds) {
    return absl::InvalidArgumentError("CPU " + std::to_string(info.cpu) + ": NUMA node " +
                                      std::to_string(info.numa) + ": ids are 0.." +
                                      std::to_string(NumaMask::kMaxIds - 1));
  }
  return absl::OkStatus();
}

int UncoreOf(const CpuInfo& info) {
  return info.uncore >= 0 ? info.uncore : info.socket;
}

// Ids to numbers, in order.
std::map<int, std::uint16_t> Number(const std::vector<CpuInfo>& cpus, int (*id)(const CpuInfo&)) {
  std::map<int, std::uint16_t> numbers;
  for (const CpuInfo& info : cpus) numbers[id(info)] = 0;
  std::uint16_t next = 0;
  for (auto& [unused, number] : numbers) number = next++;
  return numbers;
}

std::vector<CpuTopology::Group> GroupsOf(const std::map<int, std::uint16_t>& numbers) {
  std::vector<CpuTopology::Group> groups(numbers.size());
  for (const auto& [id, number] : numbers) groups[number].id = id;
  return groups;
}

// For each of `outer` the parts of `inner` that it overlaps.
std::vector<std::vector<CpuTopology::Part>> PartsOf(const std::vector<CpuTopology::Group>& outer,
                                                    const std::vector<CpuTopology::Group>& inner) {
  std::vector<std::vector<CpuTopology::Part>> parts(outer.size());
  for (std::size_t i = 0; i < outer.size(); ++i) {
    for (std::size_t k = 0; k < inner.size(); ++k) {
      if (!outer[i].cpus.intersects(inner[k].cpus)) continue;
      parts[i].push_back({static_cast<std::uint16_t>(k), outer[i].cpus & inner[k].cpus});
    }
  }
  return parts;
}

}  // namespace

absl::StatusOr<CpuTopology> CpuTopology::Create(std::vector<CpuInfo> cpus) {
  if (cpus.empty()) return absl::InvalidArgumentError("the machine has no CPU");
  std::sort(cpus.begin(), cpus.end(),
            [](const CpuInfo& a, const CpuInfo& b) { return a.cpu < b.cpu; });
  CpuTopology topology;
  for (const CpuInfo& info : cpus) {
    if (const absl::Status status = CheckInfo(info); !status.ok()) return status;
    if (topology.all_.contains(info.cpu)) {
      return absl::InvalidArgumentError("CPU " + std::to_string(info.cpu) + " is there twice");
    }
    topology.all_.Add(info.cpu);
    topology.numa_mask_.add(info.numa);
  }
  topology.cpu_count_ = static_cast<int>(cpus.size());
  topology.AddCores(cpus);
  topology.AddParts();
  return topology;
}

// `cpus` ascend, so cores come in the order of their lowest CPUs.
void CpuTopology::AddCores(const std::vector<CpuInfo>& cpus) {
  const auto numa = Number(cpus, [](const CpuInfo& info) { return info.numa; });
  const auto socket = Number(cpus, [](const CpuInfo& info) { return info.socket; });
  numa_nodes_ = GroupsOf(numa);
  sockets_ = GroupsOf(socket);

  std::map<std::tuple<int, int, int>, std::size_t> known;
  std::vector<std::vector<std::uint16_t>> threads;
  std::vector<int> uncore_ids;  // of a core: that of its lowest CPU
  core_of_.assign(static_cast<std::size_t>(cpus.back().cpu) + 1, -1);
  for (const CpuInfo& info : cpus) {
    const auto [it, is_new] = known.try_emplace({info.numa, info.socket, info.core}, cores_.size());
    if (is_new) {
      cores_.push_back({.numa = numa.at(info.numa), .socket = socket.at(info.socket)});
      threads.emplace_back();
      uncore_ids.push_back(UncoreOf(info));
    }
    threads[it->second].push_back(static_cast<std::uint16_t>(info.cpu));
    core_of_[static_cast<std::size_t>(info.cpu)] = static_cast<int>(it->second);
  }

  std::map<int, std::uint16_t> used;
  for (const int id : uncore_ids) used[id] = 0;
  std::uint16_t next = 0;
  for (auto& [unused, number] : used) number = next++;
  uncores_ = GroupsOf(used);
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    Core& core = cores_[i];
    core.uncore = used.at(uncore_ids[i]);
    core.size = static_cast<std::uint16_t>(threads[i].size());
    core.first = static_cast<std::uint32_t>(threads_.size());
    threads_.insert(threads_.end(), threads[i].begin(), threads[i].end());
    widest_core_ = std::max<int>(widest_core_, core.size);
    for (Group* group : {&numa_nodes_[core.numa], &sockets_[core.socket], &uncores_[core.uncore]}) {
      group->cores.push_back(static_cast<std::uint16_t>(i));
      group->size += core.size;
      for (const std::uint16_t cpu : threads[i]) group->cpus.Add(cpu);
    }
  }
}

void CpuTopology::AddParts() {
  sockets_in_numa_ = PartsOf(numa_nodes_, sockets_);
  uncores_in_numa_ = PartsOf(numa_nodes_, uncores_);
  numa_in_sockets_ = PartsOf(sockets_, numa_nodes_);
  for (const std::vector<Part>& parts : numa_in_sockets_) {
    NumaMask mask;
    for (const Part& part : parts) mask.add(numa_nodes_[part.inner].id);
    socket_masks_.push_back(mask);
  }
  for (const Group& node : numa_nodes_) largest_numa_nodes_.push_back(node.size);
  std::sort(largest_numa_nodes_.begin(), largest_numa_nodes_.end(), std::greater<>());
  for (std::size_t i = 1; i < largest_numa_nodes_.size(); ++i) {
    largest_numa_nodes_[i] += largest_numa_nodes_[i - 1];
  }
}

int CpuTopology::MinimalWidth(std::int64_t request) const {
  for (std::size_t i = 0; i < largest_numa_nodes_.size(); ++i) {
    if (largest_numa_nodes_[i] >= request) return static_cast<int>(i) + 1;
  }
  return static_cast<int>(largest_numa_nodes_.size());
}

CpuSet CpuTopology::InNuma(NumaMask mask) const {
  CpuSet cpus;
  for (const Group& node : numa_nodes_) {
    if (mask.contains(node.id)) cpus |= node.cpus;
  }
  return cpus;
}

CpuSet CpuTopology::InSocketsOf(NumaMask mask) const {
  CpuSet cpus;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (mask.intersects(socket_masks_[i])) cpus |= sockets_[i].cpus;
  }
  return cpus;
}

}  // namespace numafit::policy
