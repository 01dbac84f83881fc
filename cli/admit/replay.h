// Plays the steps of one case through policy::Admit.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/admit/case.h"
#include "cli/admit/device_kinds.h"
#include "cli/admit/world.h"
#include "nlohmann/json_fwd.hpp"
#include "policy/admit.h"
#include "policy/memory_manager/memory_manager.h"
#include "policy/readmission.h"
#include "policy/resize.h"

namespace numafit::cli {

// The state of the node is one of `worlds_`: who holds how many devices of which kind, which CPUs
// and which memory. Every world that the kubelet may be in is there, bounded by kMaxWorlds; past
// the bound the Pods that were not followed are `lost_pods_`, and until the last of them is gone
// nothing is claimed.
class Replay {
 public:
  static constexpr std::size_t kMaxWorlds = 512;

  explicit Replay(const Case& replayed);

  // Before the first step: a kubelet would not start like this.
  [[nodiscard]] absl::Status Start();
  // The answer to one step, {} for all but admit, start, restart and resize. A step of the case.
  [[nodiscard]] absl::Status Play(const CaseStep& step, nlohmann::ordered_json& answer);
  // The kubelet does not start again: there are no answers to later steps.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  using Kinds = policy::DeviceHolding;  // counts by kind
  // What one outcome gives the containers of the Pod.
  struct Given {
    policy::ContainerAllocation allocation;
    Kinds devices;
    policy::MemoryBlocks memory;  // after later containers have used some of it again
  };
  // One outcome in one world.
  struct Branch {
    bool admitted = false;  // or the resize is taken
    policy::RefusalReason reason = policy::RefusalReason::kNone;
    // Of a resize.
    policy::ResizeVerdict resize = policy::ResizeVerdict::kNone;
    std::string why_not;
    std::vector<Given> given;  // by container; when refused, those before the refusal
    policy::HeldAsAWhole as_a_whole;
    World after;
    bool observed = false;  // can be what was observed
  };
  struct Verdicts {
    std::vector<Branch> branches;
    // Some outcomes were left out, and the verdict is unknown, or only where things land.
    bool unknown = false;
    bool truncated = false;
    // In some outcome the kubelet would search for minutes, or for ever.
    bool intractable = false;
    bool endless = false;
    bool same_affinities = true;
    std::size_t worlds = 0;  // that were asked

    [[nodiscard]] bool admits() const;
    [[nodiscard]] bool refuses() const;
  };

  absl::Status Rebuild();
  [[nodiscard]] policy::Usage UsageOf(const World& world) const;
  [[nodiscard]] Kinds KindsOf(const policy::DeviceHolding& holding) const;
  // The worlds that this one may be once the kubelet has released those that leave.
  [[nodiscard]] std::vector<World> Released(const World& world, bool& truncated) const;

  absl::Status Admit(const CaseStep& step, nlohmann::ordered_json& answer);
  void Remove(const std::string& pod);
  absl::Status Start(const CaseStep& step, nlohmann::ordered_json& answer);
  // Whether the kubelet asks its managers at all: not for a Pod without containers, but in pod
  // scope.
  [[nodiscard]] bool AsksAnybody(const CasePod& pod) const;
  [[nodiscard]] Verdicts Ask(const CaseStep& step) const;
  // `before` is the world as it was, `world` the same with those that leave released.
  void Collect(const World& before, const World& world, const policy::AdmitResult& result,
               const CaseStep& step, const policy::Demand& demand, Verdicts& verdicts) const;
  [[nodiscard]] Branch BranchOf(const World& before, const World& world,
                                const policy::Outcome& outcome, const CaseStep& step,
                                const policy::Demand& demand) const;
  // Without what becomes of the Pod.
  [[nodiscard]] Branch BranchOf(const World& world, const policy::Outcome& outcome) const;
  [[nodiscard]] ActivePod PodAfter(const policy::Outcome& outcome) const;
  // Which managers have given the Pod something, and what they remember of it if it stays.
  void NoteGiven(const std::string& pod, const policy::Demand& demand,
                 const policy::Outcome& outcome, bool stays, World& after) const;
  // `reached`: so many containers; `name` as in LastGiven.
  void NoteCpus(const std::string& name, const policy::Demand& demand,
                const policy::Outcome& outcome, std::size_t reached, LastGiven& last) const;
  // Which of the two books the kubelet has not tidied when it refuses the Pod like this.
  void KeepUntidied(const World& before, const policy::Outcome& outcome, World& after) const;

  struct KnownPod {
    std::size_t admission = 0;  // the order of the last one
    const CasePod* pod = nullptr;
  };
  // A restart, from one world.
  struct Rebirth {
    // The kubelet starts; kOrderDecides: perhaps.
    policy::MemoryManager::Restored restored = policy::MemoryManager::Restored::kAccepted;
    // The Pods that were active, oldest first.
    std::vector<const CasePod*> pods;
    std::vector<Branch> branches;  // of the Pods
    World after;
    bool intractable = false;
    bool endless = false;
  };
  absl::Status Restart(const CaseStep& step, nlohmann::ordered_json& answer);
  // What a new kubelet says to the state files of the old one.
  [[nodiscard]] policy::MemoryManager::Restored RestoredBooks(const World& world) const;
  [[nodiscard]] Rebirth Reborn(const World& world) const;
  void ReadmitPod(const CasePod& pod, Rebirth& way) const;
  void WriteReadmitted(const std::vector<Rebirth>& ways, nlohmann::ordered_json& answer) const;
  [[nodiscard]] bool IsObserved(const CaseObserved& observed, const Rebirth& way) const;
  absl::Status GoOnFromObservedRestart(const CaseObserved& observed, std::vector<Rebirth> ways);
  void LoseAll();

  absl::Status Resize(const CaseStep& step, nlohmann::ordered_json& answer);
  [[nodiscard]] Verdicts AskToResize(const CaseStep& step) const;
  // Nobody is asked: the Pod is not there, has these requests already, or can never have them.
  [[nodiscard]] Branch NotResized(const World& world, const ActivePod* active,
                                  policy::ResizeVerdict verdict, std::string_view why_not) const;
  [[nodiscard]] Branch Resized(const World& before, const World& world, const CaseStep& step,
                               const policy::Demand& demand, const policy::Outcome& outcome) const;
  [[nodiscard]] policy::RunningPod RunningPodOf(const World& world, const std::string& name) const;
  // `kinds` of the Pod or of a container.
  [[nodiscard]] policy::HeldDevices HeldDevicesOf(const Kinds& kinds) const;
  void WriteResize(const CasePod& pod, const Verdicts& verdicts,
                   nlohmann::ordered_json& answer) const;
  // What the containers of a Pod have that is not resized.
  void WriteHeld(const CasePod& pod, const Verdicts& verdicts,
                 nlohmann::ordered_json& answer) const;
  [[nodiscard]] static bool Survives(const Branch& branch);
  [[nodiscard]] bool IsObservedResize(const CaseStep& step, const Branch& branch) const;
  absl::Status GoOnFromObservedResize(const CaseStep& step, const Verdicts& verdicts);
  [[nodiscard]] std::size_t IndexOf(const CaseStep& step) const;

  [[nodiscard]] bool IsObserved(const CaseStep& step, const Branch& branch) const;
  // CPUs and memory.
  [[nodiscard]] bool GivesObserved(const CasePod& pod, const CaseObserved& observed,
                                   const Branch& branch) const;
  [[nodiscard]] bool GivesObservedDevices(const CasePod& pod, const CaseObserved& observed,
                                          const Branch& branch) const;
  [[nodiscard]] ActivePod ObservedPod(const CasePod& pod, const CaseObserved& observed) const;
  [[nodiscard]] bool HoldsObserved(const CaseHolding& observed, const Given& given) const;
  [[nodiscard]] bool BooksAreObserved(const CaseObserved& observed, const World& world) const;
  absl::Status GoOnFromObserved(const CaseStep& step, const Verdicts& verdicts);
  absl::Status CheckObserved(const CasePod& pod, const CaseObserved& observed) const;
  [[nodiscard]] absl::Status CheckMemory(const std::vector<CaseMemoryBlock>& blocks) const;
  // What was observed in the books replaces what the world says.
  void ImposeBooks(const CaseObserved& observed, World& world) const;
  void Lose(const std::string& pod);
  void Find();

  void Write(const CasePod& pod, const Verdicts& verdicts, nlohmann::ordered_json& answer) const;
  // Without the books after it.
  void WriteVerdict(const CasePod& pod, const Verdicts& verdicts, bool with_left,
                    nlohmann::ordered_json& answer) const;
  void WriteContainers(const CasePod& pod, const Verdicts& verdicts,
                       nlohmann::ordered_json& answer) const;
  void WriteAsAWhole(const Verdicts& verdicts, nlohmann::ordered_json& answer) const;
  void WriteLeft(const CasePod& pod, const Verdicts& verdicts,
                 nlohmann::ordered_json& answer) const;
  // The books, where they are the same in all these worlds.
  void WriteBooks(const std::vector<const World*>& worlds, nlohmann::ordered_json& answer) const;
  [[nodiscard]] nlohmann::ordered_json WriteMemory(const policy::MemoryBlocks& blocks) const;
  [[nodiscard]] nlohmann::ordered_json WriteDevices(
      const std::vector<const std::vector<Given>*>& given, std::size_t container) const;
  [[nodiscard]] std::map<std::string, int> CountByNumaSet(const Kinds& kinds, int pool) const;
  // Whether these kinds are all their devices, so that the ids are known.
  [[nodiscard]] bool IdsAreKnown(const Kinds& kinds, int pool) const;

  const Case& case_;
  DeviceKinds kinds_;
  DevicesByResource devices_;  // as last listed; unhealthy once disconnected
  OrderByResource prefer_;
  std::shared_ptr<const policy::Topology> topology_;
  std::vector<int> kind_of_class_;
  std::map<int, int> class_of_kind_;
  std::vector<std::string> numa_set_of_class_;

  std::set<std::string> resized_;  // Pods with a resize, now or later
  std::map<std::string, KnownPod> known_pods_;
  std::size_t admissions_ = 0;

  std::set<World> worlds_;
  std::set<std::string> lost_pods_;
  bool lost_ = false;  // lost_pods_, or what they have left in the books
  bool ended_ = false;
};

}  // namespace numafit::cli
