#include "agent/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "agent/device_groups.h"
#include "agent/pod_join.h"
#include "api/held_places.h"

namespace numafit::agent {
namespace {

using Ids = std::map<std::string, std::set<std::string>>;  // by resource

// What one container has, whichever source says it.
struct Holding {
  std::string name;
  bool init = false;
  Ids devices;
  policy::CpuSet cpus;
  std::vector<MemoryBlock> memory;
};

void WriteDevices(const Ids& devices, const DeviceGroups& groups,
                  google::protobuf::RepeatedPtrField<v1alpha1::HeldDevices>* out) {
  for (const auto& [resource, ids] : devices) {
    std::map<int, int> counts;
    for (const std::string& id : ids) {
      const int group = groups.GroupOf(resource, id);
      if (group >= 0) ++counts[group];
    }
    for (const auto& [group, count] : counts) {
      v1alpha1::HeldDevices* held = out->Add();
      held->set_resource(resource);
      held->set_group(group);
      held->set_count(count);
    }
  }
}

void WriteMemory(std::vector<MemoryBlock> blocks,
                 google::protobuf::RepeatedPtrField<v1alpha1::HeldMemory>* out) {
  std::sort(blocks.begin(), blocks.end(), [](const MemoryBlock& a, const MemoryBlock& b) {
    return std::tie(a.type, a.numa_nodes, a.bytes) < std::tie(b.type, b.numa_nodes, b.bytes);
  });
  for (const MemoryBlock& block : blocks) {
    v1alpha1::HeldMemory* held = out->Add();
    held->set_type(block.type);
    for (const int node : block.numa_nodes) held->add_numa_nodes(node);
    held->set_bytes(std::to_string(block.bytes));
  }
}

// Containers that the state files name and PodResources does not list: regular init containers.
std::vector<Holding> FromStateFiles(const Observations& seen, const std::string& uid,
                                    const HeldIds& held, const ListedPod* listed) {
  std::map<std::string, Holding> containers;
  for (const auto& [name, resources] : held) {
    for (const auto& [resource, ids] : resources) containers[name].devices[resource] = ids;
  }
  if (seen.cpus.has_value()) {
    const auto found = seen.cpus->containers.find(uid);
    if (found != seen.cpus->containers.end()) {
      for (const auto& [name, cpus] : found->second) containers[name].cpus = cpus;
    }
  }
  if (seen.memory.has_value()) {
    const auto found = seen.memory->containers.find(uid);
    if (found != seen.memory->containers.end()) {
      for (const auto& [name, blocks] : found->second) containers[name].memory = blocks;
    }
  }
  std::vector<Holding> holdings;
  for (auto& [name, holding] : containers) {
    const bool is_listed =
        listed != nullptr &&
        std::any_of(listed->containers.begin(), listed->containers.end(),
                    [&name = name](const ListedContainer& c) { return c.name == name; });
    if (is_listed) continue;
    holding.name = name;
    holding.init = listed != nullptr;
    holdings.push_back(std::move(holding));
  }
  return holdings;
}

Holding FromList(const ListedContainer& container) {
  Holding holding;
  holding.name = container.name;
  for (const auto& [resource, devices] : container.devices) {
    for (const auto& [id, topology] : devices) holding.devices[resource].insert(id);
  }
  holding.cpus = container.cpus;
  holding.memory = container.memory;
  return holding;
}

class PodWriter {
 public:
  PodWriter(const Observations& seen, const JoinedPods& joined, const DeviceGroups& groups,
            v1alpha1::NodeReportStatus* report)
      : seen_(seen), groups_(groups), report_(report), held_(HeldByUid(seen, joined)) {}

  // `listed` may be null, `uid` empty, not both.
  void Add(const ListedPod* listed, const std::string& uid) {
    const auto held = held_.find(uid);
    std::vector<Holding> holdings;
    if (!uid.empty()) {
      holdings = FromStateFiles(seen_, uid, held == held_.end() ? HeldIds() : held->second, listed);
    }
    v1alpha1::Pod pod;
    if (listed != nullptr) {
      for (const ListedContainer& container : listed->containers) {
        holdings.push_back(FromList(container));
      }
      pod.set_namespace_(listed->namespace_);
      pod.set_name(listed->name);
    } else if (const auto name = seen_.pod_names.find(uid); name != seen_.pod_names.end()) {
      pod.set_namespace_(name->second.namespace_);
      pod.set_name(name->second.name);
    }
    pod.set_uid(uid);
    AddPodLevel(listed, uid, &pod);
    Ids all;
    for (const Holding& holding : holdings) {
      if (holding.devices.empty() && holding.cpus.empty() && holding.memory.empty()) continue;
      v1alpha1::Container* container = pod.add_containers();
      container->set_name(holding.name);
      container->set_init(holding.init);
      WriteDevices(holding.devices, groups_, container->mutable_devices());
      container->set_cpus(policy::FormatCpuSet(holding.cpus));
      WriteMemory(holding.memory, container->mutable_memory());
      for (const auto& [resource, ids] : holding.devices) {
        all[resource].insert(ids.begin(), ids.end());
      }
    }
    WriteDevices(all, groups_, pod.mutable_devices());
    if (pod.containers_size() == 0 && pod.cpus().empty() && pod.memory_size() == 0) return;
    *report_->add_pods() = std::move(pod);
  }

 private:
  void AddPodLevel(const ListedPod* listed, const std::string& uid, v1alpha1::Pod* pod) const {
    policy::CpuSet cpus;
    std::vector<MemoryBlock> memory;
    if (seen_.cpus.has_value()) {
      const auto found = seen_.cpus->pods.find(uid);
      if (found != seen_.cpus->pods.end()) cpus = found->second;
    }
    if (seen_.memory.has_value()) {
      const auto found = seen_.memory->pods.find(uid);
      if (found != seen_.memory->pods.end()) memory = found->second;
    }
    if (listed != nullptr && !listed->cpus.empty()) cpus = listed->cpus;
    if (listed != nullptr && !listed->memory.empty()) memory = listed->memory;
    pod->set_cpus(policy::FormatCpuSet(cpus));
    WriteMemory(memory, pod->mutable_memory());
  }

  const Observations& seen_;
  const DeviceGroups& groups_;
  v1alpha1::NodeReportStatus* report_;
  const std::map<std::string, HeldIds> held_;
};

void WriteSummary(const api::ResourceClasses& classes, v1alpha1::NodeReportStatus* report) {
  struct Count {
    int free = 0;
    int total = 0;
  };
  Count accelerators;
  Count endpoints;
  for (const v1alpha1::Resource& resource : report->resources()) {
    const api::ResourceKind kind = classes.Classify(resource.name());
    const bool accelerator = kind == api::ResourceKind::kAccelerator;
    if (!accelerator && !api::IsEndpoint(kind)) continue;
    Count& count = accelerator ? accelerators : endpoints;
    for (const v1alpha1::DeviceGroup& group : resource.groups()) {
      if (!group.unhealthy()) count.total += group.count();
    }
    int held = 0;
    for (const v1alpha1::Pod& pod : report->pods()) {
      for (const v1alpha1::HeldDevices& devices : pod.devices()) {
        if (devices.resource() != resource.name()) continue;
        if (!resource.groups(devices.group()).unhealthy()) held += devices.count();
      }
    }
    count.free -= held;
  }
  const auto text = [](const Count& count) {
    return fmt::format("{}/{}", std::max(0, count.free + count.total), count.total);
  };
  v1alpha1::Summary* summary = report->mutable_summary();
  summary->set_accelerators(text(accelerators));
  summary->set_endpoints(text(endpoints));
  int misaligned = 0;
  for (const v1alpha1::Pod& pod : report->pods()) {
    for (const v1alpha1::Container& container : pod.containers()) {
      const api::ContainerPlaces places = api::PlacesOf(*report, container, classes);
      if (api::AlignmentOf(places.devices) == api::HeldAlignment::kMisaligned) ++misaligned;
    }
  }
  summary->set_misaligned_containers(misaligned);
}

void WriteKubelet(const Observations& seen, v1alpha1::NodeReportStatus* report) {
  v1alpha1::Kubelet* kubelet = report->mutable_kubelet();
  if (seen.kubelet.has_value()) *kubelet = *seen.kubelet;
  // The state files are written by the running kubelet, so they are right about their policy
  // whatever a file on disk says.
  if (seen.cpus.has_value() && !kubelet->confirmed()) {
    kubelet->set_cpu_manager_policy(seen.cpus->policy);
  }
  if (seen.memory.has_value() && !kubelet->confirmed()) {
    kubelet->set_memory_manager_policy(seen.memory->policy);
  }
}

}  // namespace

v1alpha1::NodeReportStatus Assemble(const Observations& seen, const api::ResourceClasses& classes,
                                    const std::vector<EndpointRule>& rules) {
  v1alpha1::NodeReportStatus report;
  report.set_boot_id(seen.boot_id);
  for (const v1alpha1::Source& source : seen.sources) *report.add_sources() = source;
  WriteKubelet(seen, &report);
  for (const v1alpha1::NumaNode& node : seen.numa_nodes) *report.add_numa_nodes() = node;
  for (const v1alpha1::RdmaDevice& device : seen.rdma_devices) {
    *report.add_rdma_devices() = device;
  }
  const EndpointMap endpoints(rules, seen.rdma_devices, seen.pci_numa_nodes);
  const DeviceGroups groups(seen.devices, classes, endpoints, &report);

  const JoinedPods joined = JoinPods(seen);
  PodWriter writer(seen, joined, groups, &report);
  for (std::size_t i = 0; i < joined.uids.size(); ++i) {
    writer.Add(&(*seen.pods)[i], joined.uids[i]);
  }
  for (const std::string& uid : joined.nameless) writer.Add(nullptr, uid);
  std::stable_sort(report.mutable_pods()->pointer_begin(), report.mutable_pods()->pointer_end(),
                   [](const v1alpha1::Pod* a, const v1alpha1::Pod* b) {
                     return std::tie(a->namespace_(), a->name(), a->uid()) <
                            std::tie(b->namespace_(), b->name(), b->uid());
                   });
  if (seen.cpus.has_value() && seen.cpus->policy == "static") {
    report.set_default_cpus(policy::FormatCpuSet(seen.cpus->default_cpus));
  }
  if (seen.memory.has_value() && seen.memory->policy == "Static") {
    for (const v1alpha1::MemoryBook& book : seen.memory->books) {
      *report.add_memory_books() = book;
    }
  }
  WriteSummary(classes, &report);
  return report;
}

}  // namespace numafit::agent
