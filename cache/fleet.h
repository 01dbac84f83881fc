// The fleet's state: what every node's kubelet holds or may hold.
//
// Inventory comes from a fleet file or from the reports of node agents; Pods come from the API
// server's watch and count as predicted usage from the moment they are bound, whoever bound them,
// until a report lists them; a bind in flight is a reservation (cache/node_ledger.h).
//
// What a kubelet will do with Pods that it has not admitted yet depends on their order, which is
// not the order of the binds (kubernetes.md 2.9). A node therefore keeps every state that any order
// can lead to; a further Pod is only let in when all of them admit it, and past a bound the node is
// `settling` until its kubelet has shown that it admitted the Pods. Ask JudgeOnNode
// (cache/judge.h), not policy::Judge, about a node's state: it knows about the orders.
//
// Assumed of the cluster: a kubelet's statuses of the Pods of one node reach us in the order of its
// decisions, and a Pod that is Succeeded, Failed or gone holds nothing any more. A kubelet lets go
// of a deleted Pod's devices before the API server shows the Pod gone: while a Pod is being
// deleted, both count as possible. Not foreseen: that a Pod ends by itself, or is deleted, between
// a bind and the admission. Its room can draw a Pod that waits to another NUMA node than was
// counted with, and in rare cases from under a second one that waits; the states count it as soon
// as it is seen.
//
// Thread-safe. Readers take a shared lock for as long as they look and never wait for I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/mutex.h"
#include "api/objects.h"
#include "cache/counts.h"
#include "cache/demand.h"
#include "cache/fleet_file.h"
#include "cache/judge.h"
#include "cache/nominees.h"
#include "cache/places_table.h"
#include "cache/report_facts.h"
#include "cache/what_if.h"
#include "policy/alignment.h"
#include "policy/topology.h"

namespace numafit::v1alpha1 {
class NodeReportStatus;
}

namespace numafit::cache {

// One Pod on a node, for explanations.
struct PodOnNode {
  // In this order of trust; what is leaving may be there or not.
  enum class State {
    kReserved,   // a bind in flight
    kPredicted,  // bound; its devices are foretold
    kObserved,   // the last report, or the fleet file, says what it has
    kLeaving,    // it is being deleted, or has gone from one of the API server and the report
  };

  std::string name;  // namespace/name
  std::string uid;
  State state = State::kPredicted;
  bool admitted = false;  // its kubelet has shown that it admitted it
  policy::Demand demand;
  // What it holds in each possible state; empty: it may be anything.
  std::vector<policy::DeviceHolding> may_hold;
  // What each container was seen to hold; null: it was not seen, or holds neither accelerators nor
  // endpoints.
  PodPlaces places;

  // The same in every possible state, or empty when it is not.
  [[nodiscard]] policy::DeviceHolding held() const {
    return may_hold.size() == 1 ? may_hold.front() : policy::DeviceHolding();
  }
};

// "reserved", "predicted", "observed", "leaving".
[[nodiscard]] std::string_view PodStateName(PodOnNode::State state);

struct NodeView {
  std::string name;
  std::shared_ptr<const NodeState> state;  // never null; see NodeState::HasInventory
  bool stale = false;                      // its agent does not keep the report current
  // How long ago its agent was lost, as far as we have seen it go; else nothing.
  std::optional<std::int64_t> agent_lost_ms;
  std::shared_ptr<const ReportFacts> facts;  // of its report; null: there is none
  std::shared_ptr<const Nominees> nominees;  // Pods that are nominated to it; null: there are none
  // Why the last report was not taken; empty: it was.
  std::string report_error;
  // How far the node's clock is ahead of ours (negative: behind, or its report took that long), as
  // far as its last report shows it.
  std::optional<std::int64_t> clock_ahead_seconds;
  std::vector<PodOnNode> pods;
};

class Fleet {
 public:
  static constexpr std::int32_t kHighestPriority = std::numeric_limits<std::int32_t>::max();

  struct Options {
    DemandOptions demand;
    // More possible states of a node than this and it is settling.
    int max_states = 64;
    // More Pods bound and not yet admitted by the kubelet than this and the node is settling.
    int max_unadmitted = 5;
    // Nodes whose agent is lost: refuse Pods with devices (true), or go on with what was last
    // reported and the Pods that were bound since.
    bool refuse_stale = false;
    // How long a node takes no Pod like one that its kubelet has refused after the gate let it in;
    // 0: not at all. Needs `now_ms`, a clock that only goes forward.
    std::int64_t cool_down_ms = 0;
    std::function<std::int64_t()> now_ms;
    // The wall clock, in milliseconds since the epoch: what the agents' clocks are compared with.
    // Nothing: they are not.
    std::function<std::int64_t()> wall_ms;
  };

  // `classes` is copied. Pods of the file count as admitted.
  static absl::StatusOr<std::unique_ptr<Fleet>> FromFile(const FleetFile& file,
                                                         const api::ResourceClasses& classes,
                                                         Options options);
  // Nodes come with their first Pod or report and stay; without a report nothing fits
  // (policy::Reason::kNoReport).
  static std::unique_ptr<Fleet> FromReports(const api::ResourceClasses& classes, Options options);
  virtual ~Fleet() = default;

  // --- from the API server's watch of NodeReports; only for a Fleet made by FromReports ---
  struct ReportNews {
    // False: it is older than the last one (`outdated` says so with numbers), or `error` says what
    // is wrong with it. The state is what it was.
    bool applied = false;
    std::string error;
    std::string outdated;
    // Pods listed for the first time: with devices that had been foretold, and with others.
    int confirmed = 0;
    struct Difference {
      std::string pod;       // namespace/name
      std::string foretold;  // "nvidia.com/gpu 2 on NUMA 0; …", for people
      std::string observed;
    };
    std::vector<Difference> differences;
    // Pods whose accelerators and endpoints lie apart, each told once, and not before the API
    // server has shown it.
    struct Misaligned {
      std::string pod;  // namespace/name
      std::string uid;
      std::int64_t creation_time = 0;  // seconds since the epoch
      std::string text;                // "container main: nvidia.com/gpu on NUMA 0, …"
    };
    std::vector<Misaligned> misaligned;
  };
  virtual ReportNews UpsertReport(const std::string& node,
                                  const v1alpha1::NodeReportStatus& report) = 0;
  // The node has a report that cannot be read: what is known of it stays, and people are told why.
  virtual void RefuseReport(const std::string& node, const std::string& error) = 0;
  virtual void DeleteReport(const std::string& node) = 0;
  // Counts per NUMA node stand in for a report while there is none: kept beside it, and used again
  // when it is deleted. Returns what is wrong with them (cache/counts.h), or nothing; the state is
  // what it was then.
  virtual std::string UpsertCounts(const api::NodeResourceTopology& counts,
                                   const NodeFacts& facts) = 0;
  virtual void DeleteCounts(const std::string& node) = 0;
  // Whether the node's agent is there to keep its report current. A report counts as current until
  // told otherwise.
  virtual void SetAgentReady(const std::string& node, bool is_ready) = 0;

  // --- from the API server's watch (kube::WatchHandlers) ---
  // The complete set of Pods; those of the cluster that are not in it are gone. Reservations stay.
  virtual void ReplacePods(const std::vector<api::Pod>& pods) = 0;
  // True: the news are that its kubelet has refused a Pod that we had let in (the first time that
  // they come).
  virtual bool UpsertPod(const api::Pod& pod) = 0;
  virtual void DeletePod(const api::Pod& pod) = 0;
  // Ends cool-downs whose time is over. Call every second or so.
  virtual void EndCoolDowns() = 0;

  // --- nominations: Pods without a node for which kube-scheduler has chosen one ---
  // kube-scheduler counts what they ask for against every Pod of at most their priority, and tells
  // extenders nothing about it (kubernetes.md 1.4): whoever asks the readers below looks at
  // NomineesOf, too; Reserve does. A Pod that has a node, or no nomination, or that has ended, is
  // no nominee any more; one nominated to a node that a fleet file does not name is none.
  virtual void ReplaceNominees(const std::vector<api::Pod>& pods) = 0;
  virtual void UpsertNominee(const api::Pod& pod) = 0;
  virtual void DeleteNominee(std::string_view uid) = 0;

  // --- the gate (design 5) ---
  // Re-admits `demand` on `node` against everything that is known and, when it fits, reserves it
  // under `uid` in the same critical section. A uid that already holds a place on this node gets
  // Fits without a second reservation; one that holds a place on another node is refused as
  // kKubeletRefuses with its own message in `error`. Nobody's room is kept from a Pod whose
  // `priority` is the highest possible.
  struct ReserveResult {
    policy::Judgement judgement;
    bool already_here = false;
    std::string error;  // unknown node, bound elsewhere
    // What to write into numafit.io/placement: JSON, one entry per container.
    std::string placement;
  };
  virtual ReserveResult Reserve(std::string_view node, std::string_view uid,
                                std::string_view pod_name, const policy::Demand& demand,
                                std::int32_t priority = kHighestPriority) = 0;
  // The bind happened: the reservation becomes predicted usage (the watch will show the Pod).
  virtual void Commit(std::string_view uid) = 0;
  // The bind did not happen.
  virtual void Release(std::string_view uid) = 0;

  // --- preemption ---
  // The verdict about `demand` on `node` once the Pods with these uids have left it, whose other
  // news have come as they are now. Takes its own lock; costs about one filter of one node for each
  // Pod that waits.
  [[nodiscard]] virtual policy::Judgement JudgeWithout(std::string_view node,
                                                       const std::vector<std::string>& uids,
                                                       const policy::Demand& demand) const = 0;
  // Who could be asked to leave: Pods that the API server shows on the node, that hold something,
  // and that are not leaving.
  struct Victim {
    std::string uid;
    std::int32_t priority = 0;
  };
  [[nodiscard]] virtual std::vector<Victim> VictimsOn(std::string_view node) const = 0;

  // --- planning (cache/what_if.h) ---
  // A copy on which Pods can be placed that do not exist; made as they are placed. Where several
  // nodes fit, the best by `strategy` (null: the first) takes the Pod.
  [[nodiscard]] virtual std::unique_ptr<WhatIf> MakeWhatIf(
      const policy::ScoreStrategy* strategy) const = 0;

  // --- readers ---
  // Nodes are numbered 0..n-1 and keep their number for the life of the Fleet. n grows with the
  // first news of a node, never while somebody holds a ReadGuard. The functions below that take a
  // ReadGuard see one consistent state of each node while it lives. Do not change the fleet (watch,
  // gate) from the thread that holds one.
  class ReadGuard {
   public:
    explicit ReadGuard(const Fleet& fleet) : lock_(fleet.mutex_) {}

   private:
    api::ReaderLock lock_;
  };
  [[nodiscard]] virtual std::size_t size() const = 0;
  // -1 when unknown. `hint` is tried first: pass the index expected next.
  [[nodiscard]] virtual int FindNode(const ReadGuard&, std::string_view name, int hint) const = 0;
  [[nodiscard]] virtual std::string_view NodeName(const ReadGuard&, int index) const = 0;
  // Never null for a valid index.
  [[nodiscard]] virtual const NodeState* State(const ReadGuard&, int index) const = 0;
  // State ids by node index: a contiguous array for the hot path. A node that is as it was once has
  // the id again that it had then.
  [[nodiscard]] virtual const std::uint64_t* StateIds(const ReadGuard&) const = 0;
  // By node index: how often its state has changed, from 1. Who looks from time to time sees that
  // it has, also where it is as it was again.
  [[nodiscard]] virtual const std::uint64_t* Changes(const ReadGuard&) const = 0;
  // Whether any node has nominees: without them there is nothing more to ask.
  [[nodiscard]] virtual bool HasNominees(const ReadGuard&) const = 0;
  // Null: the node has none. A Pod that fits has to leave them their room.
  [[nodiscard]] virtual const Nominees* NomineesOf(const ReadGuard&, int index) const = 0;
  // Copies, for explanations, in the order of the file, else by name; takes its own lock. Without
  // nodes of which nothing is known any more.
  [[nodiscard]] virtual std::vector<NodeView> Snapshot() const = 0;

  struct Stats {
    std::size_t nodes = 0;             // with an inventory
    std::size_t file_nodes = 0;        // of a fleet file
    std::size_t reported_nodes = 0;    // by a NodeReport
    std::size_t counted_nodes = 0;     // by a NodeResourceTopology alone
    std::size_t unreported_nodes = 0;  // with Pods and without an inventory
    std::size_t stale_nodes = 0;
    std::size_t away_nodes = 0;  // their kubelet does not answer
    std::size_t cooling_nodes = 0;
    // Running containers whose accelerators and endpoints lie on different NUMA nodes, as reported.
    std::int64_t misaligned_containers = 0;
    std::size_t distinct_states = 0;
    std::size_t settling_nodes = 0;
    std::size_t pods = 0;
    std::size_t reservations = 0;
    // Pods that our model says their kubelet cannot have admitted (bound by others).
    std::size_t contradictions = 0;
  };
  [[nodiscard]] virtual Stats stats() const = 0;

 protected:
  mutable api::SharedMutex mutex_;
};

}  // namespace numafit::cache
