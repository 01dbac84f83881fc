// The kubelet restarts, containers running on: docs/case-format.md, "A restart".
#include <algorithm>
#include <set>
#include <utility>

#include "cli/admit/pod_demand.h"
#include "cli/admit/replay.h"
#include "nlohmann/json.hpp"
#include "policy/cpu_manager/static_policy.h"
#include "policy/readmission.h"

namespace numafit::cli {
namespace {

using Json = nlohmann::ordered_json;
using Restored = policy::MemoryManager::Restored;

}  // namespace

Restored Replay::RestoredBooks(const World& world) const {
  std::vector<policy::CpuSet> cpus;
  std::vector<policy::CpuSet> of_pods = {world.stranded};
  std::vector<policy::MemoryBlock> blocks;
  const auto add = [&](const policy::Holding& holding) {
    if (!holding.container_cpus.empty()) {
      cpus.push_back(holding.container_cpus);
      of_pods.push_back(holding.cpus);
    } else if (!holding.cpus.empty()) {
      cpus.push_back(holding.cpus);
    }
    for (const policy::ContainerMemory& container : holding.MemoryToRelease()) {
      blocks.insert(blocks.end(), container.blocks.begin(), container.blocks.end());
    }
  };
  for (const auto& [name, pod] : world.pods) add(pod.holding);
  for (const policy::Holding& holding : world.leaving) add(holding);
  if (topology_->cpu_manager() != nullptr &&
      !topology_->cpu_manager()->CheckState(world.compute.default_cpus, cpus, of_pods).ok()) {
    return Restored::kRefused;
  }
  if (topology_->memory_manager() == nullptr) return Restored::kAccepted;
  return topology_->memory_manager()->Validate(world.compute.memory, blocks);
}

void Replay::ReadmitPod(const CasePod& pod, Rebirth& way) const {
  const ActivePod before = way.after.pods.at(pod.name);
  policy::Usage usage(*topology_);
  usage.compute() = way.after.compute;
  // The kubelet goes by what it has written down: a resize that was taken counts, others do not.
  const policy::Demand demand = DemandOf(case_.steps[before.asked].pod);
  const policy::ReadmitResult result =
      policy::Readmit(*topology_, usage, demand, HeldBy(before, pod),
                      {before.holding.cpus, before.holding.pod_memory});
  way.intractable = way.intractable || result.intractable;
  way.endless = way.endless || result.endless;
  if (result.outcome.reason == policy::RefusalReason::kPanic) way.restored = Restored::kRefused;
  Branch branch = BranchOf(way.after, result.outcome);
  ActivePod after = PodAfter(result.outcome);
  after.started = before.started;
  after.asked = before.asked;
  after.holding.devices = before.holding.devices;
  after.devices = before.devices;
  NoteGiven(pod.name, demand, result.outcome, branch.admitted, branch.after);
  if (branch.admitted) {
    branch.after.pods[pod.name] = std::move(after);
  } else {
    branch.after.pods.erase(pod.name);
    AddLeaving(branch.after, std::move(after.holding));
  }
  way.after = branch.after;
  way.pods.push_back(&pod);
  way.branches.push_back(std::move(branch));
}

Replay::Rebirth Replay::Reborn(const World& world) const {
  Rebirth way;
  way.restored = RestoredBooks(world);
  way.after = world;
  way.after.last_given = {};
  std::vector<KnownPod> pods;
  for (const auto& [name, pod] : world.pods) pods.push_back(known_pods_.at(name));
  std::sort(pods.begin(), pods.end(),
            [](const KnownPod& a, const KnownPod& b) { return a.admission < b.admission; });
  for (const KnownPod& known : pods) {
    if (way.restored == Restored::kRefused) break;
    ReadmitPod(*known.pod, way);
  }
  return way;
}

// Nothing is known of any Pod any more until all of them are gone.
void Replay::LoseAll() {
  std::set<World> worlds;
  for (World world : worlds_) {
    for (const auto& [name, pod] : world.pods) lost_pods_.insert(name);
    world.pods.clear();
    worlds.insert(std::move(world));
  }
  worlds_ = std::move(worlds);
  lost_ = true;
}

absl::Status Replay::Restart(const CaseStep& step, Json& answer) {
  for (auto& [resource, devices] : devices_) devices.clear();
  if (absl::Status status = Rebuild(); !status.ok()) return status;
  if (lost_) {
    LoseAll();
    return absl::OkStatus();
  }
  std::vector<Rebirth> ways;
  for (const World& world : worlds_) ways.push_back(Reborn(world));
  if (std::any_of(ways.begin(), ways.end(), [](const Rebirth& way) { return way.intractable; })) {
    answer["unsupported"] = true;
    if (std::any_of(ways.begin(), ways.end(), [](const Rebirth& way) { return way.endless; })) {
      answer["endless"] = true;
    }
    LoseAll();
    return absl::OkStatus();
  }
  const bool surely = std::all_of(ways.begin(), ways.end(), [](const Rebirth& way) {
    return way.restored == Restored::kAccepted;
  });
  std::erase_if(ways, [](const Rebirth& way) { return way.restored == Restored::kRefused; });
  if (ways.empty()) {
    answer["restarted"] = false;
    ended_ = true;
    return absl::OkStatus();
  }
  if (surely) answer["restarted"] = true;
  WriteReadmitted(ways, answer);
  std::vector<const World*> after;
  for (const Rebirth& way : ways) after.push_back(&way.after);
  WriteBooks(after, answer);
  if (step.observed) return GoOnFromObservedRestart(*step.observed, std::move(ways));
  worlds_.clear();
  for (Rebirth& way : ways) worlds_.insert(std::move(way.after));
  return absl::OkStatus();
}

void Replay::WriteReadmitted(const std::vector<Rebirth>& ways, Json& answer) const {
  const bool same_pods = std::all_of(
      ways.begin(), ways.end(), [&](const Rebirth& way) { return way.pods == ways.front().pods; });
  if (!same_pods) return;
  Json& readmitted = answer["readmitted"] = Json::array();
  for (std::size_t i = 0; i < ways.front().pods.size(); ++i) {
    Verdicts verdicts;
    for (const Rebirth& way : ways) verdicts.branches.push_back(way.branches[i]);
    const CasePod& pod = *ways.front().pods[i];
    Json entry = {{"pod", pod.name}};
    WriteVerdict(pod, verdicts, /*with_left=*/true, entry);
    readmitted.push_back(std::move(entry));
  }
}

bool Replay::IsObserved(const CaseObserved& observed, const Rebirth& way) const {
  for (const auto& [name, seen] : observed.readmitted) {
    const auto at = std::find_if(way.pods.begin(), way.pods.end(),
                                 [&](const CasePod* pod) { return pod->name == name; });
    if (at == way.pods.end()) return false;
    const auto index = static_cast<std::size_t>(at - way.pods.begin());
    if (!GivesObserved(**at, seen, way.branches[index])) return false;
  }
  return BooksAreObserved(observed, way.after);
}

absl::Status Replay::GoOnFromObservedRestart(const CaseObserved& observed,
                                             std::vector<Rebirth> ways) {
  for (const auto& [name, seen] : observed.readmitted) {
    if (absl::Status status = CheckObserved(*known_pods_.at(name).pod, seen); !status.ok()) {
      return status;
    }
  }
  worlds_.clear();
  for (const Rebirth& way : ways) {
    if (IsObserved(observed, way)) worlds_.insert(way.after);
  }
  if (!worlds_.empty()) return absl::OkStatus();
  for (Rebirth& way : ways) {
    World& world = way.after;
    for (const auto& [name, seen] : observed.readmitted) {
      ActivePod pod = ObservedPod(*known_pods_.at(name).pod, seen);
      if (const auto at = world.pods.find(name); at != world.pods.end()) {
        pod.started = at->second.started;
        pod.asked = at->second.asked;
        pod.holding.devices = at->second.holding.devices;
        pod.devices = at->second.devices;
        world.compute.default_cpus |= at->second.holding.cpus;
        world.pods.erase(at);
      }
      world.compute.default_cpus -= pod.holding.cpus;
      if (seen.admitted) {
        world.pods[name] = std::move(pod);
      } else {
        AddLeaving(world, std::move(pod.holding));
      }
    }
    ImposeBooks(observed, world);
    worlds_.insert(std::move(world));
  }
  return absl::OkStatus();
}

}  // namespace numafit::cli
