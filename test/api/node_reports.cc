#include "test/api/node_reports.h"

#include <string>

namespace numafit::api_testing {
namespace {

using v1alpha1::HeldDevices;
using v1alpha1::NodeReportStatus;
using v1alpha1::Resource;

void AddGroup(Resource& resource, const std::string& endpoint, int numa, int count) {
  auto& group = *resource.add_groups();
  group.set_endpoint(endpoint);
  group.add_numa_nodes(numa);
  group.set_count(count);
}

template <typename Holder>
void Hold(Holder& holder, const std::string& resource, int group, int count) {
  HeldDevices& held = *holder.add_devices();
  held.set_resource(resource);
  held.set_group(group);
  held.set_count(count);
}

void AddMachine(NodeReportStatus& report) {
  for (const int id : {0, 1}) {
    auto& node = *report.add_numa_nodes();
    node.set_id(id);
    node.set_memory("274877906944");
    auto& pages = *node.add_hugepages();
    pages.set_size("2Mi");
    pages.set_pages(512);
    for (const int other : {0, 1}) node.add_distances(other == id ? 10 : 21);
    auto& cores = *node.add_cores();
    cores.set_socket(id);
    cores.set_uncore_cache(-1);
    cores.add_threads(id == 0 ? "0-31" : "32-63");
    cores.add_threads(id == 0 ? "64-95" : "96-127");
  }
}

void AddKubelet(NodeReportStatus& report) {
  auto& kubelet = *report.mutable_kubelet();
  kubelet.set_version("v1.36.3");
  kubelet.set_topology_manager_policy("single-numa-node");
  kubelet.set_topology_manager_scope("pod");
  (*kubelet.mutable_topology_manager_policy_options())["prefer-closest-numa-nodes"] = "true";
  kubelet.set_cpu_manager_policy("static");
  (*kubelet.mutable_cpu_manager_policy_options())["full-pcpus-only"] = "true";
  kubelet.set_reserved_system_cpus("0,64");
  kubelet.set_reserved_cpu_milli(2000);
  kubelet.set_memory_manager_policy("Static");
  auto& reserved = *kubelet.add_reserved_memory();
  (*reserved.mutable_limits())["memory"] = "1073741824";
  (*kubelet.mutable_feature_gates())["CPUManagerPolicyAlphaOptions"] = false;
  (*kubelet.mutable_feature_gates())["CPUManagerPolicyBetaOptions"] = true;
  kubelet.set_confirmed(true);
  kubelet.set_away(true);
}

void AddHolder(NodeReportStatus& report) {
  auto& pod = *report.add_pods();
  pod.set_namespace_("team-a");
  pod.set_name("train");
  pod.set_uid("640de90c");
  Hold(pod, "nvidia.com/gpu", 0, 2);
  Hold(pod, "device.gpustack.ai/rdma.shared", 0, 1);
  pod.set_cpus("5");
  pod.add_memory()->set_type("memory");
  auto& init = *pod.add_containers();
  init.set_name("setup");
  init.set_init(true);
  Hold(init, "nvidia.com/gpu", 0, 1);
  auto& main = *pod.add_containers();
  main.set_name("main");
  Hold(main, "nvidia.com/gpu", 0, 2);
  Hold(main, "device.gpustack.ai/rdma.shared", 0, 1);
  main.set_cpus("1-4,65-68");
  auto& memory = *main.add_memory();
  memory.set_type("memory");
  memory.add_numa_nodes(0);
  memory.set_bytes("17179869184");
}

}  // namespace

NodeReportStatus SampleReport() {
  NodeReportStatus report;
  report.set_boot_id("7f1c2c5e-0000-4000-8000-000000000001");
  report.set_generation(7);
  report.set_node_name("gpu-a-001");
  report.set_agent_version("0.1.0");
  report.set_observed_time("2026-11-29T22:25:50Z");
  auto& source = *report.add_sources();
  source.set_name("configuration");
  source.set_read_time("2026-11-29T22:25:50.123Z");
  source.set_error("403");
  source.set_origin("configz");
  AddKubelet(report);
  AddMachine(report);
  auto& shared = *report.add_resources();
  shared.set_name("device.gpustack.ai/rdma.shared");
  AddGroup(shared, "mlx5_0", 0, 8);
  AddGroup(shared, "mlx5_1", 1, 8);
  auto& loose = *shared.add_groups();
  loose.set_endpoint("mlx5_2");
  loose.set_no_topology(true);
  loose.set_unhealthy(true);
  loose.set_count(8);
  loose.add_actual_numa_nodes(1);
  auto& gpus = *report.add_resources();
  gpus.set_name("nvidia.com/gpu");
  AddGroup(gpus, "GPU-0", 0, 4);
  AddGroup(gpus, "GPU-1", 1, 4);
  report.add_resources()->set_name("vendor.example/none");
  AddHolder(report);
  auto& other = *report.add_pods();
  other.set_namespace_("team-b");
  other.set_name("serve");
  Hold(other, "nvidia.com/gpu", 1, 4);
  report.set_default_cpus("0,5-64,69-127");
  auto& book = *report.add_memory_books();
  book.set_numa_node(0);
  book.set_assignments(1);
  book.add_cells(0);
  (*book.mutable_free())["memory"] = "256624295936";
  (*book.mutable_reserved())["memory"] = "17179869184";
  auto& rdma = *report.add_rdma_devices();
  rdma.set_name("mlx5_0");
  rdma.set_netdev("ens1");
  rdma.set_numa_node(-1);
  rdma.set_pci_address("0000:3b:00.0");
  rdma.add_pci_path("0000:3a:00.0");
  rdma.set_link("active");
  rdma.set_physical_function("mlx5_9");
  rdma.set_virtual_functions(4);
  report.mutable_summary()->set_accelerators("2/8");
  report.mutable_summary()->set_endpoints("15/16");
  report.mutable_summary()->set_misaligned_containers(1);
  return report;
}

NodeReportStatus LargeReport() {
  NodeReportStatus report;
  report.set_generation(1);
  AddKubelet(report);
  AddMachine(report);
  auto& shared = *report.add_resources();
  shared.set_name("device.gpustack.ai/rdma.shared");
  auto& gpus = *report.add_resources();
  gpus.set_name("nvidia.com/gpu");
  for (int i = 0; i < 8; ++i) {
    AddGroup(shared, "mlx5_" + std::to_string(i), i / 4, 64);
    AddGroup(gpus, "GPU-8f2f1c8e-0000-4000-8000-00000000000" + std::to_string(i), i / 4, 1);
  }
  for (int i = 0; i < 32; ++i) {
    auto& pod = *report.add_pods();
    pod.set_namespace_("default");
    pod.set_name("worker-" + std::to_string(i));
    pod.set_uid("1b4e28ba-2fa1-11d2-883f-0016d3cca4" + std::to_string(10 + i));
    auto& container = *pod.add_containers();
    container.set_name("main");
    Hold(pod, shared.name(), i % 8, 4);
    Hold(container, shared.name(), i % 8, 4);
    if (i < 8) {
      Hold(pod, gpus.name(), i, 1);
      Hold(container, gpus.name(), i, 1);
    }
  }
  return report;
}

}  // namespace numafit::api_testing
