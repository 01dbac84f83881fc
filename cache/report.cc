#include "cache/report.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "api/node_report.pb.h"
#include "api/quantity.h"
#include "cache/books.h"

namespace numafit::cache {
namespace {

using v1alpha1::NodeReportStatus;

constexpr int kMaxNumaNodes = 64;
constexpr int kMaxDevicesOfGroup = 65'536;

absl::Status Wrong(std::string_view field, std::string_view value, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("{}: is \"{}\", expected {}", field, value, expected));
}

absl::Status ReadBytes(const std::string& field, const std::string& text, std::int64_t* bytes) {
  if (absl::SimpleAtoi(text, bytes) && *bytes >= 0) return absl::OkStatus();
  return Wrong(field, text, "a number of bytes");
}

absl::Status ReadCpus(const std::string& field, const std::string& text, policy::CpuSet* cpus) {
  absl::StatusOr<policy::CpuSet> parsed = policy::ParseCpuSet(text);
  if (!parsed.ok()) return Wrong(field, text, "a set of CPUs such as 0-3,8");
  *cpus = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status ReadTopologyOptions(const v1alpha1::Kubelet& kubelet,
                                 policy::KubeletSettings& settings) {
  for (const auto& [option, value] : kubelet.topology_manager_policy_options()) {
    const std::string field = "kubelet.topologyManagerPolicyOptions." + option;
    if (option == "prefer-closest-numa-nodes") {
      const std::optional<bool> closest = policy::ParseGoBool(value);
      if (!closest) return Wrong(field, value, "a boolean");
      settings.prefer_closest_numa_nodes = *closest;
    } else if (option == "max-allowable-numa-nodes") {
      if (!absl::SimpleAtoi(value, &settings.max_allowable_numa_nodes)) {
        return Wrong(field, value, "a number");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadManagers(const v1alpha1::Kubelet& kubelet, policy::KubeletSettings& settings) {
  const std::string& cpu = kubelet.cpu_manager_policy();
  if (cpu == "static") {
    settings.cpu_policy = policy::CpuPolicy::kStatic;
  } else if (cpu != "none") {
    return Wrong("kubelet.cpuManagerPolicy", cpu, "none or static");
  }
  for (const auto& [option, value] : kubelet.cpu_manager_policy_options()) {
    settings.cpu_options[option] = value;
  }
  policy::CpuSet reserved;
  if (absl::Status status =
          ReadCpus("kubelet.reservedSystemCpus", kubelet.reserved_system_cpus(), &reserved);
      !status.ok()) {
    return status;
  }
  reserved.ForEach([&](int id) { settings.reserved_cpus.push_back(id); });
  settings.reserved_cpu_milli = kubelet.reserved_cpu_milli();
  const std::string& memory = kubelet.memory_manager_policy();
  if (memory == "Static") {
    settings.memory_policy = policy::MemoryPolicy::kStatic;
  } else if (memory != "None") {
    return Wrong("kubelet.memoryManagerPolicy", memory, "None or Static");
  }
  for (const v1alpha1::MemoryReservation& entry : kubelet.reserved_memory()) {
    policy::MemoryReservation reservation;
    reservation.numa = entry.numa_node();
    for (const auto& [type, bytes] : entry.limits()) {
      if (absl::Status status =
              ReadBytes("kubelet.reservedMemory.limits." + type, bytes, &reservation.limits[type]);
          !status.ok()) {
        return status;
      }
    }
    settings.reserved_memory.push_back(std::move(reservation));
  }
  for (const auto& [gate, on] : kubelet.feature_gates()) settings.feature_gates[gate] = on;
  return absl::OkStatus();
}

absl::Status ReadKubelet(const v1alpha1::Kubelet& kubelet, policy::KubeletSettings& settings) {
  const auto version = policy::KubeletVersion::TryParse(kubelet.version());
  if (!version) return Wrong("kubelet.version", kubelet.version(), "a version such as v1.36.3");
  settings.version = *version;
  const auto policy = policy::ParseTopologyPolicy(kubelet.topology_manager_policy());
  if (!policy) {
    return Wrong("kubelet.topologyManagerPolicy", kubelet.topology_manager_policy(),
                 "none, best-effort, restricted or single-numa-node");
  }
  settings.policy = *policy;
  const auto scope = policy::ParseTopologyScope(kubelet.topology_manager_scope());
  if (!scope) {
    return Wrong("kubelet.topologyManagerScope", kubelet.topology_manager_scope(),
                 "container or pod");
  }
  settings.scope = *scope;
  if (absl::Status status = ReadTopologyOptions(kubelet, settings); !status.ok()) return status;
  return ReadManagers(kubelet, settings);
}

absl::Status ReadCores(const v1alpha1::Cores& group, const std::string& field,
                       policy::NumaNodeSpec& node) {
  std::vector<std::vector<int>> cores;
  for (const std::string& text : group.threads()) {
    policy::CpuSet cpus;
    if (absl::Status status = ReadCpus(field, text, &cpus); !status.ok()) return status;
    if (cores.empty()) cores.resize(static_cast<std::size_t>(cpus.count()));
    if (static_cast<std::size_t>(cpus.count()) != cores.size()) {
      return Wrong(field, text, fmt::format("{} CPUs, as many as cores", cores.size()));
    }
    std::size_t at = 0;
    cpus.ForEach([&](int id) { cores[at++].push_back(id); });
  }
  for (std::vector<int>& threads : cores) {
    policy::CoreSpec core{.threads = std::move(threads), .socket = group.socket(), .uncore = {}};
    if (group.uncore_cache() >= 0) core.uncore = group.uncore_cache();
    node.cores.push_back(std::move(core));
  }
  return absl::OkStatus();
}

absl::Status ReadNumaNode(const v1alpha1::NumaNode& node, policy::NumaNodeSpec& spec) {
  const std::string field = fmt::format("numaNodes[id {}]", node.id());
  spec.id = node.id();
  if (!node.memory().empty()) {
    if (absl::Status status = ReadBytes(field + ".memory", node.memory(), &spec.memory);
        !status.ok()) {
      return status;
    }
  }
  for (const v1alpha1::Hugepages& pages : node.hugepages()) {
    const absl::StatusOr<api::Quantity> size = api::Quantity::Parse(pages.size());
    if (!size.ok() || size->value() <= 0 || pages.pages() < 0) {
      return Wrong(field + ".hugepages", fmt::format("{} of {}", pages.pages(), pages.size()),
                   "a size such as 2Mi and how many pages");
    }
    spec.hugepages.push_back({pages.size(), size->value(), pages.pages()});
  }
  spec.distances.assign(node.distances().begin(), node.distances().end());
  for (const v1alpha1::Cores& group : node.cores()) {
    if (absl::Status status = ReadCores(group, field + ".cores", spec); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroup(const std::string& field, const v1alpha1::DeviceGroup& group) {
  if (group.count() < 0 || group.count() > kMaxDevicesOfGroup) {
    return Wrong(field + ".count", std::to_string(group.count()),
                 fmt::format("0 to {}", kMaxDevicesOfGroup));
  }
  for (const int numa : group.numa_nodes()) {
    if (numa < -1 || numa >= kMaxNumaNodes) {
      return Wrong(field + ".numaNodes", std::to_string(numa), "0 to 63");
    }
  }
  return absl::OkStatus();
}

// The parts that a topology consists of, endpoints numbered. Endpoints get their number in an order
// that does not depend on their names as long as something else tells them apart.
NodeReportStatus Nameless(const NodeReportStatus& report) {
  NodeReportStatus bare;
  *bare.mutable_kubelet() = report.kubelet();
  bare.mutable_kubelet()->set_confirmed(false);
  bare.mutable_kubelet()->set_away(false);
  *bare.mutable_numa_nodes() = report.numa_nodes();
  std::map<std::string, int> numbers;
  for (const v1alpha1::Resource& resource : report.resources()) {
    std::vector<const v1alpha1::DeviceGroup*> groups;
    for (const v1alpha1::DeviceGroup& group : resource.groups()) groups.push_back(&group);
    const auto key = [](const v1alpha1::DeviceGroup* group) {
      return std::make_tuple(
          std::vector<int>(group->numa_nodes().begin(), group->numa_nodes().end()),
          std::vector<int>(group->actual_numa_nodes().begin(), group->actual_numa_nodes().end()),
          group->no_topology(), group->unhealthy(), group->count());
    };
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const auto* a, const auto* b) { return key(a) < key(b); });
    v1alpha1::Resource* out = bare.add_resources();
    out->set_name(resource.name());
    for (const v1alpha1::DeviceGroup* group : groups) {
      const int number =
          numbers.emplace(group->endpoint(), static_cast<int>(numbers.size())).first->second;
      v1alpha1::DeviceGroup* copy = out->add_groups();
      *copy = *group;
      copy->set_endpoint(fmt::format("e{}", number));
    }
  }
  return bare;
}

std::string Deterministic(const NodeReportStatus& report) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  report.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

policy::DeviceSpec DeviceOf(const v1alpha1::DeviceGroup& group, int number) {
  policy::DeviceSpec device;
  device.id = fmt::format("{}#{}", group.endpoint(), number);
  if (!group.no_topology()) {
    device.numa.emplace(group.numa_nodes().begin(), group.numa_nodes().end());
  } else {
    device.actual_numa.assign(group.actual_numa_nodes().begin(), group.actual_numa_nodes().end());
  }
  device.endpoint = group.endpoint();
  device.healthy = !group.unhealthy();
  return device;
}

absl::StatusOr<policy::TopologySpec> SpecOf(const NodeReportStatus& bare) {
  policy::TopologySpec spec;
  if (absl::Status status = ReadKubelet(bare.kubelet(), spec.kubelet); !status.ok()) return status;
  for (const v1alpha1::NumaNode& node : bare.numa_nodes()) {
    if (absl::Status status = ReadNumaNode(node, spec.numa.emplace_back()); !status.ok()) {
      return status;
    }
  }
  for (const v1alpha1::Resource& resource : bare.resources()) {
    std::vector<policy::DeviceSpec>& devices = spec.devices[resource.name()];
    std::map<std::string, int> numbers;
    for (const v1alpha1::DeviceGroup& group : resource.groups()) {
      const std::string field =
          fmt::format("resources[{}].groups[{}]", resource.name(), group.endpoint());
      if (absl::Status status = CheckGroup(field, group); !status.ok()) return status;
      for (int i = 0; i < group.count(); ++i) {
        devices.push_back(DeviceOf(group, numbers[group.endpoint()]++));
      }
    }
  }
  return spec;
}

// GPUStack's shares of cards: so many tokens are so many cards, or its plugin refuses. NVIDIA's
// replicas have the same resource name and may be of one card; theirs are the ids without a ':'
// ("GPU-1f…" beside "h100-80gb-hbm3:GPU-1f…").
std::set<std::string> CardPerToken(const NodeReportStatus& report,
                                   const api::ResourceClasses& classes) {
  std::set<std::string> names;
  for (const v1alpha1::Resource& resource : report.resources()) {
    if (!resource.name().ends_with(".shared") || resource.groups().empty() ||
        classes.Classify(resource.name()) != api::ResourceKind::kAccelerator) {
      continue;
    }
    const bool all = std::all_of(resource.groups().begin(), resource.groups().end(), [](auto& g) {
      return std::count(g.endpoint().begin(), g.endpoint().end(), ':') == 1;
    });
    if (all) names.insert(resource.name());
  }
  return names;
}

// From a group of the report to the class of its devices.
class Classes {
 public:
  explicit Classes(const policy::Topology& topology) : topology_(topology) {
    for (const policy::Topology::DeviceClass& device_class : topology.classes()) {
      free_.push_back(device_class.count);
    }
  }

  absl::Status Find(const NodeReportStatus& report) {
    for (const v1alpha1::Resource& resource : report.resources()) {
      std::vector<int>& classes = of_group_[resource.name()];
      const int pool = topology_.FindPool(resource.name());
      for (const v1alpha1::DeviceGroup& group : resource.groups()) {
        classes.push_back(pool < 0 ? -1 : ClassOf(pool, group));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Take(const v1alpha1::HeldDevices& held, const std::string& field,
                    std::map<int, int>& counts) {
    const auto resource = of_group_.find(held.resource());
    if (resource == of_group_.end()) {
      return Wrong(field + ".resource", held.resource(), "a resource of the report");
    }
    const auto group = static_cast<std::size_t>(held.group());
    if (held.group() < 0 || group >= resource->second.size() || resource->second[group] < 0) {
      return Wrong(field + ".group", std::to_string(held.group()), "a group of the resource");
    }
    const int device_class = resource->second[group];
    int& free = free_[static_cast<std::size_t>(device_class)];
    if (held.count() < 1 || held.count() > free) {
      return Wrong(field + ".count", std::to_string(held.count()),
                   fmt::format("1 to {}, as many as nobody else has", free));
    }
    free -= held.count();
    counts[device_class] += held.count();
    return absl::OkStatus();
  }

 private:
  // The class of devices like these; -1 for a group without devices.
  [[nodiscard]] int ClassOf(int pool, const v1alpha1::DeviceGroup& group) const {
    const policy::DeviceSpec like = DeviceOf(group, 0);
    const auto& devices = topology_.spec().devices;
    const auto found = devices.find(topology_.pools()[static_cast<std::size_t>(pool)].resource);
    for (const policy::DeviceSpec& device : found->second) {
      if (device.numa == like.numa && device.actual_numa == like.actual_numa &&
          device.healthy == like.healthy) {
        return topology_.FindDevice(pool, device.id).class_index;
      }
    }
    return -1;
  }

  const policy::Topology& topology_;
  std::vector<int> free_;
  std::map<std::string, std::vector<int>> of_group_;
};

using HeldMemories = google::protobuf::RepeatedPtrField<v1alpha1::HeldMemory>;

absl::Status ReadMemory(const policy::MemoryManager& manager, const HeldMemories& entry, bool init,
                        const std::string& field, policy::ContainerMemory& memory) {
  memory.kind = init ? policy::ContainerDemand::Kind::kInit : policy::ContainerDemand::Kind::kApp;
  memory.held = true;
  for (const v1alpha1::HeldMemory& held : entry) {
    policy::MemoryBlock block;
    block.type = manager.FindType(held.type());
    if (block.type == policy::kUnknownMemoryType) {
      return Wrong(field + ".type", held.type(), "a type of memory that the machine has");
    }
    std::int64_t bytes = 0;
    if (absl::Status status = ReadBytes(field + ".bytes", held.bytes(), &bytes); !status.ok()) {
      return status;
    }
    block.size = static_cast<std::uint64_t>(bytes);
    for (const int numa : held.numa_nodes()) {
      if (numa < 0 || numa >= kMaxNumaNodes || !manager.HasType(numa, block.type)) {
        return Wrong(field + ".numaNodes", std::to_string(numa), "a NUMA node that has the type");
      }
      block.numa.add(numa);
    }
    memory.blocks.push_back(block);
  }
  std::sort(memory.blocks.begin(), memory.blocks.end());
  return absl::OkStatus();
}

// What a Pod was allocated as a whole (policy/requests.h, IsAllocatedAsAWhole).
absl::Status ReadWholePod(const policy::Topology& topology, const v1alpha1::Pod& pod,
                          const std::string& field, ReportedPod& out) {
  if (topology.cpu_manager() != nullptr && !pod.cpus().empty()) {
    policy::CpuSet cpus;
    if (absl::Status status = ReadCpus(field + ".cpus", pod.cpus(), &cpus); !status.ok()) {
      return status;
    }
    out.held.cpus |= cpus;
  }
  if (topology.memory_manager() == nullptr || pod.memory().empty()) return absl::OkStatus();
  return ReadMemory(*topology.memory_manager(), pod.memory(), /*init=*/false, field + ".memory",
                    out.held.memory.emplace_back());
}

absl::Status ReadPod(const policy::Topology& topology, const v1alpha1::Pod& pod,
                     const std::string& field, Classes& classes, ReportedPod& out) {
  out.name = pod.namespace_() + "/" + pod.name();
  out.uid = pod.uid();
  std::map<int, int> counts;
  for (const v1alpha1::HeldDevices& held : pod.devices()) {
    if (absl::Status status = classes.Take(held, field + ".devices", counts); !status.ok()) {
      return status;
    }
  }
  for (const auto& [device_class, count] : counts) {
    out.held.devices.push_back({device_class, count});
  }
  for (const v1alpha1::Container& container : pod.containers()) {
    if (topology.cpu_manager() != nullptr) {
      policy::CpuSet cpus;
      if (absl::Status status = ReadCpus(field + ".cpus", container.cpus(), &cpus); !status.ok()) {
        return status;
      }
      out.held.cpus |= cpus;
    }
    // What the Pod has as a whole is what it holds; its containers part it.
    if (topology.memory_manager() == nullptr || container.memory().empty() ||
        !pod.memory().empty()) {
      continue;
    }
    if (absl::Status status =
            ReadMemory(*topology.memory_manager(), container.memory(), container.init(),
                       field + ".memory", out.held.memory.emplace_back());
        !status.ok()) {
      return status;
    }
  }
  return ReadWholePod(topology, pod, field, out);
}

absl::Status ReadBook(const policy::MemoryManager& manager, const v1alpha1::MemoryBook& book,
                      policy::MemoryState& state) {
  const auto ids = manager.numa_ids();
  const auto found = std::find(ids.begin(), ids.end(), book.numa_node());
  const std::string field = fmt::format("memoryBooks[NUMA {}]", book.numa_node());
  if (found == ids.end()) {
    return Wrong(field, std::to_string(book.numa_node()), "a NUMA node of the machine");
  }
  const auto position = static_cast<std::size_t>(found - ids.begin());
  policy::MemoryState::Node& node = state.nodes[position];
  if (book.assignments() < 0) {
    return Wrong(field + ".assignments", std::to_string(book.assignments()), "0 or more");
  }
  node.assignments = book.assignments();
  node.cells = {};
  for (const int numa : book.cells()) {
    if (std::find(ids.begin(), ids.end(), numa) == ids.end()) {
      return Wrong(field + ".cells", std::to_string(numa), "a NUMA node of the machine");
    }
    node.cells.add(numa);
  }
  for (const bool is_free : {true, false}) {
    for (const auto& [name, text] : is_free ? book.free() : book.reserved()) {
      const int type = manager.FindType(name);
      std::int64_t bytes = 0;
      if (absl::Status status = ReadBytes(field + (is_free ? ".free" : ".reserved"), text, &bytes);
          !status.ok()) {
        return status;
      }
      if (type == policy::kUnknownMemoryType) continue;  // of no NUMA node: always 0
      policy::MemoryState::Amount& amount = state.at(position, type);
      (is_free ? amount.free : amount.reserved) = static_cast<std::uint64_t>(bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadBooks(const NodeReportStatus& report, ReportedNode& node) {
  const policy::Topology& topology = *node.topology;
  node.books = topology.initial_compute();
  if (!topology.HasBooks()) return absl::OkStatus();
  for (const ReportedPod& pod : node.pods) AddToBooks(topology, pod.held, node.books);
  if (topology.cpu_manager() != nullptr && !report.default_cpus().empty()) {
    if (absl::Status status =
            ReadCpus("defaultCpus", report.default_cpus(), &node.books.default_cpus);
        !status.ok()) {
      return status;
    }
  }
  if (topology.memory_manager() == nullptr) return absl::OkStatus();
  for (const v1alpha1::MemoryBook& book : report.memory_books()) {
    if (absl::Status status = ReadBook(*topology.memory_manager(), book, node.books.memory);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const policy::Topology>> ReportReader::TopologyOf(
    const NodeReportStatus& report) {
  const NodeReportStatus bare = Nameless(report);
  const std::set<std::string> card_per_token = CardPerToken(report, classes_);
  std::string key = Deterministic(bare);
  for (const std::string& name : card_per_token) key += "\n" + name;
  if (const auto found = topologies_.find(key); found != topologies_.end()) {
    if (std::shared_ptr<const policy::Topology> known = found->second.lock()) return known;
  }
  absl::StatusOr<policy::TopologySpec> spec = SpecOf(bare);
  if (!spec.ok()) return spec.status();
  spec->one_token_per_endpoint = card_per_token;
  absl::StatusOr<std::shared_ptr<const policy::Topology>> topology =
      policy::Topology::Create(*std::move(spec));
  if (!topology.ok()) return topology.status();
  if (topologies_.size() >= forget_at_) ForgetUnused();
  topologies_[std::move(key)] = *topology;
  return topology;
}

void ReportReader::ForgetUnused() {
  absl::erase_if(topologies_, [](const auto& entry) { return entry.second.expired(); });
  forget_at_ = std::max(kMinKept, topologies_.size() * 2);
}

std::size_t ReportReader::topologies() const {
  return static_cast<std::size_t>(
      std::count_if(topologies_.begin(), topologies_.end(),
                    [](const auto& entry) { return !entry.second.expired(); }));
}

absl::StatusOr<ReportedNode> ReportReader::Read(const NodeReportStatus& report) {
  absl::StatusOr<std::shared_ptr<const policy::Topology>> topology = TopologyOf(report);
  if (!topology.ok()) return topology.status();
  ReportedNode node;
  node.topology = *std::move(topology);
  node.boot_id = report.boot_id();
  node.generation = report.generation();
  node.kubelet_away = report.kubelet().away();
  node.misaligned_containers = report.summary().misaligned_containers();
  node.facts = FactsOf(report, classes_);
  Classes classes(*node.topology);
  if (absl::Status status = classes.Find(report); !status.ok()) return status;
  absl::flat_hash_set<std::string> seen;
  for (const v1alpha1::Pod& pod : report.pods()) {
    const std::string field = fmt::format("pods[{}/{}]", pod.namespace_(), pod.name());
    const bool is_new = seen.insert(pod.uid().empty() ? field : pod.uid()).second;
    if (!is_new) return Wrong(field + ".uid", pod.uid(), "each Pod once");
    if (absl::Status status =
            ReadPod(*node.topology, pod, field, classes, node.pods.emplace_back());
        !status.ok()) {
      return status;
    }
    node.pods.back().places = places_.Intern(api::PlacesOf(report, pod, classes_));
  }
  if (absl::Status status = ReadBooks(report, node); !status.ok()) return status;
  return node;
}

}  // namespace numafit::cache
