// Why a Pod of an admitted Workload has no node, decided by what is known of the nodes and not by
// what anybody wrote: the scheduler's message names the first obstacle of each node only, and only
// corroborates.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/fleet.h"
#include "policy/alignment.h"
#include "policy/demand.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {

enum class Cause {
  kEndpointsExhausted,     // accelerators suffice on some node, endpoints on none of those
  kAcceleratorsExhausted,  // no node has so many accelerators free
  kNumaFragmented,         // by count some node has enough, together none has
  kNeverFits,              // no node of this fleet could, even when empty
  kPinnedNodeFull,         // it may run on one node only, and that has no room; another would
  kKubeletRefused,         // kubelets refuse its Pods
  kStaleData,              // nobody knows: no node that could take it can be judged now
  kSchedulerError,         // the scheduler, or an extender of it, fails
  kOther,                  // there is room; something else keeps it from being placed
};
inline constexpr int kCauses = 9;
// "endpoints-exhausted": in metrics, Events, JSON and docs.
[[nodiscard]] std::string_view CauseName(Cause cause);

// One resource that the Pod asks for, over all nodes with an inventory.
struct ResourceNumbers {
  std::string resource;
  bool endpoint = false;
  std::int64_t wanted = 0;     // by the Pod
  std::int64_t free = 0;       // in all: what is certain to be free
  int best_numa_free = 0;      // the most on one NUMA node
  std::string best_numa_node;  // the node that has it; empty: none is free anywhere
  int best_numa = -1;
};

// What is true of one kind of Pod.
struct Finding {
  Cause cause = Cause::kOther;
  std::vector<ResourceNumbers> resources;  // accelerators first
  int nodes = 0;                           // with an inventory
  int fitting = 0;                         // of these, those that would take the Pod now
  // The node that comes nearest (or that would take it), with its answer as `numafit explain` words
  // it; empty: none has an inventory.
  std::string nearest;
  std::string nearest_answer;
  // Of a Pod that may go to one node only: that node and its answer.
  std::string pinned;
  std::string pinned_answer;
};

// The verdict of the fleet about `demand`, for a Pod that may go to `pinned_node` only (empty: to
// every node). `looks_at`: whether a node counts at all; none: all do. kKubeletRefused and
// kSchedulerError need the Pod's own state: FindCause. Takes read guards; costs a judgement per
// distinct state of a node.
[[nodiscard]] Finding LookAtFleet(const cache::Fleet& fleet, const policy::Demand& demand,
                                  std::string_view pinned_node,
                                  const std::function<bool(std::string_view)>& looks_at = {});

// The finding about Pods that are blocked: LookAtFleet, and what their own state says. Thread-safe.
[[nodiscard]] Finding FindCause(const cache::Fleet& fleet, const Blocked& blocked);

class FleetSurvey;

// FindCause for many kinds of Pods, one after the other: what it has seen of the fleet for a demand
// answers for all Pods with that demand, whatever node they are pinned to (with topology-aware
// scheduling each is pinned to its own). So it costs a look at all nodes per demand and a judgement
// of one node per Pod. Not thread-safe.
class CauseFinder {
 public:
  // `fleet` outlives it.
  explicit CauseFinder(const cache::Fleet& fleet);
  ~CauseFinder();
  CauseFinder(const CauseFinder&) = delete;
  CauseFinder& operator=(const CauseFinder&) = delete;

  [[nodiscard]] Finding Find(const Blocked& blocked);
  // Forgets what it has seen: the next answers are of the fleet as it is then.
  void Forget();

 private:
  struct Seen {
    std::shared_ptr<const policy::Demand> demand;
    std::unique_ptr<FleetSurvey> survey;
  };
  const cache::Fleet& fleet_;
  absl::flat_hash_map<const policy::Demand*, Seen> surveys_;
};

// "wants 4 rdma on one NUMA node; 3 free at most (gpu-a-002 NUMA 1); 11 free in all": the sentence
// for people, without the cause's name.
[[nodiscard]] std::string WhyText(const Finding& finding, const Blocked& blocked);

}  // namespace numafit::workloads
