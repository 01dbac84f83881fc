// The one verdict about a Pod on a node: what filter, the gate, explain and capacity all call.
//
// policy::Judge answers for a kubelet whose state is known up to a set of possibilities. Here the
// Pods come in that are bound and that the kubelet has not admitted yet: it may admit them and the
// new one in any order (docs/architecture.md). The new Pod is let in only when
//   1. the kubelet admits it after all of them, in every possible state (policy::Judge),
//   2. it is admitted, and so are all of them, whatever the order, and
//   3. the order does not change which devices anybody gets, but for Pods that ask for the same,
//      which may change places.
// Where 1 holds and 2 or 3 does not, waiting resolves it: the answer is kSettling. So does a Pod
// that is being deleted: a new Pod is let in beside it only when it gets the same devices whether
// the kubelet has already let go of those of the other or not, and when nobody else waits.
//
// Where the order decides nothing (policy::Topology::OrderMatters), 1 is enough.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "policy/alignment.h"
#include "policy/topology.h"

namespace numafit::cache {

// One distinct (topology, knowledge) pair. Nodes in the same state share the object, so a question
// is answered once per state. Immutable.
struct NodeState {
  std::uint64_t id = 0;  // unique in the process, never reused
  std::shared_ptr<const policy::Topology> topology;
  // What the kubelet may hold once it has admitted every Pod that is bound to the node.
  // `settling`: no further Pod with devices is let in until the kubelet has shown more.
  policy::NodeKnowledge knowledge;
  // Not kFits: why nothing is judged here (no report, or one that is too old).
  policy::Reason barrier = policy::Reason::kFits;
  // Made of a NodeResourceTopology: how many devices are free where is known, not which, nor who
  // has the others. Alignment is guaranteed only where counts prove it: under single-numa-node,
  // whose kubelet admits nothing else, and under restricted for what fits into one NUMA node.
  bool counts_only = false;
  // False: nothing is known of the machine, `topology` stands for none.
  [[nodiscard]] bool HasInventory() const { return barrier != policy::Reason::kNoReport; }
  // Fingerprints of demands that the kubelet refused a moment ago although we had let them in: what
  // is known here is wrong for them.
  std::set<std::string> cooling;
  // False: knowledge.usages are the extremes of more possibilities than are kept. Admission does
  // not depend on which (counts decide); nothing is guaranteed to be aligned.
  bool exhaustive = true;

  // Some Pod is being deleted, where that matters: knowledge.usages has it both ways.
  bool leaving = false;

  // Bound and not yet admitted, where their order matters; empty elsewhere.
  std::vector<std::shared_ptr<const policy::Demand>> pending;
  // A state that the kubelet may be in now.
  struct Now {
    enum class Place : std::uint8_t { kWaiting, kAdmitted, kRefused };
    // By pending Pod: where it stands, and what it holds.
    std::vector<Place> places;
    std::vector<policy::Holding> held;
    policy::Usage usage;

    friend bool operator==(const Now&, const Now&) = default;
  };
  // Every one of them, those with nobody waiting included. Empty when `pending` is.
  std::vector<Now> now;
  // More orders than this and the node counts as settling.
  int max_states = 64;
};

// No container asks for a resource that this node's kubelet gives out one by one (devices; CPUs and
// memory with static managers): the Pod holds nothing there.
[[nodiscard]] bool HoldsNothing(const policy::Topology& topology, const policy::Demand& demand);

// A pure function of its arguments: equal ids, equal demand fingerprints and the same strategy have
// the same answer. `strategy` may be null (no score). Cost: a few microseconds and, with n pending
// Pods, up to n * 2^n admissions more.
[[nodiscard]] policy::Judgement JudgeOnNode(const NodeState& state, const policy::Demand& demand,
                                            const policy::ScoreStrategy* strategy);

}  // namespace numafit::cache
