#include "policy/topology.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "policy/mutation.h"

namespace numafit::policy {
namespace {

// Widths of pools whose devices sit on several NUMA nodes are found by looking at every set.
constexpr int kMaxNodesOfSharedDevices = 16;

constexpr int kDefaultOwnDistance = 10;
constexpr int kDefaultOtherDistance = 20;

// What the kubelet can tell of a device, and where it is, in the order in which classes are kept.
struct ClassKey {
  std::uint64_t numa = 0;
  std::uint64_t hardware = 0;
  bool has_topology = false;
  bool has_numa = false;
  bool placeless = false;
  bool unhealthy = false;
  std::string cohort;
  // Place in the plugin's order of preference, one class each; -1 without preference.
  int preference = -1;

  auto operator<=>(const ClassKey&) const = default;
};

// Those of `ids` that the machine has.
std::uint64_t BitsOf(const std::vector<int>& ids, NumaMask machine) {
  std::uint64_t bits = 0;
  for (const int id : ids) {
    if (id >= 0 && id < NumaMask::kMaxIds && machine.contains(id)) bits |= NumaMask::Of(id).bits();
  }
  return bits;
}

ClassKey KeyOf(const DeviceSpec& device, NumaMask machine) {
  ClassKey key;
  key.has_topology = device.numa.has_value();
  key.placeless = true;
  if (device.numa) {
    key.has_numa = !device.numa->empty();
    for (const int id : *device.numa) {
      if (id != -1) key.placeless = false;
    }
    key.numa = BitsOf(*device.numa, machine);
  }
  key.hardware = device.numa ? key.numa : BitsOf(device.actual_numa, machine);
  if (Mutated(Mutation::kEmptyTopologyIsNone) && !key.has_numa) key.has_topology = false;
  key.unhealthy = !device.healthy;
  key.cohort = device.cohort;
  return key;
}

const std::string& EndpointOf(const DeviceSpec& device) {
  return device.endpoint.empty() ? device.id : device.endpoint;
}

// Device id -> place: the named ones first, then the rest by id.
std::map<std::string, int> PreferenceOrder(const std::vector<std::string>& named,
                                           const std::vector<DeviceSpec>& devices) {
  std::set<std::string> rest;
  for (const DeviceSpec& device : devices) rest.insert(device.id);
  std::map<std::string, int> order;
  for (const std::string& id : named) {
    if (rest.erase(id) != 0) order.emplace(id, static_cast<int>(order.size()));
  }
  for (const std::string& id : rest) order.emplace(id, static_cast<int>(order.size()));
  return order;
}

// The parts of a fingerprint that the static CPU manager and the Static memory manager go by.
void AppendCpus(const KubeletSettings& kubelet, const std::vector<NumaNodeSpec>& numa,
                std::string& out) {
  if (kubelet.cpu_policy == CpuPolicy::kNone) return;
  absl::StrAppend(&out, "\ncpus ", kubelet.version.minor, " ",
                  absl::StrJoin(kubelet.cpu_options, ",", absl::PairFormatter("=")), " ",
                  absl::StrJoin(kubelet.reserved_cpus, ","), " ", kubelet.reserved_cpu_milli);
  for (const auto& [gate, on] : kubelet.feature_gates) {
    absl::StrAppend(&out, " ", gate, "=", on ? 1 : 0);
  }
  for (const NumaNodeSpec& node : numa) {
    absl::StrAppend(&out, " n", node.id);
    for (const CoreSpec& core : node.cores) {
      absl::StrAppend(&out, " ", core.socket, "/", core.uncore.value_or(-1), ":",
                      absl::StrJoin(core.threads, ","));
    }
  }
}

void AppendMemory(const KubeletSettings& kubelet, const std::vector<NumaNodeSpec>& numa,
                  std::string& out) {
  if (kubelet.memory_policy == MemoryPolicy::kNone) return;
  absl::StrAppend(&out, "\nmemory ", kubelet.version.minor);
  for (const NumaNodeSpec& node : numa) {
    absl::StrAppend(&out, " n", node.id, "=", node.memory);
    for (const HugepagePool& pool : node.hugepages) {
      absl::StrAppend(&out, " ", pool.size, "*", pool.pages);
    }
  }
  for (const MemoryReservation& entry : kubelet.reserved_memory) {
    absl::StrAppend(&out, " r", entry.numa, ":",
                    absl::StrJoin(entry.limits, ",", absl::PairFormatter("=")));
  }
}

}  // namespace

Topology::Topology(TopologySpec spec) : spec_(std::move(spec)) {}

absl::StatusOr<std::shared_ptr<const Topology>> Topology::Create(TopologySpec spec) {
  std::shared_ptr<Topology> topology(new Topology(std::move(spec)));
  if (absl::Status status = topology->Compile(); !status.ok()) return status;
  return std::shared_ptr<const Topology>(std::move(topology));
}

absl::Status Topology::Compile() {
  if (absl::Status status = CompileNuma(); !status.ok()) return status;
  for (const auto& [resource, devices] : spec_.devices) {
    if (absl::Status status = CompilePool(resource, devices); !status.ok()) return status;
  }
  if (absl::Status status = CompileCpus(); !status.ok()) return status;
  if (absl::Status status = CompileMemory(); !status.ok()) return status;
  CompileEndpoints();
  CompileFingerprint();
  return absl::OkStatus();
}

absl::Status Topology::CompileNuma() {
  if (spec_.numa.empty()) return absl::InvalidArgumentError("numa: no NUMA node");
  int largest = 0;
  for (const NumaNodeSpec& node : spec_.numa) {
    if (node.id < 0 || node.id >= NumaMask::kMaxIds) {
      return absl::InvalidArgumentError(absl::StrCat("numa: id ", node.id, " is not in 0..63"));
    }
    if (numa_.contains(node.id)) {
      return absl::InvalidArgumentError(absl::StrCat("numa: id ", node.id, " is there twice"));
    }
    numa_.add(node.id);
    largest = std::max(largest, node.id);
    if (!node.distances.empty()) distances_[node.id] = node.distances;
  }
  if (kubelet().policy == TopologyPolicy::kNone) return absl::OkStatus();
  if (numa_.count() > kubelet().max_allowable_numa_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("numa: ", numa_.count(), " NUMA nodes, a kubelet with topology policy ",
                     std::string(TopologyPolicyName(kubelet().policy)), " starts on at most ",
                     kubelet().max_allowable_numa_nodes, " (max-allowable-numa-nodes)"));
  }
  if (!kubelet().prefer_closest_numa_nodes) return absl::OkStatus();
  for (const auto& [id, row] : distances_) {
    if (static_cast<int>(row.size()) <= largest) {
      return absl::InvalidArgumentError(
          absl::StrCat("numa: id ", id, ": distances has ", row.size(), " entries, NUMA id ",
                       largest, " is beyond them (the kubelet reads distances by NUMA id)"));
    }
  }
  return absl::OkStatus();
}

absl::Status Topology::CompilePool(const std::string& resource,
                                   const std::vector<DeviceSpec>& devices) {
  const auto preferred = spec_.preferred_allocation.find(resource);
  std::map<std::string, int> order;
  if (preferred != spec_.preferred_allocation.end()) {
    order = PreferenceOrder(preferred->second, devices);
  }
  std::map<std::pair<int, ClassKey>, std::vector<const DeviceSpec*>> classes;
  std::set<std::string> ids;
  std::set<std::string> endpoints;
  for (const DeviceSpec& device : devices) {
    if (!ids.insert(device.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices: ", resource, ": id \"", device.id, "\" is there twice"));
    }
    endpoints.insert(EndpointOf(device));
    ClassKey key = KeyOf(device, numa_);
    if (!order.empty()) key.preference = order.at(device.id);
    // Preference first: classes of a pool are then in the plugin's order.
    classes[{key.preference, key}].push_back(&device);
  }

  Pool pool;
  pool.resource = resource;
  pool.first_class = static_cast<int>(classes_.size());
  pool.class_count = static_cast<int>(classes.size());
  pool.has_preference = preferred != spec_.preferred_allocation.end();
  pool.one_token_per_endpoint = spec_.one_token_per_endpoint.contains(resource);
  pool.devices = static_cast<int>(devices.size());
  pool.endpoints.assign(endpoints.begin(), endpoints.end());
  absl::flat_hash_map<std::string, DeviceRef> index;
  for (const auto& [ordered_key, members] : classes) {
    const ClassKey& key = ordered_key.second;
    const int class_index = static_cast<int>(classes_.size());
    classes_.push_back({.numa = NumaMask::FromBits(key.numa),
                        .hardware = NumaMask::FromBits(key.hardware),
                        .has_topology = key.has_topology,
                        .has_numa = key.has_numa,
                        .placeless = key.placeless,
                        .healthy = !key.unhealthy,
                        .count = static_cast<int>(members.size())});
    pool.device_numa = pool.device_numa | NumaMask::FromBits(key.numa);
    pool.aligned = pool.aligned || key.has_numa;
    std::vector<std::string>& names = class_ids_.emplace_back();
    for (const DeviceSpec* device : members) {
      const auto at =
          std::lower_bound(pool.endpoints.begin(), pool.endpoints.end(), EndpointOf(*device));
      index[device->id] = {.class_index = class_index,
                           .endpoint_index = static_cast<int>(at - pool.endpoints.begin())};
      names.push_back(device->id);
    }
    std::sort(names.begin(), names.end());
  }
  const bool narrow =
      kubelet().version.HintsOverDeviceNodesOnly() != Mutated(Mutation::kVersionGateFlipped);
  pool.hint_numa = narrow && !pool.device_numa.empty() ? pool.device_numa : numa_;
  if (absl::Status status = CompileWidths(pool); !status.ok()) return status;
  pools_.push_back(std::move(pool));
  device_index_.push_back(std::move(index));
  return absl::OkStatus();
}

absl::Status Topology::CompileWidths(Pool& pool) {
  const std::span<const DeviceClass> all = classes();
  const auto classes = all.subspan(static_cast<std::size_t>(pool.first_class),
                                   static_cast<std::size_t>(pool.class_count));
  pool.most_touched.assign(static_cast<std::size_t>(pool.hint_numa.count()) + 1, 0);
  const bool shared = std::any_of(classes.begin(), classes.end(),
                                  [](const DeviceClass& c) { return c.numa.count() > 1; });
  std::vector<int> ids;
  pool.device_numa.ForEach([&](int id) { ids.push_back(id); });
  if (!shared) {
    std::vector<int> per_node;
    for (const int id : ids) {
      int count = 0;
      for (const DeviceClass& c : classes) count += c.numa.contains(id) ? c.count : 0;
      per_node.push_back(count);
    }
    std::sort(per_node.rbegin(), per_node.rend());
    for (std::size_t k = 1; k < pool.most_touched.size(); ++k) {
      pool.most_touched[k] =
          pool.most_touched[k - 1] + (k <= per_node.size() ? per_node[k - 1] : 0);
    }
    return absl::OkStatus();
  }
  if (static_cast<int>(ids.size()) > kMaxNodesOfSharedDevices) {
    return absl::UnimplementedError(absl::StrCat(
        "devices: ", pool.resource, ": devices on several NUMA nodes, and ", ids.size(),
        " NUMA nodes in all; at most ", kMaxNodesOfSharedDevices, " can be judged"));
  }
  for (std::uint32_t pick = 1; pick < (std::uint32_t{1} << ids.size()); ++pick) {
    NumaMask mask;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (((pick >> i) & 1U) != 0) mask.add(ids[i]);
    }
    int count = 0;
    for (const DeviceClass& c : classes) count += c.numa.intersects(mask) ? c.count : 0;
    int& most = pool.most_touched[static_cast<std::size_t>(mask.count())];
    most = std::max(most, count);
  }
  for (std::size_t k = 1; k < pool.most_touched.size(); ++k) {
    pool.most_touched[k] = std::max(pool.most_touched[k], pool.most_touched[k - 1]);
  }
  return absl::OkStatus();
}

absl::Status Topology::CompileCpus() {
  if (kubelet().cpu_policy == CpuPolicy::kNone) {
    if (kubelet().cpu_options.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("cpu options: a kubelet takes none with policy none");
  }
  std::vector<CpuInfo> cpus;
  int core_number = 0;
  for (const NumaNodeSpec& node : spec_.numa) {
    for (const CoreSpec& core : node.cores) {
      for (const int cpu : core.threads) {
        cpus.push_back({.cpu = cpu,
                        .core = core_number,
                        .socket = core.socket,
                        .numa = node.id,
                        .uncore = core.uncore.value_or(-1)});
      }
      ++core_number;
    }
  }
  absl::StatusOr<CpuTopology> machine = CpuTopology::Create(std::move(cpus));
  if (!machine.ok()) return machine.status();
  absl::StatusOr<CpuManager> manager = CpuManager::Create(*std::move(machine), kubelet());
  if (!manager.ok()) return manager.status();
  cpu_manager_.emplace(*std::move(manager));
  initial_compute_.default_cpus = cpu_manager_->InitialDefaultCpus();
  return absl::OkStatus();
}

absl::Status Topology::CompileMemory() {
  if (kubelet().memory_policy == MemoryPolicy::kNone) return absl::OkStatus();
  std::vector<MemoryNodeSpec> nodes;
  for (const NumaNodeSpec& node : spec_.numa) {
    MemoryNodeSpec& out = nodes.emplace_back();
    out.id = node.id;
    out.memory = static_cast<std::uint64_t>(node.memory);
    for (const HugepagePool& pool : node.hugepages) {
      out.hugepages["hugepages-" + pool.size] =
          static_cast<std::uint64_t>(pool.page_bytes) * static_cast<std::uint64_t>(pool.pages);
    }
  }
  std::vector<MemoryReservationSpec> reserved;
  for (const MemoryReservation& entry : kubelet().reserved_memory) {
    for (const auto& [type, bytes] : entry.limits) {
      reserved.push_back({.numa = entry.numa, .type = type, .bytes = bytes});
    }
  }
  absl::StatusOr<MemoryManager> manager =
      MemoryManager::Create(nodes, reserved, std::nullopt, kubelet().version);
  if (!manager.ok()) return manager.status();
  memory_manager_.emplace(*std::move(manager));
  initial_compute_.memory = memory_manager_->InitialState();
  return absl::OkStatus();
}

void Topology::CompileEndpoints() {
  // Numbered in the order of classes and ids, so that equal machines get equal numbers.
  std::map<std::string, int> numbers;
  class_endpoints_.resize(classes_.size());
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    const Pool& pool = pools_[p];
    for (int c = pool.first_class; c < pool.first_class + pool.class_count; ++c) {
      std::set<int> used;
      for (const std::string& id : class_ids_[static_cast<std::size_t>(c)]) {
        const DeviceRef ref = device_index_[p].at(id);
        const std::string& name = pool.endpoints[static_cast<std::size_t>(ref.endpoint_index)];
        used.insert(numbers.emplace(name, static_cast<int>(numbers.size())).first->second);
      }
      class_endpoints_[static_cast<std::size_t>(c)].assign(used.begin(), used.end());
    }
  }
}

void Topology::CompileFingerprint() {
  const KubeletSettings& k = kubelet();
  std::string& out = fingerprint_;
  absl::StrAppend(&out, std::string(TopologyPolicyName(k.policy)), "/",
                  std::string(TopologyScopeName(k.scope)),
                  k.version.HintsOverDeviceNodesOnly() ? "/narrow" : "/wide", "/", numa_.bits());
  if (k.prefer_closest_numa_nodes) {
    absl::StrAppend(&out, "/closest");
    numa_.ForEach([&](int from) {
      numa_.ForEach([&](int to) { absl::StrAppend(&out, ",", Distance(from, to)); });
    });
  }
  AppendCpus(kubelet(), spec_.numa, out);
  AppendMemory(kubelet(), spec_.numa, out);
  for (const Pool& pool : pools_) {
    absl::StrAppend(&out, "\n", pool.resource, pool.has_preference ? " ordered" : "",
                    pool.one_token_per_endpoint ? " distinct" : "");
    for (int c = pool.first_class; c < pool.first_class + pool.class_count; ++c) {
      const DeviceClass& k_class = classes_[static_cast<std::size_t>(c)];
      absl::StrAppend(&out, " ", k_class.count, "@", k_class.numa.bits());
      if (k_class.hardware != k_class.numa) absl::StrAppend(&out, "~", k_class.hardware.bits());
      absl::StrAppend(&out, k_class.has_topology ? "t" : "", k_class.has_numa ? "n" : "",
                      k_class.placeless ? "p" : "", k_class.healthy ? "" : "!", ":",
                      absl::StrJoin(class_endpoints_[static_cast<std::size_t>(c)], ","));
    }
  }
}

int Topology::FindPool(std::string_view resource) const {
  const auto at = std::lower_bound(
      pools_.begin(), pools_.end(), resource,
      [](const Pool& pool, std::string_view name) { return pool.resource < name; });
  if (at == pools_.end() || at->resource != resource) return -1;
  return static_cast<int>(at - pools_.begin());
}

Topology::DeviceRef Topology::FindDevice(int pool, std::string_view device_id) const {
  const auto& index = device_index_[static_cast<std::size_t>(pool)];
  const auto at = index.find(absl::string_view(device_id.data(), device_id.size()));
  return at == index.end() ? DeviceRef{} : at->second;
}

int Topology::MinimalWidth(const Pool& pool, std::int64_t request) const {
  const int widest = static_cast<int>(pool.most_touched.size()) - 1;
  for (int width = 1; width < widest; ++width) {
    if (pool.most_touched[static_cast<std::size_t>(width)] >= request) return width;
  }
  return widest;
}

std::span<const std::string> Topology::DeviceIds(int class_index) const {
  return class_ids_[static_cast<std::size_t>(class_index)];
}

std::span<const int> Topology::ClassEndpoints(int class_index) const {
  return class_endpoints_[static_cast<std::size_t>(class_index)];
}

int Topology::Distance(int from_numa, int to_numa) const {
  const auto row = distances_.find(from_numa);
  if (row == distances_.end() || static_cast<int>(row->second.size()) <= to_numa) {
    return from_numa == to_numa ? kDefaultOwnDistance : kDefaultOtherDistance;
  }
  return row->second[static_cast<std::size_t>(to_numa)];
}

}  // namespace numafit::policy
