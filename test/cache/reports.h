// NodeReports of made-up machines, for the tests of cache/.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "api/node_report.pb.h"
#include "policy/cpu_set.h"
#include "policy/topology.h"
#include "policy/usage.h"

namespace numafit::test {

inline std::string CpusText(const std::vector<int>& ids) {
  policy::CpuSet cpus;
  for (const int id : ids) cpus.Add(id);
  return policy::FormatCpuSet(cpus);
}

inline void FillKubelet(const policy::KubeletSettings& settings, v1alpha1::Kubelet& kubelet) {
  kubelet.set_version("v1." + std::to_string(settings.version.minor) + ".3");
  kubelet.set_topology_manager_policy(std::string(policy::TopologyPolicyName(settings.policy)));
  kubelet.set_topology_manager_scope(std::string(policy::TopologyScopeName(settings.scope)));
  const bool is_static = settings.cpu_policy == policy::CpuPolicy::kStatic;
  kubelet.set_cpu_manager_policy(is_static ? "static" : "none");
  kubelet.set_reserved_cpu_milli(static_cast<int>(settings.reserved_cpu_milli));
  const bool keeps_memory = settings.memory_policy == policy::MemoryPolicy::kStatic;
  kubelet.set_memory_manager_policy(keeps_memory ? "Static" : "None");
  for (const policy::MemoryReservation& entry : settings.reserved_memory) {
    v1alpha1::MemoryReservation* out = kubelet.add_reserved_memory();
    out->set_numa_node(entry.numa);
    for (const auto& [type, bytes] : entry.limits) {
      (*out->mutable_limits())[type] = std::to_string(bytes);
    }
  }
  kubelet.set_confirmed(true);
}

inline void FillNumaNode(const policy::NumaNodeSpec& spec, v1alpha1::NumaNode& node) {
  node.set_id(spec.id);
  node.set_memory(std::to_string(spec.memory));
  for (const int distance : spec.distances) node.add_distances(distance);
  for (const policy::CoreSpec& core : spec.cores) {
    v1alpha1::Cores* group = node.add_cores();
    group->set_socket(core.socket);
    group->set_uncore_cache(core.uncore.value_or(-1));
    for (const int thread : core.threads) group->add_threads(std::to_string(thread));
  }
}

// What the agent of such a node reports: one group per device.
inline v1alpha1::NodeReportStatus ReportOf(const policy::TopologySpec& spec) {
  v1alpha1::NodeReportStatus report;
  report.set_boot_id("boot");
  FillKubelet(spec.kubelet, *report.mutable_kubelet());
  for (const policy::NumaNodeSpec& numa : spec.numa) FillNumaNode(numa, *report.add_numa_nodes());
  for (const auto& [name, devices] : spec.devices) {
    v1alpha1::Resource* resource = report.add_resources();
    resource->set_name(name);
    for (const policy::DeviceSpec& device : devices) {
      v1alpha1::DeviceGroup* group = resource->add_groups();
      group->set_endpoint(device.endpoint.empty() ? device.id : device.endpoint);
      group->set_no_topology(!device.numa.has_value());
      if (device.numa) {
        for (const int numa : *device.numa) group->add_numa_nodes(numa);
      }
      group->set_unhealthy(!device.healthy);
      group->set_count(1);
    }
  }
  return report;
}

// Adds Pods to a report of a machine whose Topology was made of the same spec. Gives each the first
// free devices of the class.
class ReportedPods {
 public:
  ReportedPods(const policy::Topology& topology, v1alpha1::NodeReportStatus& report)
      : topology_(topology), report_(report) {
    for (const policy::Topology::Pool& pool : topology.pools()) {
      const auto& devices = topology.spec().devices.at(pool.resource);
      const int index = topology.FindPool(pool.resource);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const int device_class = topology.FindDevice(index, devices[i].id).class_index;
        free_[device_class].push_back({pool.resource, static_cast<int>(i)});
      }
    }
  }

  void Add(const std::string& name, const std::string& uid, const policy::Holding& held) {
    v1alpha1::Pod* pod = report_.add_pods();
    pod->set_namespace_("default");
    pod->set_name(name);
    pod->set_uid(uid);
    v1alpha1::Container* main = nullptr;
    for (const policy::ClassCount& item : held.devices) {
      for (int i = 0; i < item.count; ++i) {
        std::vector<Group>& groups = free_[item.class_index];
        v1alpha1::HeldDevices* devices = pod->add_devices();
        devices->set_resource(groups.front().resource);
        devices->set_group(groups.front().index);
        devices->set_count(1);
        groups.erase(groups.begin());
      }
    }
    if (!held.cpus.empty()) {
      main = pod->add_containers();
      main->set_cpus(policy::FormatCpuSet(held.cpus));
    }
    for (const policy::ContainerMemory& memory : held.memory) {
      v1alpha1::Container* container = pod->add_containers();
      container->set_init(memory.kind == policy::ContainerDemand::Kind::kInit);
      for (const policy::MemoryBlock& block : memory.blocks) {
        v1alpha1::HeldMemory* out = container->add_memory();
        out->set_type(topology_.memory_manager()->types()[static_cast<std::size_t>(block.type)]);
        block.numa.ForEach([&](int numa) { out->add_numa_nodes(numa); });
        out->set_bytes(std::to_string(block.size));
      }
    }
  }

  // The books as the state files of the managers have them.
  void SetBooks(const policy::ComputeState& books) {
    if (topology_.cpu_manager() != nullptr) {
      report_.set_default_cpus(policy::FormatCpuSet(books.default_cpus));
    }
    if (topology_.memory_manager() == nullptr) return;
    const auto ids = topology_.memory_manager()->numa_ids();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      v1alpha1::MemoryBook* book = report_.add_memory_books();
      book->set_numa_node(ids[i]);
      book->set_assignments(books.memory.nodes[i].assignments);
      books.memory.nodes[i].cells.ForEach([&](int numa) { book->add_cells(numa); });
      for (std::size_t t = 0; t < topology_.memory_manager()->types().size(); ++t) {
        const std::string& type = topology_.memory_manager()->types()[t];
        const policy::MemoryState::Amount& amount = books.memory.at(i, static_cast<int>(t));
        (*book->mutable_free())[type] = std::to_string(amount.free);
        (*book->mutable_reserved())[type] = std::to_string(amount.reserved);
      }
    }
  }

 private:
  struct Group {
    std::string resource;
    int index = 0;
  };
  const policy::Topology& topology_;
  v1alpha1::NodeReportStatus& report_;
  std::map<int, std::vector<Group>> free_;
};

}  // namespace numafit::test
