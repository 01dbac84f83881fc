#include "cli/admit/replay.h"

#include <algorithm>
#include <utility>

#include "nlohmann/json.hpp"

namespace numafit::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxOutcomesOfAWorld = 512;
// Of one admission in all worlds together.
constexpr std::size_t kMaxOutcomes = 4096;

policy::Demand DemandOf(const CasePod& pod) {
  policy::Demand demand;
  for (const CaseContainer& container : pod.containers) {
    policy::ContainerDemand& out = demand.containers.emplace_back();
    out.name = container.name;
    switch (container.kind) {
      case CaseContainer::Kind::kInit:
        out.kind = policy::ContainerDemand::Kind::kInit;
        break;
      case CaseContainer::Kind::kSidecar:
        out.kind = policy::ContainerDemand::Kind::kSidecar;
        break;
      case CaseContainer::Kind::kApp:
        out.kind = policy::ContainerDemand::Kind::kApp;
        break;
    }
    out.devices = container.limits;
  }
  return demand;
}

void AddKind(policy::DeviceHolding& kinds, int kind, int count) {
  const auto at = std::lower_bound(
      kinds.begin(), kinds.end(), kind,
      [](const policy::ClassCount& k, int wanted) { return k.class_index < wanted; });
  if (at != kinds.end() && at->class_index == kind) {
    at->count += count;
  } else {
    kinds.insert(at, {kind, count});
  }
}

bool Same(const policy::ContainerAllocation& a, const policy::ContainerAllocation& b) {
  return a.affinity == b.affinity && a.preferred == b.preferred;
}

}  // namespace

Replay::Replay(const Case& replayed)
    : case_(replayed), kinds_(replayed), devices_(replayed.devices), prefer_(replayed.prefer) {
  worlds_.insert(World{});
}

absl::Status Replay::Start() {
  return Rebuild();
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
  for (const auto& [pod, kinds] : world) {
    for (const policy::ClassCount& item : kinds) {
      // A device that is held but no longer listed is out of the kubelet's sight.
      const auto at = class_of_kind_.find(item.class_index);
      if (at != class_of_kind_.end()) usage.Add({{at->second, item.count}});
    }
  }
  return usage;
}

Replay::Kinds Replay::KindsOf(const policy::DeviceHolding& holding) const {
  Kinds kinds;
  for (const policy::ClassCount& item : holding) {
    AddKind(kinds, kind_of_class_[static_cast<std::size_t>(item.class_index)], item.count);
  }
  return kinds;
}

absl::Status Replay::Play(const CaseStep& step, Json& answer) {
  answer = Json::object();
  switch (step.kind) {
    case CaseStep::Kind::kAdmit:
      return Admit(step, answer);
    case CaseStep::Kind::kRemove: {
      lost_pods_.erase(step.name);
      std::set<World> left;
      for (World world : worlds_) {
        world.erase(step.name);
        left.insert(std::move(world));
      }
      worlds_ = std::move(left);
      return absl::OkStatus();
    }
    case CaseStep::Kind::kStart:
      return absl::OkStatus();
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

bool Replay::IsObserved(const CaseStep& step, const policy::Outcome& outcome,
                        const std::vector<Given>& given) const {
  if (outcome.admitted != step.observed->admitted) return false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    Kinds seen;
    const auto container = step.observed->containers.find(step.pod.containers[i].name);
    if (container != step.observed->containers.end()) {
      for (const auto& [resource, ids] : container->second) {
        for (const std::string& id : ids) AddKind(seen, kinds_.Find(resource, id), 1);
      }
    }
    if (seen != given[i].devices) return false;
  }
  return true;
}

void Replay::Collect(const World& world, const policy::AdmitResult& result, const CaseStep& step,
                     Verdicts& verdicts) const {
  verdicts.truncated = verdicts.truncated || result.truncated;
  if (result.truncated && !result.same_affinities) verdicts.same_affinities = false;
  verdicts.unknown = verdicts.unknown || result.verdict() == policy::Verdict::kUnknown;
  for (const policy::Outcome& outcome : result.outcomes) {
    std::vector<Given> given;
    if (outcome.admitted) {
      for (const policy::ContainerAllocation& allocation : outcome.containers) {
        given.push_back({allocation, KindsOf(allocation.devices)});
      }
    }
    if (step.observed && IsObserved(step, outcome, given)) verdicts.observed_worlds.insert(world);
    World after = world;
    if (outcome.admitted) {
      verdicts.admits = true;
      Kinds held = KindsOf(outcome.held);
      if (!held.empty()) after[step.pod.name] = std::move(held);
      verdicts.given.push_back(std::move(given));
    } else {
      verdicts.refuses = true;
      verdicts.reasons.insert(std::string(policy::RefusalReasonName(outcome.reason)));
    }
    verdicts.worlds.insert(std::move(after));
  }
}

Replay::Verdicts Replay::Ask(const CaseStep& step) const {
  const policy::Demand demand = DemandOf(step.pod);
  Verdicts verdicts;
  std::size_t outcomes = 0;
  for (const World& world : worlds_) {
    const policy::AdmitResult result =
        policy::Admit(*topology_, UsageOf(world), demand, kMaxOutcomesOfAWorld);
    Collect(world, result, step, verdicts);
    outcomes += result.outcomes.size();
    if (outcomes > kMaxOutcomes) {
      verdicts.truncated = true;
      verdicts.unknown = true;
      break;
    }
  }
  if (verdicts.worlds.size() > kMaxWorlds) verdicts.truncated = true;
  return verdicts;
}

absl::Status Replay::GoOnFromObserved(const CaseStep& step, const Verdicts& verdicts) {
  std::set<std::pair<std::string, std::string>> ids;
  for (const auto& [container, devices] : step.observed->containers) {
    const bool known = std::any_of(step.pod.containers.begin(), step.pod.containers.end(),
                                   [&](const CaseContainer& c) { return c.name == container; });
    if (!known) {
      return absl::InvalidArgumentError("observed: Pod \"" + step.pod.name +
                                        "\" has no container \"" + container + "\"");
    }
    for (const auto& [resource, list] : devices) {
      for (const std::string& id : list) {
        if (kinds_.Find(resource, id) < 0) {
          return absl::InvalidArgumentError("observed: " + resource + " has no device \"" + id +
                                            "\"");
        }
        ids.emplace(resource, id);
      }
    }
  }
  Kinds held;
  for (const auto& [resource, id] : ids) AddKind(held, kinds_.Find(resource, id), 1);
  // Where no world could do it the two disagree, and the answer has said so: go on from all.
  const std::set<World>& before =
      verdicts.observed_worlds.empty() ? worlds_ : verdicts.observed_worlds;
  std::set<World> after;
  for (World world : before) {
    if (!held.empty()) world[step.pod.name] = held;
    after.insert(std::move(world));
  }
  worlds_ = std::move(after);
  return absl::OkStatus();
}

absl::Status Replay::Admit(const CaseStep& step, Json& answer) {
  answer["pod"] = step.pod.name;
  if (!lost_pods_.empty()) {
    answer["admitted"] = nullptr;
    answer["settling"] = true;
    if (step.observed) return GoOnFromObserved(step, {});
    lost_pods_.insert(step.pod.name);
    return absl::OkStatus();
  }
  const Verdicts verdicts = Ask(step);
  if (verdicts.unknown) {
    answer["admitted"] = nullptr;
    answer["settling"] = true;
  } else {
    Write(step, verdicts, answer);
  }
  if (step.observed) return GoOnFromObserved(step, verdicts);
  if (verdicts.truncated) {
    lost_pods_.insert(step.pod.name);
  } else {
    worlds_ = verdicts.worlds;
  }
  return absl::OkStatus();
}

void Replay::Write(const CaseStep& step, const Verdicts& verdicts, Json& answer) const {
  if (verdicts.admits && verdicts.refuses) {
    answer["admitted"] = nullptr;
  } else {
    answer["admitted"] = verdicts.admits;
  }
  if (verdicts.refuses) {
    if (!verdicts.admits && verdicts.reasons.size() == 1) {
      answer["reason"] = *verdicts.reasons.begin();
    }
    answer["reasons"] = verdicts.reasons;
  }
  if (!verdicts.admits) return;
  Json& containers = answer["containers"] = Json::array();
  for (std::size_t i = 0; i < step.pod.containers.size(); ++i) {
    Json container = {{"name", step.pod.containers[i].name}};
    const policy::ContainerAllocation& first = verdicts.given[0][i].allocation;
    const bool same =
        std::all_of(verdicts.given.begin(), verdicts.given.end(),
                    [&](const std::vector<Given>& g) { return Same(g[i].allocation, first); });
    // What was left out may differ.
    if (same && (verdicts.same_affinities || (i == 0 && worlds_.size() == 1))) {
      Json& affinity = container["affinity"] = nullptr;
      if (first.affinity) {
        affinity = Json::array();
        first.affinity->ForEach([&](int id) { affinity.push_back(id); });
      }
      container["preferred"] = first.preferred;
    }
    Json devices = verdicts.truncated ? Json::object() : WriteDevices(verdicts.given, i);
    if (!devices.empty()) container["devices"] = std::move(devices);
    containers.push_back(std::move(container));
  }
}

std::map<std::string, int> Replay::CountByNumaSet(const Kinds& kinds, int pool) const {
  const policy::Topology::Pool& p = topology_->pools()[static_cast<std::size_t>(pool)];
  std::map<std::string, int> counts;
  for (const policy::ClassCount& item : kinds) {
    const int class_index = class_of_kind_.at(item.class_index);
    if (class_index < p.first_class || class_index >= p.first_class + p.class_count) continue;
    counts[numa_set_of_class_[static_cast<std::size_t>(class_index)]] += item.count;
  }
  return counts;
}

bool Replay::IdsAreKnown(const Kinds& kinds, int pool) const {
  const policy::Topology::Pool& p = topology_->pools()[static_cast<std::size_t>(pool)];
  return std::all_of(kinds.begin(), kinds.end(), [&](const policy::ClassCount& item) {
    const int class_index = class_of_kind_.at(item.class_index);
    if (class_index < p.first_class || class_index >= p.first_class + p.class_count) return true;
    return topology_->classes()[static_cast<std::size_t>(class_index)].count == item.count;
  });
}

Json Replay::WriteDevices(const std::vector<std::vector<Given>>& given,
                          std::size_t container) const {
  std::set<Kinds> distinct;
  for (const std::vector<Given>& outcome : given) distinct.insert(outcome[container].devices);
  Json out = Json::object();
  for (int pool = 0; pool < static_cast<int>(topology_->pools().size()); ++pool) {
    const policy::Topology::Pool& p = topology_->pools()[static_cast<std::size_t>(pool)];
    std::set<std::map<std::string, int>> counts;
    for (const Kinds& kinds : distinct) counts.insert(CountByNumaSet(kinds, pool));
    if (counts.size() == 1 && counts.begin()->empty()) continue;
    if (distinct.size() == 1 && IdsAreKnown(*distinct.begin(), pool)) {
      std::set<std::string> ids;
      for (const policy::ClassCount& item : *distinct.begin()) {
        const int class_index = class_of_kind_.at(item.class_index);
        if (class_index < p.first_class || class_index >= p.first_class + p.class_count) continue;
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
