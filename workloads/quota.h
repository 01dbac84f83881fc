// How much of the quota of a ClusterQueue its flavors' nodes could place. A quota is a number of
// devices; it knows neither NUMA nodes nor endpoints nor what is broken, and what Kueue admits past
// what can be placed waits, holding its quota.
//
// Counted on machines without a Pod: what runs now holds quota, too. Of a flavor's nodes those
// count that are there, have all of its node labels, are not cordoned, and have an inventory; a
// lost agent changes none of that. A machine counts with as many Pods of one shape as numafit would
// let in and its kubelet admit, one after the other; where the kubelet may pick this or that, it
// picks what lies together. Nothing else is looked at: CPU and memory that no static manager hands
// out, taints, affinities.
//
// Which shape: the one that stands for most accelerators among the Workloads that hold the quota
// now; nobody does: among those that have ended and are still there. Not the smallest number of all
// shapes: a single odd Pod among many would make every quota look too large, and one that fits
// nowhere is told of by itself (never-fits). Without any the healthy devices are what is known.
//
// A node counts for every flavor and every queue that it is in, and cohorts and borrowing are not
// looked at: that the quotas of several queues are together more than the machines have is not
// seen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/kueue_objects.h"
#include "api/objects.h"
#include "api/resource_class.h"
#include "cache/fleet.h"
#include "policy/demand.h"
#include "policy/topology.h"
#include "workloads/node_table.h"

namespace numafit::workloads {

// Pods with accelerators that hold quota, or did until they ended: of one PodSet, or of several
// that are alike.
struct QuotaUse {
  std::string workload;  // namespace/name; of several the first
  std::string cluster_queue;
  std::map<std::string, std::string> flavors;  // by resource
  std::shared_ptr<const policy::Demand> demand;
  std::int64_t pods = 0;  // admitted ones
  bool ended = false;
};

struct QuotaAdvice {
  std::string cluster_queue;
  std::string flavor;
  std::string resource;        // an accelerator
  std::int64_t quota = 0;      // nominal
  std::int64_t nodes = 0;      // of the flavor, that have the resource
  std::int64_t devices = 0;    // healthy ones on them
  std::int64_t placeable = 0;  // of these, those that Pods of shapes.front() could hold at once

  struct Shape {
    std::map<std::string, std::int64_t> per_pod;  // devices by resource
    std::int64_t pods = 0;
    std::int64_t placeable = 0;
    std::string workload;  // one that asks for it
  };
  // The one that counts first; not all of them where there are many.
  std::vector<Shape> shapes;
};

// Not thread-safe.
class QuotaAdvisor {
 public:
  struct Limits {
    int max_tries = 2'000;           // Pods that one call tries on machines, about 0.1 s
    std::size_t max_shapes = 8;      // per queue, flavor and resource
    int max_pods_per_machine = 512;  // more than any kubelet takes
  };
  // All outlive the call.
  struct Inputs {
    const std::map<std::string, api::ClusterQueue>& queues;
    const std::map<std::string, api::ResourceFlavor>& flavors;
    const NodeTable& nodes;
    const std::vector<QuotaUse>& uses;
    const cache::Fleet& fleet;
  };

  explicit QuotaAdvisor(api::ResourceClasses classes);
  QuotaAdvisor(api::ResourceClasses classes, Limits limits);

  // One entry per queue, flavor and accelerator, in the order of the queues' names and of their
  // fields. Flavors that do not exist are left out: Kueue admits nothing there. Nothing: there is
  // so much that is new that another call has to go on; what was found out is kept. Takes read
  // guards for a moment each; costs a look at every node, and of shapes and machines that are new
  // an admission per Pod.
  std::optional<std::vector<QuotaAdvice>> Advise(const Inputs& inputs);

  // Answers that are kept: those that the last advice needed.
  [[nodiscard]] std::size_t kept() const;

 private:
  // Equal machines with equal kubelets.
  struct Machine {
    std::shared_ptr<const policy::Topology> topology;
    bool counts_only = false;

    friend bool operator==(const Machine&, const Machine&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Machine& machine) {
      return H::combine(std::move(state), machine.topology.get(), machine.counts_only);
    }
  };
  using Machines = absl::flat_hash_map<Machine, std::int64_t>;          // to how many there are
  struct Use;                                                           // all uses of one shape
  using Key = std::pair<std::string, std::string>;                      // flavor and resource
  using Uses = std::map<std::string, std::map<Key, std::vector<Use>>>;  // by queue
  struct Known {
    int pods = 0;
    std::uint64_t round = 0;
  };

  [[nodiscard]] Uses Sort(const std::vector<QuotaUse>& uses) const;
  [[nodiscard]] std::map<std::string, Machines> MachinesOf(const Inputs& inputs) const;
  // False: there was not enough time.
  [[nodiscard]] bool AddShapes(const std::vector<Use>& uses, const Machines& machines,
                               QuotaAdvice* advice);
  [[nodiscard]] std::optional<int> PodsOn(const Machine& machine, const Use& use);

  const api::ResourceClasses classes_;
  const Limits limits_;
  int tries_left_ = 0;
  std::uint64_t round_ = 1;
  // How many Pods of a shape (by fingerprint) fit on a machine.
  absl::flat_hash_map<Machine, absl::flat_hash_map<std::string, Known>> known_;
};

// {"state": "current", "why", "quotas": [{"clusterQueue", "flavor", "resource", "quota", "nodes",
//  "devices", "placeable", "shapes": [{"perPod": {resource: count}, "pods", "placeable",
//  "workload"}]}]}; without "why" where it is empty.
[[nodiscard]] std::string ToJson(std::string_view state, const std::string& why,
                                 const std::vector<QuotaAdvice>& advice);

}  // namespace numafit::workloads
