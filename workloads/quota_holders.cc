// WorkloadIndex::QuotaHolders: what those that hold quota have still to place.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "workloads/workload_index.h"

namespace numafit::workloads {
namespace {

constexpr std::string_view kHostname = "kubernetes.io/hostname";

// As the API server makes Pods of a template: requests that are not given equal the limits.
void SetDefaults(std::vector<api::Container>& containers) {
  for (api::Container& container : containers) {
    for (const auto& [resource, limit] : container.resources.limits) {
      container.resources.requests.emplace(resource, limit);
    }
  }
}

bool AsksForDevices(const policy::Demand& demand) {
  return !demand.accelerators.empty() || !demand.endpoints.empty();
}

// Where the Pods of one PodSet are.
struct Placed {
  int pods = 0;
  std::map<std::string_view, int> by_host;  // that they are pinned to
};

// One entry per domain of the topology assignment, less what is placed there; without an
// assignment, or when Pods are placed and the domains are larger than a host, one for all.
void Split(const PodsToPlace& all, const api::PodSetAssignment* assignment, const Placed& placed,
           std::vector<PodsToPlace>* to_place) {
  const bool by_host = assignment != nullptr && !assignment->levels.empty() &&
                       assignment->levels.back() == kHostname;
  const bool whole = assignment == nullptr || !assignment->has_topology ||
                     assignment->domains.empty() || (!by_host && placed.pods > 0);
  if (whole) {
    if (all.pods > 0) to_place->push_back(all);
    return;
  }
  for (const api::TopologyDomain& domain : assignment->domains) {
    PodsToPlace part = all;
    for (std::size_t i = 0; i < std::min(domain.values.size(), assignment->levels.size()); ++i) {
      part.node_selector.insert_or_assign(assignment->levels[i], domain.values[i]);
    }
    part.pods = domain.count;
    if (by_host && !domain.values.empty()) {
      const auto here = placed.by_host.find(domain.values.back());
      if (here != placed.by_host.end()) part.pods -= here->second;
    }
    if (part.pods > 0) to_place->push_back(std::move(part));
  }
}

}  // namespace

PodsToPlace WorkloadIndex::KindOf(const api::Workload& workload, const api::PodSet& set) const {
  PodsToPlace kind;
  kind.pod_set = set.name;
  kind.node_selector = set.pod.node_selector;
  api::Pod pod = set.pod;
  pod.metadata.namespace_ = workload.metadata.namespace_;
  SetDefaults(pod.init_containers);
  SetDefaults(pod.containers);
  absl::StatusOr<policy::Demand> demand = cache::DemandFromPod(pod, classes_, options_);
  if (demand.ok()) {
    kind.demand = std::make_shared<const policy::Demand>(*std::move(demand));
  } else {
    kind.problem = std::string(demand.status().message());
  }
  if (const api::PodSetAssignment* assignment = AssignmentOf(workload, set.name)) {
    std::set<std::string> flavors;
    for (const auto& [resource, flavor] : assignment->flavors) flavors.insert(flavor);
    kind.flavors.assign(flavors.begin(), flavors.end());
  }
  return kind;
}

std::vector<QuotaHolder> WorkloadIndex::QuotaHolders() const {
  std::vector<QuotaHolder> holders;
  for (const auto& [uid, entry] : workloads_) {
    const api::Workload& workload = entry->workload;
    const api::WorkloadCondition* const quota = workload.Find("QuotaReserved");
    const bool here = entry->phase == Phase::kAdmitted || entry->phase == Phase::kPending;
    if (!here || quota == nullptr || !quota->is_true || !workload.cluster_name.empty()) continue;
    QuotaHolder& holder = holders.emplace_back();
    holder.namespace_ = workload.metadata.namespace_;
    holder.name = workload.metadata.name;
    holder.uid = uid;
    holder.resource_version = workload.metadata.resource_version;
    holder.cluster_queue = workload.cluster_queue;
    holder.priority = workload.priority;
    holder.quota_since = quota->since;
    holder.admitted = entry->phase == Phase::kAdmitted;
    holder.checks = workload.checks;
    std::map<std::string_view, Placed> placed;  // by PodSet
    const bool only = workload.pod_sets.size() == 1;
    for (const Member* pod : entry->members) {
      if (pod->state != PodState::kPlaced) continue;
      const bool unnamed = pod->pod_set.empty() && only;
      Placed& there = placed[unnamed ? workload.pod_sets.front().name : pod->pod_set];
      ++there.pods;
      ++there.by_host[pod->host];
    }
    for (std::size_t i = 0; i < entry->kinds.size(); ++i) {
      PodsToPlace all = entry->kinds[i];
      if (all.demand != nullptr && !AsksForDevices(*all.demand)) continue;
      const Placed& there = placed[all.pod_set];
      all.pods = std::max(0, ExpectedPods(workload, workload.pod_sets[i]) - there.pods);
      Split(all, AssignmentOf(workload, all.pod_set), there, &holder.to_place);
    }
  }
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) {
    return std::tie(a.namespace_, a.name, a.uid) < std::tie(b.namespace_, b.name, b.uid);
  });
  return holders;
}

}  // namespace numafit::workloads
