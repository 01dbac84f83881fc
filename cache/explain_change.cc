#include "cache/explain_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "cache/explain_compute.h"
#include "cache/free_devices.h"
#include "policy/numa_subsets.h"
#include "policy/unit_room.h"

namespace numafit::cache {
namespace {

using policy::Demand;
using policy::NumaMask;
using policy::RefusalReason;
using policy::Requests;
using policy::Topology;
using policy::Usage;

constexpr std::size_t kMostTexts = 2;
constexpr std::int64_t kGi = std::int64_t{1} << 30;
// Smaller requests that are tried one by one.
constexpr std::int64_t kMostSteps = 64;

// One thing that the refused unit asks for: devices of a resource, CPUs ("cpu") or "memory".
struct Wanted {
  std::string resource;
  std::int64_t amount = 0;
  int pool = -1;
};

std::string AmountText(const Wanted& wanted, std::int64_t amount) {
  if (wanted.resource == "cpu") return fmt::format("{} CPU{}", amount, amount == 1 ? "" : "s");
  if (wanted.resource == "memory") return fmt::format("{} of memory", BytesText(amount));
  return fmt::format("{} {}", amount, ShortName(wanted.resource));
}

class Search {
 public:
  Search(const NodeState& state, const Demand& demand, const policy::Judgement& judgement)
      : state_(state),
        topology_(*state.topology),
        demand_(demand),
        judgement_(judgement),
        container_(static_cast<std::size_t>(judgement.refused_container)),
        requests_(policy::AllUnitRequests(topology_, demand, container_)) {
    for (const policy::DeviceRequest& request : requests_.devices) {
      const auto& pool = topology_.pools()[static_cast<std::size_t>(request.pool)];
      wanted_.push_back({pool.resource, request.count, request.pool});
    }
    std::stable_partition(wanted_.begin(), wanted_.end(), [&](const Wanted& wanted) {
      return std::binary_search(demand_.accelerators.begin(), demand_.accelerators.end(),
                                wanted.resource);
    });
    if (requests_.cpus > 0) wanted_.push_back({"cpu", requests_.cpus, -1});
    if (!requests_.asks_memory) return;
    for (const policy::MemoryRequests::Item& item : requests_.memory.items) {
      if (item.type != policy::kMemoryType) continue;
      wanted_.push_back({"memory", static_cast<std::int64_t>(item.bytes), -1});
    }
  }

  Changes Run() {
    WithoutZeroLimits();
    WholeCores();
    WithoutInitDevices();
    if (topology_.kubelet().policy == policy::TopologyPolicy::kRestricted) EqualWidths();
    Fewer();
    if (requests_.cpus > 0 || requests_.asks_memory) Burstable();
    return std::move(changes_);
  }

 private:
  // What amounts of it are tried in.
  [[nodiscard]] std::int64_t StepOf(const Wanted& wanted) const {
    if (wanted.resource == "memory") return kGi;
    if (wanted.resource != "cpu" || !topology_.cpu_manager()->options().full_pcpus_only) return 1;
    return topology_.cpu_manager()->topology().CpusPerCore();
  }
  [[nodiscard]] bool IsDone() const {
    return changes_.texts.size() >= kMostTexts || tries_ >= kMostTries;
  }

  bool Passes(const Demand& changed) {
    if (IsDone()) return false;
    ++tries_;
    return policy::Judge(topology_, state_.knowledge, changed, nullptr).fits();
  }
  bool Try(const Demand& changed, std::string text) {
    if (!Passes(changed)) return false;
    changes_.texts.push_back(std::move(text));
    return true;
  }

  // Makes the unit ask for so much of it. False when no container asks for any.
  bool Set(Demand& changed, const Wanted& wanted, std::int64_t amount) const {
    const bool pod = topology_.kubelet().scope == policy::TopologyScope::kPod;
    std::int64_t* most = nullptr;
    for (std::size_t i = 0; i < changed.containers.size(); ++i) {
      if (!pod && i != container_) continue;
      auto& amounts =
          wanted.pool >= 0 ? changed.containers[i].devices : changed.containers[i].requests;
      const auto found = amounts.find(wanted.resource);
      if (found == amounts.end()) continue;
      if (most == nullptr || found->second > *most) most = &found->second;
    }
    if (most == nullptr) return false;
    *most += (amount - wanted.amount) * (wanted.pool >= 0 ? 1 : 1000);
    return *most > 0;
  }

  void WithoutZeroLimits() {
    Demand changed = demand_;
    std::string text;
    for (policy::ContainerDemand& container : changed.containers) {
      std::erase_if(container.devices, [&](const auto& item) {
        if (item.second != 0) return false;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", item.first);
        return true;
      });
    }
    if (text.empty() || !Try(changed, fmt::format("without the limit of 0 {}", text))) return;
    std::string fault = fmt::format(
        "A fault of the kubelet: it takes a limit of 0 {} for a request and wants NUMA nodes for "
        "it",
        text);
    if (topology_.kubelet().version.HintsOverDeviceNodesOnly()) {
      fault += ", since 1.36 only those that have such devices";
    }
    changes_.faults.push_back(fault + ".");
  }

  void WholeCores() {
    if (judgement_.kubelet_reason != RefusalReason::kSmtAlignmentError) return;
    const int threads = topology_.cpu_manager()->topology().CpusPerCore();
    const std::int64_t rest = requests_.cpus % threads;
    if (rest == 0) return;
    for (const std::int64_t cpus : {requests_.cpus - rest + threads, requests_.cpus - rest}) {
      const Wanted wanted{"cpu", requests_.cpus, -1};
      Demand changed = demand_;
      if (Set(changed, wanted, cpus)) {
        Try(changed, fmt::format("with {}", AmountText(wanted, cpus)));
      }
    }
  }

  // What an init container has left must be used again, wherever it is.
  void WithoutInitDevices() {
    using Kind = policy::ContainerDemand::Kind;
    if (topology_.kubelet().scope == policy::TopologyScope::kPod) return;
    for (std::size_t i = 0; i < container_; ++i) {
      const policy::ContainerDemand& init = demand_.containers[i];
      if (init.kind != Kind::kInit || init.devices.empty()) continue;
      Demand changed = demand_;
      changed.containers[i].devices.clear();
      if (!Try(changed, fmt::format("without devices for init container {}", init.name))) continue;
      changes_.faults.push_back(fmt::format(
          "A fault of the kubelet: what init container {} has had stays the Pod's, and in scope "
          "container every NUMA node of it must be among those of container {}.",
          init.name, demand_.containers[container_].name));
    }
  }

  [[nodiscard]] int WidthOf(const Wanted& wanted) const {
    if (wanted.resource == "cpu") {
      return topology_.cpu_manager()->topology().MinimalWidth(wanted.amount);
    }
    if (wanted.resource == "memory") {
      return policy::FewestNumaNodesOfMemory(topology_, requests_.memory);
    }
    return topology_.MinimalWidth(topology_.pools()[static_cast<std::size_t>(wanted.pool)],
                                  wanted.amount);
  }

  // The most that so many NUMA nodes could hold empty.
  [[nodiscard]] std::int64_t MostOn(const Wanted& wanted, int width) const {
    if (width == 0) return 0;
    if (wanted.pool >= 0) {
      const auto& most = topology_.pools()[static_cast<std::size_t>(wanted.pool)].most_touched;
      return most.empty() ? 0 : most[std::min(static_cast<std::size_t>(width), most.size() - 1)];
    }
    if (policy::SubsetsAreTooMany(topology_.numa().count(), width)) return 0;
    const Usage none(topology_);
    std::int64_t most = 0;
    policy::ForEachSubsetOfSize(topology_.numa(), width, [&](NumaMask mask) {
      most = std::max(most, wanted.resource == "cpu"
                                ? policy::CpusOn(topology_, mask, policy::Counted::kAll, none)
                                : policy::MemoryOn(topology_, mask, policy::kMemoryType,
                                                   policy::Counted::kAll, none));
      return true;
    });
    return most;
  }

  // The amount nearest to the wanted one whose fewest NUMA nodes are `width`.
  [[nodiscard]] std::int64_t NearestOfWidth(const Wanted& wanted, int width) const {
    const std::int64_t below = MostOn(wanted, width - 1);
    const std::int64_t most = MostOn(wanted, width);
    const std::int64_t step = StepOf(wanted);
    const std::int64_t least = (below / step + 1) * step;
    return wanted.amount < least ? least : most / step * step;
  }

  // restricted: everything on as few NUMA nodes as the one thing needs.
  void EqualWidths() {
    std::set<int, std::greater<>> widths;
    for (const Wanted& wanted : wanted_) {
      const bool aligned =
          wanted.pool < 0 || topology_.pools()[static_cast<std::size_t>(wanted.pool)].aligned;
      if (aligned && wanted.amount > 0) widths.insert(WidthOf(wanted));
    }
    if (widths.size() < 2) return;
    for (const int width : widths) {
      Demand changed = demand_;
      std::string text;
      bool possible = true;
      for (const Wanted& wanted : wanted_) {
        if (wanted.amount == 0 || WidthOf(wanted) == width) continue;
        if (wanted.pool >= 0 && !topology_.pools()[static_cast<std::size_t>(wanted.pool)].aligned) {
          continue;
        }
        const std::int64_t amount = NearestOfWidth(wanted, width);
        possible = possible && amount > 0 && Set(changed, wanted, amount);
        text += fmt::format("{}at {} {}", text.empty() ? "with " : " and ",
                            amount > wanted.amount ? "least" : "most", AmountText(wanted, amount));
      }
      if (possible) Try(changed, text);
    }
  }

  // Less of what is in the way; of anything, where no one thing is.
  void Fewer() {
    for (const Wanted& wanted : wanted_) {
      const bool in_the_way =
          judgement_.refused_resource.empty() || judgement_.refused_resource == wanted.resource;
      if (!in_the_way) continue;
      const std::int64_t most = LargestThatPasses(wanted, StepOf(wanted));
      if (most > 0) changes_.texts.push_back(fmt::format("with {}", AmountText(wanted, most)));
    }
  }

  bool PassesWith(const Wanted& wanted, std::int64_t amount) {
    Demand changed = demand_;
    return Set(changed, wanted, amount) && Passes(changed);
  }

  // Of the amounts below the wanted one, in steps; 0 when none was found. Goes down in sixteenths,
  // then looks closer.
  std::int64_t LargestThatPasses(const Wanted& wanted, std::int64_t step) {
    std::int64_t refused = (wanted.amount + step - 1) / step;
    std::int64_t passes = refused - 1;
    for (std::int64_t i = 0; passes > 0 && i < kMostSteps; ++i) {
      if (PassesWith(wanted, passes * step)) break;
      refused = passes;
      passes -= std::max<std::int64_t>(1, passes / 16);
    }
    if (passes <= 0 || !PassesWith(wanted, passes * step)) return 0;
    while (refused - passes > 1) {
      const std::int64_t middle = passes + (refused - passes) / 2;
      (PassesWith(wanted, middle * step) ? passes : refused) = middle;
    }
    return passes * step;
  }

  void Burstable() {
    Demand changed = demand_;
    changed.qos = policy::QosClass::kBurstable;
    Try(changed,
        "as a Burstable Pod (a CPU or memory request below its limit), on CPUs and memory that it "
        "shares");
  }

  const NodeState& state_;
  const Topology& topology_;
  const Demand& demand_;
  const policy::Judgement& judgement_;
  std::size_t container_;
  Requests requests_;
  std::vector<Wanted> wanted_;
  Changes changes_;
  int tries_ = 0;
};

}  // namespace

Changes ChangesThatPass(const NodeState& state, const Demand& demand,
                        const policy::Judgement& judgement) {
  const bool refused = judgement.reason == policy::Reason::kKubeletRefuses ||
                       judgement.reason == policy::Reason::kNumaFragmented ||
                       judgement.reason == policy::Reason::kNeverFits;
  if (!refused || judgement.refused_container < 0 ||
      judgement.kubelet_reason == RefusalReason::kNone) {
    return {};
  }
  return Search(state, demand, judgement).Run();
}

std::string VersionNote(const policy::KubeletVersion& version) {
  if (version.IsKnown()) return {};
  const bool older = version < policy::KubeletVersion{1, policy::KubeletVersion::kOldestMinor};
  return fmt::format(
      "Kubelet {}.{} is {} than those whose rules are known here: judged by the rules of 1.{}.",
      version.major, version.minor, older ? "older" : "newer",
      older ? policy::KubeletVersion::kOldestMinor : policy::KubeletVersion::kNewestMinor);
}

}  // namespace numafit::cache
