#include "cache/counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "api/node_report.pb.h"
#include "policy/cpu_set.h"

namespace numafit::cache {
namespace {

using api::NodeResourceTopology;
using v1alpha1::NodeReportStatus;
using Zone = NodeResourceTopology::Zone;
using Counts = NodeResourceTopology::Resource;

constexpr std::string_view kCpu = "cpu";
constexpr std::int64_t kMostDevices = 16'384;  // of one node

// One resource in the zones that have it: NUMA id to counts.
using ByZone = std::map<int, const Counts*>;

std::map<std::string, ByZone> ByResource(const NodeResourceTopology& counts) {
  std::map<std::string, ByZone> resources;
  for (const Zone& zone : counts.zones) {
    for (const Counts& each : zone.resources) resources[each.name][zone.numa] = &each;
  }
  return resources;
}

absl::Status SetKubelet(const NodeResourceTopology& counts, const NodeFacts& facts,
                        v1alpha1::Kubelet& kubelet) {
  if (counts.policy.empty()) {
    return absl::InvalidArgumentError(
        "attributes: no topologyManagerPolicy, and no topologyPolicies");
  }
  const std::optional<policy::TopologyPolicy> policy = policy::ParseTopologyPolicy(counts.policy);
  if (policy && policy::Enforces(*policy) && counts.scope.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("attributes: no topologyManagerScope beside the policy {}", counts.policy));
  }
  kubelet.set_version(facts.kubelet_version);
  kubelet.set_topology_manager_policy(counts.policy);
  // The kubelet's default; where nothing is enforced it decides little.
  kubelet.set_topology_manager_scope(counts.scope.empty() ? "container" : counts.scope);
  kubelet.set_cpu_manager_policy("none");
  kubelet.set_memory_manager_policy("None");
  return absl::OkStatus();
}

// Distances are by NUMA id and for all of them, or not at all.
std::vector<int> DistancesOf(const Zone& zone, const std::vector<Zone>& zones) {
  std::vector<int> distances(static_cast<std::size_t>(zones.back().numa) + 1, 0);
  for (const auto& [to, cost] : zone.costs) {
    if (static_cast<std::size_t>(to) < distances.size()) {
      distances[static_cast<std::size_t>(to)] = cost;
    }
  }
  const bool complete = std::all_of(zones.begin(), zones.end(), [&](const Zone& other) {
    return distances[static_cast<std::size_t>(other.numa)] > 0;
  });
  return complete ? distances : std::vector<int>();
}

void AddNumaNodes(const NodeResourceTopology& counts, NodeReportStatus& report) {
  for (const Zone& zone : counts.zones) {
    v1alpha1::NumaNode* node = report.add_numa_nodes();
    node->set_id(zone.numa);
    for (const int distance : DistancesOf(zone, counts.zones)) node->add_distances(distance);
  }
}

// CPUs as cores of one thread, numbered zone by zone: first those that are reserved, then those
// that are somebody's. Which they are in truth decides nothing but with options that counts do not
// tell.
absl::Status AddCpus(const ByZone& zones, NodeReportStatus& report, std::int64_t& taken) {
  policy::CpuSet reserved;
  policy::CpuSet held;
  int next = 0;
  for (auto& node : *report.mutable_numa_nodes()) {
    const auto found = zones.find(node.id());
    if (found == zones.end() || found->second->capacity == 0) continue;
    const Counts& cpus = *found->second;
    if (next + cpus.capacity > policy::CpuSet::kMaxIds) {
      return absl::InvalidArgumentError(
          fmt::format("zones: more than {} CPUs", policy::CpuSet::kMaxIds));
    }
    const int first = next;
    next += static_cast<int>(cpus.capacity);
    v1alpha1::Cores* cores = node.add_cores();
    cores->set_socket(node.id());
    cores->set_uncore_cache(-1);
    cores->add_threads(fmt::format("{}-{}", first, next - 1));
    const int own = first + static_cast<int>(cpus.capacity - cpus.allocatable);
    const int in_use = static_cast<int>(cpus.allocatable - cpus.available);
    for (int id = first; id < own; ++id) reserved.Add(id);
    for (int id = own; id < own + in_use; ++id) held.Add(id);
    taken += in_use;
  }
  // A kubelet with a static CPU manager does not start without reserved CPUs; a publisher that
  // does not show them has counted them as allocatable.
  if (reserved.empty()) {
    return absl::InvalidArgumentError(
        "zones: allocatable CPUs on every NUMA node and none that is reserved");
  }
  report.mutable_kubelet()->set_cpu_manager_policy("static");
  report.mutable_kubelet()->set_reserved_system_cpus(policy::FormatCpuSet(reserved));
  if (!held.empty()) {
    report.mutable_pods(0)->add_containers()->set_cpus(policy::FormatCpuSet(held));
  }
  return absl::OkStatus();
}

void AddGroup(v1alpha1::Resource& resource, std::string endpoint, std::optional<int> numa,
              std::int64_t count) {
  v1alpha1::DeviceGroup* group = resource.add_groups();
  group->set_endpoint(std::move(endpoint));
  group->set_no_topology(!numa.has_value());
  if (numa) group->add_numa_nodes(*numa);
  group->set_count(static_cast<std::int32_t>(count));
}

void Hold(NodeReportStatus& report, const std::string& resource, int group, std::int64_t count) {
  if (count == 0) return;
  v1alpha1::HeldDevices* held = report.mutable_pods(0)->add_devices();
  held->set_resource(resource);
  held->set_group(group);
  held->set_count(static_cast<std::int32_t>(count));
}

// Tokens may all be one adapter's, but for those that are an adapter each.
bool MayShareEndpoint(api::ResourceKind kind) {
  return api::IsEndpoint(kind) && kind != api::ResourceKind::kEndpointExclusive;
}

void AddDevices(v1alpha1::Resource& resource, bool shared, std::optional<int> numa,
                std::int64_t count, std::int64_t taken, NodeReportStatus& report) {
  if (shared) {
    Hold(report, resource.name(), resource.groups_size(), taken);
    AddGroup(resource, resource.name(), numa, count);
    return;
  }
  const std::string place = numa ? std::to_string(*numa) : "none";
  for (std::int64_t i = 0; i < count; ++i) {
    Hold(report, resource.name(), resource.groups_size(), i < taken ? 1 : 0);
    AddGroup(resource, fmt::format("{}/{}/{}", resource.name(), place, i), numa, 1);
  }
}

// Returns what the publisher says is in use.
std::int64_t AddResource(const std::string& name, const ByZone& zones,
                         std::optional<std::int64_t> in_all, bool shared,
                         NodeReportStatus& report) {
  v1alpha1::Resource* resource = report.add_resources();
  resource->set_name(name);
  std::int64_t sum = 0;
  std::int64_t taken = 0;
  for (const auto& [numa, counts] : zones) {
    sum += counts->allocatable;
    taken += counts->allocatable - counts->available;
  }
  const std::int64_t excess = in_all ? std::max<std::int64_t>(0, sum - *in_all) : 0;
  for (const auto& [numa, counts] : zones) {
    const std::int64_t unsure = counts->allocatable - counts->available + excess;
    AddDevices(*resource, shared, numa, counts->allocatable, std::min(unsure, counts->allocatable),
               report);
  }
  const std::int64_t elsewhere = in_all ? std::max<std::int64_t>(0, *in_all - sum) : 0;
  AddDevices(*resource, shared, std::nullopt, elsewhere, 0, report);
  return taken;
}

absl::Status CheckSize(const std::map<std::string, ByZone>& resources, const NodeFacts& facts) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, zones] : resources) {
    for (const auto& [numa, each] : zones) counts[name] += each->allocatable;
  }
  for (const auto& [name, in_all] : facts.allocatable) {
    counts[name] = std::max(counts[name], std::min(in_all, kMostDevices + 1));
  }
  std::int64_t devices = 0;
  for (const auto& [name, count] : counts) devices += count;
  if (devices <= kMostDevices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("zones: {} devices, expected {} at most", devices, kMostDevices));
}

}  // namespace

NodeFacts FactsOf(const api::Node& node) {
  NodeFacts facts;
  facts.kubelet_version = node.kubelet_version;
  for (const auto& [name, quantity] : node.allocatable) {
    if (name.find('/') != std::string::npos) facts.allocatable[name] = quantity.value();
  }
  return facts;
}

absl::StatusOr<CountedNode> ReadCounts(const NodeResourceTopology& counts, const NodeFacts& facts,
                                       const api::ResourceClasses& classes, ReportReader& reader) {
  if (!counts.problem.ok()) return counts.problem;
  NodeReportStatus report;
  if (absl::Status status = SetKubelet(counts, facts, *report.mutable_kubelet()); !status.ok()) {
    return status;
  }
  std::map<std::string, ByZone> resources = ByResource(counts);
  if (absl::Status status = CheckSize(resources, facts); !status.ok()) return status;
  AddNumaNodes(counts, report);
  report.add_pods();  // somebody
  CountedNode counted;
  if (const auto cpus = resources.find(std::string(kCpu)); cpus != resources.end()) {
    const bool any = std::any_of(cpus->second.begin(), cpus->second.end(),
                                 [](const auto& zone) { return zone.second->allocatable > 0; });
    if (any) {
      if (absl::Status status = AddCpus(cpus->second, report, counted.cpus); !status.ok()) {
        return status;
      }
    }
    resources.erase(cpus);
  }
  std::map<std::string, std::int64_t> taken;
  for (const auto& [name, zones] : resources) taken[name] = -1;
  for (const auto& [name, count] : facts.allocatable) resources.try_emplace(name);
  for (const auto& [name, zones] : resources) {
    const auto in_all = facts.allocatable.find(name);
    const bool shared = MayShareEndpoint(classes.Classify(name));
    const std::int64_t in_use = AddResource(
        name, zones,
        in_all == facts.allocatable.end() ? std::nullopt : std::optional(in_all->second), shared,
        report);
    if (const auto zoned = taken.find(name); zoned != taken.end()) zoned->second = in_use;
  }
  absl::StatusOr<ReportedNode> node = reader.Read(report);
  if (!node.ok()) return node.status();
  counted.held = std::move(node->pods.front().held);
  node->pods.clear();
  counted.node = *std::move(node);
  for (const auto& [name, count] : taken) {
    const int pool = counted.node.topology->FindPool(name);
    if (pool >= 0) counted.taken.emplace_back(pool, static_cast<int>(count));
  }
  std::sort(counted.taken.begin(), counted.taken.end());
  return counted;
}

}  // namespace numafit::cache
