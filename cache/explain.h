// Why a Pod may or may not go where: one answer per node with its numbers, as a value and as JSON.
// `numafit explain`, the extender's read API and tests share it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/resource_class.h"
#include "cache/fleet.h"
#include "cache/free_devices.h"
#include "policy/alignment.h"
#include "policy/demand.h"
#include "policy/score/score_strategy.h"

namespace numafit::cache {

// CPUs (those that are not reserved) or bytes of memory that the kubelet gives to one container
// alone. Ranges over what its state may be.
struct ComputeCount {
  int numa = -1;  // -1: the whole node
  std::int64_t at_least = 0;
  std::int64_t at_most = 0;
  std::int64_t all = 0;
};
struct ComputeFree {
  std::string resource;               // "cpu", "memory", "hugepages-1Gi"
  std::vector<ComputeCount> by_numa;  // ascending; every NUMA node of the machine
  ComputeCount total;
};

// The answer of one node, and of those that answer the same; refusals may differ in their numbers,
// and the node is then the nearest miss.
struct NodeAnswer {
  std::string node;
  std::vector<std::string> alike;  // the names of the others
  std::string policy;              // topologyManagerPolicy
  std::string scope;
  policy::Reason reason = policy::Reason::kFits;
  policy::Alignment alignment = policy::Alignment::kNotNeeded;
  int score = 0;
  // "fits on NUMA 0", "no: 5 nvidia.com/gpu are free, 3 at most on one NUMA node": the first
  // obstacle with its numbers. Of `node`; the others may have other numbers free elsewhere.
  std::string answer;
  std::vector<ResourceFree> resources;  // those that the Pod asks for
  std::vector<ComputeFree> compute;     // likewise, where it gets CPUs or memory for itself
  // Requests that this node would take, each tried: "with at least 9 CPUs". Empty where it fits,
  // where none was found, and where the kubelet is not what refuses.
  std::vector<std::string> changes;
  // What one should know beside the answer: faults of the kubelet that refuse a Pod which would
  // fit, and that the kubelet's version is not among those whose rules are known.
  std::vector<std::string> notes;
};

// A change that would let the Pod in.
struct Help {
  std::string kind;  // "smaller": fewer devices per container; "move": a Pod off a node
  int nodes = 0;     // smaller: how many nodes it would fit then
  std::string node;  // move
  std::string pod;
  std::string text;
};

struct Explanation {
  std::string pod;
  std::string wants;  // a sentence
  int nodes = 0;
  int fit = 0;         // nodes that the Pod may go to
  int guaranteed = 0;  // of these, where it is certain to be aligned (or has no need to be)
  std::string best;    // node, empty when none fits
  std::vector<NodeAnswer> answers;  // best first
  std::vector<Help> help;           // only when none of the nodes asked about fits
};

struct ExplainOptions {
  // Ranks the nodes that fit; null: by name.
  const policy::ScoreStrategy* strategy = nullptr;
  bool fold = true;
  // Only this node; empty: all of them.
  std::string node;
  // Who asks: of nominees, some have their room kept from it, others not (Nominees::LeavesRoom).
  std::string uid;
  std::int32_t priority = 0;
};

// NotFound when options.node is not in the fleet. Cost: one judgement per distinct state, for each
// node with nominees one more and theirs, and a few hundred more when nothing fits.
absl::StatusOr<Explanation> Explain(const std::vector<NodeView>& fleet, const std::string& pod_name,
                                    const policy::Demand& demand, const ExplainOptions& options);

// "fits on NUMA 0", "no: …": the sentence of one node. `judgement` is JudgeOnNode's.
[[nodiscard]] std::string AnswerOf(const NodeState& state, const policy::Demand& demand,
                                   const policy::Judgement& judgement);

// {"pod", "wants", "nodes", "fit", "guaranteed", "best", "answers": [{"node", "alike",
//  "topologyManagerPolicy", "topologyManagerScope", "reason", "alignment", "score", "answer",
//  "resources": [{"resource", "free": {...}, "byNuma": [{"numa", "free", "freeAtMost", "all"}]}],
//  "compute": [as resources; "cpu" in CPUs, the others in bytes], "changes", "notes"}],
//  "help": [{"kind", "text", ...}]}
std::string ToJson(const Explanation& explanation);

// The fleet itself: {"nodes": [{"name", "topologyManagerPolicy", "topologyManagerScope",
// "kubeletVersion", "accelerators": [resource...], "endpoints": [...], "largestAligned":
// {"numa", "accelerators", "endpoints"}, "pods", "waiting", "settling", "report": "current",
// "none", "stale", or "counts" (from a NodeResourceTopology), "states": [reason codes that hold
// here], "coolingDown": shapes, "misaligned": containers}]}, resources as above. Of a report, where
// there is something to say: "observedTime", "agentVersion", "agentLostSeconds",
// "clockAheadSeconds", "reportError", "configurationConfirmed", "sourceErrors": [{"source",
// "error"}], "withoutNuma": [{"resource", "devices"}].
std::string NodesToJson(const std::vector<NodeView>& fleet, const api::ResourceClasses& classes);

}  // namespace numafit::cache
