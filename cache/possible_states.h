// Every state that one kubelet may be in, as far as numafit can know.
//
// What a kubelet holds is decided by the order in which it admits Pods and by its random picks;
// neither is visible from outside. So a node keeps every combination that is still possible: a
// *world* says of every Pod whether the kubelet has admitted it, and which devices it then holds.
// The set is closed: from each world, any Pod that waits may be admitted next, with each outcome
// that policy::Admit foretells; a Pod that is being deleted may have gone at any moment, because
// its kubelet lets go of the devices up to a second or two before the API server shows the Pod
// gone. News narrows the set (a Pod shows that it was admitted) or opens it (a Pod leaves: those
// that wait may find more room).
//
// Which CPUs and which memory a Pod has follows from the order alone; each world keeps the books of
// the static managers. CPU ids that come to the same are made the same (cache/books.h).
//
// The set is bounded. Past the bound the node goes *loose*: of the Pods that may hold one thing or
// another only the number of devices is kept, and every way in which the kubelet may have spread
// them counts as possible. That is a superset, so nothing is over-committed. Kubelets that decide
// on counts alone lose nothing; on others (Topology::OrderMatters) nothing is let in while Pods
// wait, and afterwards only what fits however they are spread. With static managers nothing is let
// in until the Pods whose CPUs and memory are not known any more are gone.
//
// Not thread-safe. Costs a few admissions per change, microseconds each; at most
// `max_worlds` times the number of waiting Pods.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "cache/judge.h"
#include "cache/spreads.h"
#include "policy/admit.h"
#include "policy/demand.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::cache {

class PossibleStates {
 public:
  struct Limits {
    int max_states = 64;     // distinct usages once everybody is admitted
    int max_unadmitted = 5;  // Pods that wait, where their order matters
  };
  // Names a Pod of this node; never reused.
  using Handle = int;

  PossibleStates(std::shared_ptr<const policy::Topology> topology, Limits limits);

  // A Pod that is bound and that the kubelet may admit at any time from now on.
  Handle AddWaiting(std::shared_ptr<const policy::Demand> demand);
  // A Pod that runs and holds one of these; none given: anything that the kubelet may have picked.
  // Which CPUs and memory it has is foretold.
  Handle AddRunning(std::shared_ptr<const policy::Demand> demand,
                    const std::vector<policy::DeviceHolding>& held);
  // The books as the kubelet's state files have them. Before any Pod is added.
  void SetBooks(const policy::ComputeState& books);
  // A Pod that was seen to hold this, which SetBooks has accounted for. Its demand need not be
  // known. Before any Pod is added that is not observed.
  Handle AddObserved(const policy::Holding& held);
  // A Pod that runs, of which nothing is known but what it asked for: it may have been admitted
  // when others were there.
  Handle AddUnknown(std::shared_ptr<const policy::Demand> demand);
  // The kubelet has shown that it admitted the Pod. No-op when it has before.
  void ShowAdmitted(Handle pod);
  // The Pod is being deleted: from now on it may have gone in the eyes of its kubelet. No-op when
  // told before.
  void StartLeaving(Handle pod);
  // The Pod is gone and holds nothing. `never_admitted`: the kubelet refused it, or it was never
  // bound.
  void Remove(Handle pod, bool never_admitted);

  // The devices that the Pod holds in each possible state, admitted or not yet: empty when it may
  // be anything.
  [[nodiscard]] std::vector<policy::DeviceHolding> HeldBy(Handle pod) const;
  [[nodiscard]] bool IsLeaving(Handle pod) const;
  // The model says that the kubelet cannot have admitted this Pod (and it may have all the same).
  [[nodiscard]] bool Contradicts(Handle pod) const;
  [[nodiscard]] const std::shared_ptr<const policy::Topology>& topology() const {
    return topology_;
  }

  // Everything that a verdict depends on. Without id.
  [[nodiscard]] NodeState Describe() const;

 private:
  struct World {
    // One per slot: an index into Slot::holdings, or one of the constants below.
    absl::InlinedVector<std::int16_t, 12> places;
    // The books, which depend on the way here.
    policy::ComputeState compute;

    std::int16_t& operator[](std::size_t slot) { return places[slot]; }
    std::int16_t operator[](std::size_t slot) const { return places[slot]; }
    friend bool operator==(const World&, const World&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const World& world) {
      return H::combine(std::move(state), world.places, world.compute.default_cpus);
    }
  };
  static constexpr std::int16_t kWaiting = -1;
  static constexpr std::int16_t kRefused = -2;
  static constexpr std::int16_t kLoose = -3;
  static constexpr std::int16_t kGone = -4;
  [[nodiscard]] std::size_t MaxWorlds() const;

  struct Slot {
    Handle handle = 0;
    std::shared_ptr<const policy::Demand> demand;  // null: observed
    std::vector<policy::Holding> holdings;         // the alternatives that worlds point at
    bool admitted = false;
    bool leaving = false;
    bool loose = false;
    bool contradiction = false;  // shown admitted against the model
    PoolTotals totals;           // what it holds in all, whatever the pick
  };

  [[nodiscard]] std::size_t IndexOf(Handle pod) const;
  [[nodiscard]] int WaitingPods() const;
  [[nodiscard]] bool AnyLeaving() const;
  [[nodiscard]] policy::Usage UsageOf(const World& world) const;
  [[nodiscard]] PoolTotals LooseTotals() const;
  // Nobody waits.
  [[nodiscard]] bool IsSettled(const World& world) const;
  // Nobody waits and nobody who is leaving is still there: no further step.
  [[nodiscard]] bool IsFinal(const World& world) const;
  static std::int16_t IndexOfHolding(Slot& slot, const policy::Holding& holding);

  Slot& NewSlot(std::shared_ptr<const policy::Demand> demand, bool admitted);
  // What the Pod of the slot may hold, going by what is known of it alone.
  [[nodiscard]] std::vector<policy::Holding> PicksOf(const Slot& slot) const;
  // Adds every world that some order leads to, or goes loose.
  void Close();
  [[nodiscard]] bool TryClose();
  [[nodiscard]] bool WithinBounds() const;
  void ResetBooks();
  void UseLowestCpusIn(World& world);
  // Gives CPUs the lowest ids that come to the same, and drops worlds that are there twice.
  void Deduplicate();
  // Adds the worlds in which the Pod of the slot has left `world`. False: too many.
  [[nodiscard]] bool Depart(const World& world, std::size_t slot, std::vector<World>& worlds) const;
  [[nodiscard]] bool MayHoldBooks(const Slot& slot) const;
  // Admits the Pod of the slot in every world, with these devices. False: too many, or it cannot
  // be.
  [[nodiscard]] bool AdmitInEveryWorld(std::size_t slot,
                                       const std::vector<policy::DeviceHolding>& held);
  // Keeps only totals of the Pods that may hold one thing or another.
  void GoLoose();
  // Goes back to worlds when there are few enough.
  void Tighten();
  // Multiplies the worlds by what the Pod may hold. False: too many; the worlds are spoiled.
  [[nodiscard]] bool Multiply(std::size_t slot, const std::vector<policy::Holding>& alternatives);
  void DescribeLoose(NodeState& state) const;
  void DescribePending(NodeState& state) const;

  std::shared_ptr<const policy::Topology> topology_;
  Limits limits_;
  std::vector<Slot> slots_;
  std::vector<World> worlds_;  // at least one; the same length each, one entry per slot
  bool loose_ = false;         // some slots are
  Handle next_handle_ = 0;
};

}  // namespace numafit::cache
