// A running Pod is resized in place: docs/case-format.md, "A resize".
#include <algorithm>
#include <set>
#include <utility>

#include "cli/admit/pod_demand.h"
#include "cli/admit/replay.h"
#include "nlohmann/json.hpp"
#include "policy/cpu_manager/static_policy.h"
#include "policy/mutation.h"
#include "policy/requests.h"

namespace numafit::cli {
namespace {

using Json = nlohmann::ordered_json;
using policy::ResizeVerdict;

constexpr int kMaxOutcomesOfAWorld = 512;
// Of one resize in all worlds together.
constexpr std::size_t kMaxOutcomes = 4096;

bool SameAsks(const CasePod& a, const CasePod& b) {
  return a.asks == b.asks &&
         std::equal(a.containers.begin(), a.containers.end(), b.containers.begin(),
                    b.containers.end(),
                    [](const auto& x, const auto& y) { return x.asks == y.asks; });
}

}  // namespace

std::size_t Replay::IndexOf(const CaseStep& step) const {
  return static_cast<std::size_t>(&step - case_.steps.data());
}

void Replay::NoteGiven(const std::string& pod, const policy::Demand& demand,
                       const policy::Outcome& outcome, bool stays, World& after) const {
  if (resized_.empty() || policy::IsAllocatedAsAWhole(*topology_, demand)) return;
  const std::string name = stays && resized_.contains(pod) ? pod : "";
  const std::size_t reached = outcome.admitted
                                  ? outcome.containers.size()
                                  : static_cast<std::size_t>(outcome.refused_container);
  if (reached > 0 || outcome.reason != policy::RefusalReason::kTopologyAffinityError) {
    after.last_given.devices = name;
  }
  NoteCpus(name, demand, outcome, reached, after.last_given);
  const std::vector<policy::ContainerMemory>& memory = outcome.held.memory;
  policy::ReusableMemory left;
  if (!name.empty() && after.last_given.memory == name) left = after.last_given.left_memory;
  bool given = false;
  for (std::size_t i = 0; i < std::min(reached, memory.size()); ++i) {
    if (!memory[i].held) continue;
    given = true;
    left.Update(outcome.containers[i].memory,
                memory[i].kind == policy::ContainerDemand::Kind::kInit);
  }
  if (!given) return;
  after.last_given.memory = name;
  if (name.empty()) left.Clear();
  after.last_given.left_memory = left;
}

void Replay::NoteCpus(const std::string& name, const policy::Demand& demand,
                      const policy::Outcome& outcome, std::size_t reached, LastGiven& last) const {
  if (topology_->cpu_manager() == nullptr) return;
  const policy::RequestsOfContainers requests = policy::ContainerRequestsOf(*topology_, demand);
  // Memory comes after CPUs.
  if (outcome.refused_resource == "memory" && !outcome.containers.empty() &&
      outcome.reason != policy::RefusalReason::kTopologyAffinityError) {
    ++reached;
  }
  policy::CpuSet left;
  if (!name.empty() && last.cpus == name) left = last.left_cpus;
  bool given = false;
  for (std::size_t i = 0; i < std::min(reached, outcome.containers.size()); ++i) {
    if (requests[i].cpus == 0 || outcome.containers[i].cpus.empty()) continue;
    given = true;
    policy::UpdateReusableCpus(left, outcome.containers[i].cpus,
                               demand.containers[i].kind == policy::ContainerDemand::Kind::kInit);
  }
  if (!given) return;
  last.cpus = name;
  last.left_cpus = name.empty() ? policy::CpuSet() : left;
}

policy::HeldDevices Replay::HeldDevicesOf(const Kinds& kinds) const {
  policy::HeldDevices held;
  for (const policy::ClassCount& item : kinds) {
    if (const auto at = class_of_kind_.find(item.class_index); at != class_of_kind_.end()) {
      AddCount(held.listed, at->second, item.count);
      continue;
    }
    const int pool = topology_->FindPool(kinds_.Resource(item.class_index));
    if (pool < 0) continue;
    const auto of_pool = std::find_if(held.unlisted.begin(), held.unlisted.end(),
                                      [&](const auto& other) { return other.pool == pool; });
    if (of_pool == held.unlisted.end()) {
      held.unlisted.push_back({.pool = pool, .count = item.count});
    } else {
      of_pool->count += item.count;
    }
  }
  return held;
}

policy::RunningPod Replay::RunningPodOf(const World& world, const std::string& name) const {
  const ActivePod& active = world.pods.at(name);
  const CasePod& pod = case_.steps[active.asked].pod;
  policy::RunningPod running;
  running.containers = HeldBy(active, pod);
  // What nobody has taken of the devices of init containers: others' are never the same.
  Kinds left = active.holding.devices;
  for (std::size_t i = 0; i < std::min(active.devices.size(), pod.containers.size()); ++i) {
    running.containers[i].devices = HeldDevicesOf(active.devices[i]);
    if (pod.containers[i].kind == CaseContainer::Kind::kInit) continue;
    for (const policy::ClassCount& item : active.devices[i]) {
      AddCount(left, item.class_index, -item.count);
    }
  }
  left.erase(std::remove_if(left.begin(), left.end(),
                            [](const policy::ClassCount& item) { return item.count <= 0; }),
             left.end());
  running.devices = HeldDevicesOf(active.holding.devices);
  if (world.last_given.devices == name) running.left_devices = HeldDevicesOf(left);
  if (world.last_given.cpus == name) running.left_cpus = world.last_given.left_cpus;
  if (world.last_given.memory == name) running.left_memory = world.last_given.left_memory;
  return running;
}

Replay::Branch Replay::NotResized(const World& world, const ActivePod* active,
                                  ResizeVerdict verdict, std::string_view why_not) const {
  Branch branch;
  branch.resize = verdict;
  branch.why_not = why_not;
  branch.after = world;
  if (active == nullptr) return branch;
  for (std::size_t i = 0; i < case_.steps[active->asked].pod.containers.size(); ++i) {
    Given& given = branch.given.emplace_back();
    if (i < active->cpus.size()) given.allocation.cpus = active->cpus[i];
    if (i < active->holding.memory.size()) given.memory = active->holding.memory[i].blocks;
    if (i < active->devices.size()) given.devices = active->devices[i];
  }
  return branch;
}

Replay::Branch Replay::Resized(const World& before, const World& world, const CaseStep& step,
                               const policy::Demand& demand, const policy::Outcome& outcome) const {
  const std::string& name = step.pod.name;
  const ActivePod& active = world.pods.at(name);
  if (!outcome.admitted && outcome.reason != policy::RefusalReason::kPanic &&
      policy::Mutated(policy::Mutation::kResizeNothingStays)) {
    return NotResized(world, &active, ResizeVerdict::kDeferred,
                      policy::RefusalReasonName(outcome.reason));
  }
  Branch branch = BranchOf(world, outcome);
  branch.resize = outcome.admitted ? ResizeVerdict::kTaken : ResizeVerdict::kDeferred;
  if (outcome.reason == policy::RefusalReason::kPanic) branch.resize = ResizeVerdict::kNone;
  if (!outcome.admitted) branch.why_not = policy::RefusalReasonName(outcome.reason);
  ActivePod pod = PodAfter(outcome);
  pod.started = active.started;
  pod.asked = outcome.admitted ? IndexOf(step) : active.asked;
  // What the outcome tells of devices is new; what the Pod had it keeps.
  for (const policy::ClassCount& item : active.holding.devices) {
    AddCount(pod.holding.devices, item.class_index, item.count);
  }
  pod.devices = active.devices;
  pod.devices.resize(step.pod.containers.size());
  for (std::size_t i = 0; i < std::min(branch.given.size(), pod.devices.size()); ++i) {
    for (const policy::ClassCount& item : branch.given[i].devices) {
      AddCount(pod.devices[i], item.class_index, item.count);
    }
    branch.given[i].devices = pod.devices[i];
  }
  branch.after.pods[name] = std::move(pod);
  if (!topology_->kubelet().version.ResizesByDevicesAlone()) {
    NoteGiven(name, demand, outcome, /*stays=*/true, branch.after);
  }
  if (!outcome.admitted) KeepUntidied(before, outcome, branch.after);
  return branch;
}

Replay::Verdicts Replay::AskToResize(const CaseStep& step) const {
  Verdicts verdicts;
  const policy::Demand demand = DemandOf(step.pod);
  for (const World& before : worlds_) {
    ++verdicts.worlds;
    const auto active = before.pods.find(step.pod.name);
    if (active == before.pods.end()) {
      verdicts.branches.push_back(NotResized(before, nullptr, ResizeVerdict::kNone, "gone"));
      continue;
    }
    const CasePod& has = case_.steps[active->second.asked].pod;
    if (SameAsks(has, step.pod)) {
      verdicts.branches.push_back(
          NotResized(before, &active->second, ResizeVerdict::kNone, "unchanged"));
      continue;
    }
    if (const auto why = policy::WhyInfeasible(*topology_, DemandOf(has), demand)) {
      verdicts.branches.push_back(
          NotResized(before, &active->second, ResizeVerdict::kInfeasible, *why));
      continue;
    }
    for (const World& world : Released(before, verdicts.truncated)) {
      const policy::ResizeResult result =
          policy::Resize(*topology_, UsageOf(world), demand, RunningPodOf(world, step.pod.name),
                         kMaxOutcomesOfAWorld);
      verdicts.truncated = verdicts.truncated || result.truncated;
      verdicts.intractable = verdicts.intractable || result.intractable;
      verdicts.endless = verdicts.endless || result.endless;
      for (const policy::Outcome& outcome : result.outcomes) {
        verdicts.branches.push_back(Resized(before, world, step, demand, outcome));
      }
    }
    if (verdicts.branches.size() > kMaxOutcomes) verdicts.truncated = true;
    if (verdicts.truncated) break;
  }
  std::set<World> after;
  for (Branch& branch : verdicts.branches) {
    branch.observed = step.observed && IsObservedResize(step, branch);
    after.insert(branch.after);
  }
  if (after.size() > kMaxWorlds) verdicts.truncated = true;
  return verdicts;
}

absl::Status Replay::Resize(const CaseStep& step, Json& answer) {
  answer["pod"] = step.pod.name;
  if (lost_) {
    answer["resize"] = nullptr;
    answer["settling"] = true;
    Lose(step.pod.name);
    return absl::OkStatus();
  }
  const Verdicts verdicts = AskToResize(step);
  if (verdicts.intractable) {
    answer["resize"] = nullptr;
    answer["unsupported"] = true;
    if (verdicts.endless) answer["endless"] = true;
  } else if (verdicts.truncated) {
    answer["resize"] = nullptr;
    answer["settling"] = true;
  } else {
    WriteResize(step.pod, verdicts, answer);
  }
  if (step.observed) return GoOnFromObservedResize(step, verdicts);
  if (verdicts.truncated || verdicts.intractable) {
    Lose(step.pod.name);
    return absl::OkStatus();
  }
  // A kubelet that goes on has not died.
  const bool lives = std::any_of(verdicts.branches.begin(), verdicts.branches.end(), Survives);
  std::set<World> after;
  for (const Branch& branch : verdicts.branches) {
    if (!lives || Survives(branch)) after.insert(branch.after);
  }
  worlds_ = std::move(after);
  return absl::OkStatus();
}

void Replay::WriteResize(const CasePod& pod, const Verdicts& verdicts, Json& answer) const {
  std::set<std::string> resizes;
  std::set<std::string> reasons;
  bool dies = false;
  for (const Branch& branch : verdicts.branches) {
    resizes.emplace(policy::ResizeVerdictName(branch.resize));
    if (!branch.admitted) reasons.insert(branch.why_not);
    dies = dies || !Survives(branch);
  }
  if (resizes.size() == 1) {
    answer["resize"] = *resizes.begin();
  } else {
    answer["resize"] = nullptr;
    answer["resizes"] = resizes;
  }
  if (!reasons.empty()) {
    if (resizes.size() == 1 && reasons.size() == 1) answer["reason"] = *reasons.begin();
    answer["reasons"] = reasons;
  }
  if (verdicts.admits()) WriteContainers(pod, verdicts, answer);
  if (dies) return;
  if (verdicts.refuses()) WriteHeld(pod, verdicts, answer);
  std::vector<const World*> after;
  for (const Branch& branch : verdicts.branches) after.push_back(&branch.after);
  WriteBooks(after, answer);
}

// Which containers have anything, and which CPUs and memory, is known or nothing is said.
void Replay::WriteHeld(const CasePod& pod, const Verdicts& verdicts, Json& answer) const {
  std::vector<const std::vector<Given>*> given;
  for (const Branch& branch : verdicts.branches) {
    if (!branch.admitted) given.push_back(&branch.given);
  }
  Json left = Json::array();
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    const Given nothing;
    const auto at = [&](const std::vector<Given>* containers) -> const Given& {
      return i < containers->size() ? (*containers)[i] : nothing;
    };
    const auto holds = [](const Given& one) {
      return !one.allocation.cpus.empty() || !one.memory.empty() || !one.devices.empty();
    };
    const Given& first = at(given.front());
    const bool known =
        std::all_of(given.begin(), given.end(), [&](const std::vector<Given>* containers) {
          const Given& other = at(containers);
          return holds(other) == holds(first) && other.memory == first.memory &&
                 other.allocation.cpus == first.allocation.cpus;
        });
    if (!known) return;
    if (!holds(first)) continue;
    Json container = {{"name", pod.containers[i].name}};
    Json devices = WriteDevices(given, i);
    if (!devices.empty()) container["devices"] = std::move(devices);
    if (!first.allocation.cpus.empty()) {
      container["cpus"] = policy::FormatCpuSet(first.allocation.cpus);
    }
    if (!first.memory.empty()) container["memory"] = WriteMemory(first.memory);
    left.push_back(std::move(container));
  }
  if (!left.empty()) answer["left"] = std::move(left);
}

bool Replay::Survives(const Branch& branch) {
  return branch.reason != policy::RefusalReason::kPanic;
}

bool Replay::IsObservedResize(const CaseStep& step, const Branch& branch) const {
  return policy::ResizeVerdictName(branch.resize) == step.observed->resize &&
         IsObserved(step, branch);
}

absl::Status Replay::GoOnFromObservedResize(const CaseStep& step, const Verdicts& verdicts) {
  const CaseObserved& observed = *step.observed;
  if (absl::Status status = CheckObserved(step.pod, observed); !status.ok()) return status;
  std::set<World> after;
  for (const Branch& branch : verdicts.branches) {
    if (branch.observed) after.insert(branch.after);
  }
  if (after.empty()) {
    // No world could do it, or nobody knows: as in GoOnFromObserved.
    bool truncated = false;
    for (const World& before : worlds_) {
      const auto had = before.pods.find(step.pod.name);
      if (had == before.pods.end()) {
        after.insert(before);
        continue;
      }
      for (World world : Released(before, truncated)) {
        ActivePod pod = ObservedPod(step.pod, observed);
        pod.started = had->second.started;
        pod.asked = observed.admitted ? IndexOf(step) : had->second.asked;
        world.compute.default_cpus |= had->second.holding.cpus;
        world.compute.default_cpus -= pod.holding.cpus;
        world.pods[step.pod.name] = std::move(pod);
        ImposeBooks(observed, world);
        after.insert(std::move(world));
      }
    }
  }
  worlds_ = std::move(after);
  return absl::OkStatus();
}

}  // namespace numafit::cli
