// One node's ledger: what its agent saw, what was bound since, what is about to be bound.
//
// Trust in this order (design 4): *observed*, what the last report lists; *predicted*, bound and
// not listed yet: the devices that policy::Admit foretells; *reserved*, a bind in flight, which
// counts like a prediction. Each report makes the node's possible states anew from what it lists,
// and the Pods that it does not list yet are foretold from there.
//
// Rules that keep the picture on the safe side of lag:
// * A Pod that no report has listed yet is foretold, however long ago it was bound. So is one that
// a
//   report lists with less than it asks for, as long as its status does not show that it was
//   admitted: the agent looked while the kubelet was giving it one resource after the other.
// * A Pod that the API server shows ended or gone, and that the last report still lists, counts as
//   leaving until a report comes without it: only then will the kubelet's next admission find its
//   room.
// * A Pod that a report lists and that the API server does not show counts as leaving, too: one of
//   the two is late.
// * A Pod that reports have listed and do not list any more, while the API server still shows it
//   running, counts as leaving as well: the kubelet is ahead of its statuses, or starting again.
//
// A node without an agent may have counts instead (ObserveCounts): what they say is in use is
// nobody's in particular. As many of the bound Pods as it can be, those that were admitted first
// before the others, are taken to be in it; the others are foretold on top, however long that
// lasts: so what is in use is never less than what the bound Pods ask for.
//
// Without reports (an inventory from a file, an agent that is lost) the API server's word counts at
// once. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/counts.h"
#include "cache/judge.h"
#include "cache/places_table.h"
#include "cache/possible_states.h"
#include "cache/report.h"
#include "policy/demand.h"
#include "policy/usage.h"

namespace numafit::cache {

// A Pod on a node, or on its way there. Owned by the Fleet; the ledger keeps the parts below the
// line.
struct LedgerPod {
  static constexpr PossibleStates::Handle kHoldsNothing = -1;

  std::string key;   // uid, without one namespace/name
  std::string name;  // namespace/name
  // What its kubelet calls a static Pod, whose object has a uid of its own; empty for others.
  std::string static_uid;
  int node = -1;
  // Null: only a report has shown the Pod.
  std::shared_ptr<const policy::Demand> demand;
  std::int32_t priority = 0;
  std::int64_t creation_time = 0;  // seconds since the epoch
  bool misalignment_told = false;  // somebody has been told that it is misaligned
  // numafit.io/placement of a Pod that ran when it was first seen.
  std::string placement;
  bool from_file = false;
  bool seen = false;      // the API server has shown it on its node
  bool reserved = false;  // a bind in flight
  bool admitted = false;  // its status shows that its kubelet admitted it
  bool leaving = false;   // it is being deleted
  bool gone = false;      // ended or deleted, says the API server
  // --- kept by the ledger
  PossibleStates::Handle handle = kHoldsNothing;
  bool listed = false;         // in the last report
  bool listed_before = false;  // in some report of this agent
  bool counted = false;        // in what the last counts say is in use
  policy::Holding held;        // as last listed, in terms of `held_in`
  std::shared_ptr<const policy::Topology> held_in;
  PodPlaces places;  // as last listed, or as a file says; for people
  std::uint64_t admitted_at =
      0;  // orders those that were seen to be admitted; 0: ran when first seen
};

class NodeLedger {
 public:
  explicit NodeLedger(PossibleStates::Limits limits) : limits_(limits) {}

  // An inventory that does not change, from a file.
  void SetTopology(std::shared_ptr<const policy::Topology> topology);

  // What a report said about the Pods that had been foretold.
  struct Comparison {
    struct Difference {
      const LedgerPod* pod = nullptr;
      std::vector<policy::DeviceHolding> foretold;
    };
    int confirmed = 0;  // listed for the first time, with devices that were foretold
    std::vector<Difference> differences;
    // Gone, and not listed any more: the ledger has let go of them.
    std::vector<LedgerPod*> ended;
  };
  // Takes a report. `listed` has the ledger's Pod of each reported one, in the report's order; it
  // may be new to the ledger.
  Comparison Observe(const ReportedNode& report, const std::vector<LedgerPod*>& listed);
  // Takes counts, in place of earlier ones. Only while there is no report, which outranks them.
  void ObserveCounts(const CountedNode& counts);
  [[nodiscard]] bool has_counts() const { return somebody_.has_value(); }
  // There is no report any more, or there are no counts: no inventory. Returns the Pods that the
  // ledger has let go of: those that only the report had shown, and those that were gone already.
  std::vector<LedgerPod*> LoseReport();
  // Whether an agent keeps the report current. Without one the API server's word about the end of a
  // Pod counts at once. Returns what LoseReport does.
  std::vector<LedgerPod*> SetCurrent(bool is_current);
  // Whether this report is older than the last one of the same boot.
  [[nodiscard]] bool IsOutdated(const ReportedNode& report) const {
    return report.boot_id == boot_id_ && report.generation < generation_;
  }
  // Whether it is the one that follows on the last one.
  [[nodiscard]] bool IsNext(const ReportedNode& report) const {
    return has_report_ && report.boot_id == boot_id_ &&
           report.generation == std::int64_t{generation_} + 1;
  }
  // Of the last report.
  [[nodiscard]] std::int32_t generation() const { return generation_; }

  // The Pod goes by its flags. `devices`: what it is known to have, of a file.
  void Add(LedgerPod& pod, const std::optional<policy::DeviceHolding>& devices = std::nullopt);
  // The API server shows a Pod that only a report had shown.
  void Introduce(LedgerPod& pod, std::shared_ptr<const policy::Demand> demand);
  void ShowAdmitted(LedgerPod& pod);
  void StartLeaving(LedgerPod& pod);
  // The Pod ended or is deleted. True: the ledger has let go of it; false: a report lists it, it is
  // marked as gone and stays until a report comes without it.
  bool End(LedgerPod& pod, bool never_admitted);

  [[nodiscard]] const std::vector<LedgerPod*>& pods() const { return pods_; }
  [[nodiscard]] const std::shared_ptr<const policy::Topology>& topology() const {
    return topology_;
  }
  [[nodiscard]] bool has_report() const { return has_report_; }
  // As last reported.
  [[nodiscard]] std::int32_t misaligned_containers() const { return misaligned_containers_; }
  // Pods that our model says their kubelet cannot have admitted, and has all the same.
  [[nodiscard]] int Contradictions() const;
  [[nodiscard]] bool Contradicts(const LedgerPod& pod) const;
  // The devices that the Pod holds in each possible state; empty when it may be anything.
  [[nodiscard]] std::vector<policy::DeviceHolding> HeldBy(const LedgerPod& pod) const;
  // None: no inventory.
  [[nodiscard]] const std::optional<PossibleStates>& states() const { return states_; }
  [[nodiscard]] std::optional<NodeState> Describe() const;
  // The same as if these Pods (by key) had left.
  [[nodiscard]] std::optional<NodeState> DescribeWithout(
      const std::vector<std::string>& keys) const;

 private:
  [[nodiscard]] bool IsForetold(const LedgerPod& pod) const;
  // The kubelet is still at it.
  [[nodiscard]] bool IsPartial(const LedgerPod& pod, const ReportedNode& report,
                               const policy::Holding& held) const;
  void MarkCounted(const CountedNode& counts);
  [[nodiscard]] NodeState Describe(const PossibleStates& states) const;
  void Rebuild();
  void AddListed(LedgerPod& pod);
  void AddVanished(LedgerPod& pod);
  [[nodiscard]] bool HasRoomFor(const policy::Holding& held) const;
  void AddForetold(LedgerPod& pod);
  std::vector<LedgerPod*> LetGoOfEnded();
  void Drop(const LedgerPod& pod);

  PossibleStates::Limits limits_;
  std::shared_ptr<const policy::Topology> topology_;
  std::optional<PossibleStates> states_;  // none: no inventory
  std::vector<LedgerPod*> pods_;
  std::uint64_t admissions_ = 0;

  bool has_report_ = false;
  bool is_current_ = true;
  std::string boot_id_;
  std::int32_t generation_ = 0;
  std::int32_t misaligned_containers_ = 0;
  std::optional<policy::Holding> somebody_;  // what the counts say is in use; none: no counts
  policy::ComputeState books_;               // as last reported
  policy::ComputeState expected_books_;      // with those that have vanished from it
};

}  // namespace numafit::cache
