#include "test/bench/made_up_nodes.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace numafit::bench {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kRdma = "device.gpustack.ai/rdma";

std::string UidOf(const PodLoad& pod) {
  return fmt::format("3f0a62d2-1111-4222-8333-{:012}", pod.serial);
}

// What is the same on every node but for names, which have {0} in them.
std::string ResourcesJson(int node) {
  std::string gpus;
  std::string adapters;
  std::string tokens;
  std::string rdma;
  for (int i = 0; i < 2 * kPerNuma; ++i) {
    const char* const comma = i == 0 ? "" : ",";
    const int numa = i / kPerNuma;
    gpus += fmt::format(
        R"({}{{"endpoint":"GPU-7b6f3a52-{:06}-4c1e-9d{:02}","numaNodes":[{}],"count":1}})", comma,
        node, i, numa);
    adapters +=
        fmt::format(R"({}{{"endpoint":"mlx5_{}","numaNodes":[{}],"count":1}})", comma, i, numa);
    tokens +=
        fmt::format(R"({}{{"endpoint":"mlx5_{}","numaNodes":[{}],"count":64}})", comma, i, numa);
    rdma += fmt::format(
        R"({}{{"name":"mlx5_{}","netdev":"ens{}np0","numaNode":{},"pciAddress":"0000:{:02x}:00.0",)"
        R"("pciPath":["0000:{:02x}:01.0","0000:{:02x}:00.0"],"link":"active"}})",
        comma, i, i, numa, 16 * i + 8, 16 * i + 4, 16 * i + 2);
  }
  return fmt::format(R"("resources":[{{"name":"device.gpustack.ai/rdma","groups":[{}]}},)"
                     R"({{"name":"device.gpustack.ai/rdma.shared","groups":[{}]}},)"
                     R"({{"name":"nvidia.com/gpu","groups":[{}]}}],"rdmaDevices":[{}])",
                     adapters, tokens, gpus, rdma);
}

std::string MachineJson() {
  std::string numa;
  for (const int id : {0, 1}) {
    const int first = id * 32;
    numa += fmt::format(
        R"({}{{"id":{},"memory":"549755813888","hugepages":[{{"size":"2Mi","pages":512}}],)"
        R"("distances":[{},{}],"cores":[{{"socket":{},"uncoreCache":{},"threads":["{}-{}","{}-{}"]}}]}})",
        id == 0 ? "" : ",", id, id == 0 ? 10 : 21, id == 0 ? 21 : 10, id, id, first, first + 31,
        first + 64, first + 95);
  }
  std::string sources;
  for (const char* name : {"configuration", "cpu-state", "device-checkpoint", "machine",
                           "memory-state", "pod-resources", "rdma-devices"}) {
    sources += fmt::format(R"({}{{"name":"{}","readTime":"2026-11-29T22:25:50.123Z"}})",
                           sources.empty() ? "" : ",", name);
  }
  return fmt::format(
      R"("agentVersion":"0.1.0","observedTime":"2026-11-29T22:25:50Z","sources":[{}],)"
      R"("kubelet":{{"version":"v1.36.3","topologyManagerPolicy":"single-numa-node",)"
      R"("topologyManagerScope":"pod","cpuManagerPolicy":"none","memoryManagerPolicy":"None",)"
      R"("reservedCpuMilli":2000,"confirmed":true}},"numaNodes":[{}])",
      sources, numa);
}

std::string HeldJson(const NodeLoad& node) {
  // Each Pod has the first devices that are left on its NUMA node.
  std::array<int, 2> next = {0, kPerNuma};
  std::string pods;
  for (const PodLoad& pod : node.pods) {
    std::string held;
    for (const char* resource : {kGpu, kRdma}) {
      for (int i = 0; i < pod.devices; ++i) {
        held +=
            fmt::format(R"({}{{"resource":"{}","group":{},"count":1}})", held.empty() ? "" : ",",
                        resource, next[static_cast<std::size_t>(pod.numa)] + i);
      }
    }
    next[static_cast<std::size_t>(pod.numa)] += pod.devices;
    pods += fmt::format(R"({}{{"namespace":"team-a","name":"{}","uid":"{}","devices":[{}],)"
                        R"("containers":[{{"name":"main","devices":[{}]}}]}})",
                        pods.empty() ? "" : ",", PodName(pod.serial), UidOf(pod), held, held);
  }
  return pods;
}

}  // namespace

int NodeLoad::Free(int numa) const {
  int free = kPerNuma;
  for (const PodLoad& pod : pods) free -= pod.numa == numa ? pod.devices : 0;
  return free;
}

bool NodeLoad::Add(PodLoad pod) {
  pod.numa = 0;
  while (pod.numa < 2 && Free(pod.numa) < pod.devices) ++pod.numa;
  if (pod.numa == 2) return false;
  pods.push_back(pod);
  return true;
}

std::string NodeName(int node) {
  return fmt::format("gpu-node-use1-az2-example-internal-{:05}", node);
}

api::Node MakeNode(int index, std::int64_t version) {
  api::Node node;
  node.metadata.name = NodeName(index);
  node.metadata.uid = fmt::format("4b7d9e10-0000-4000-8000-{:012}", index);
  node.metadata.resource_version = std::to_string(version);
  node.metadata.labels = {{"accelerator", "h100"}, {"kubernetes.io/hostname", NodeName(index)}};
  node.allocatable = {{kGpu, api::Quantity::FromInt(2 * kPerNuma)},
                      {kRdma, api::Quantity::FromInt(2 * kPerNuma)},
                      {"cpu", api::Quantity::FromInt(126)}};
  node.capacity = node.allocatable;
  node.conditions = {{.type = "Ready", .status = "True"}};
  node.kubelet_version = "v1.36.3";
  return node;
}

std::string PodName(int serial) {
  return fmt::format("train-worker-{}", serial);
}

api::Pod MakePod(const PodLoad& pod, int node, bool runs, std::int64_t version) {
  api::Pod object;
  object.metadata.name = PodName(pod.serial);
  object.metadata.namespace_ = "team-a";
  object.metadata.uid = UidOf(pod);
  object.metadata.resource_version = std::to_string(version);
  object.metadata.creation_time = 1'795'991'150;
  object.metadata.labels["app"] = "train";
  if (node >= 0) object.node_name = NodeName(node);
  object.scheduler_name = "default-scheduler";
  object.status.phase = runs ? "Running" : "Pending";
  object.status.container_statuses = runs ? 1 : 0;
  api::Container container;
  container.name = "main";
  for (auto* list : {&container.resources.limits, &container.resources.requests}) {
    list->emplace(kGpu, api::Quantity::FromInt(pod.devices));
    list->emplace(kRdma, api::Quantity::FromInt(pod.devices));
    list->emplace("cpu", api::Quantity::FromInt(8));
    list->emplace("memory", api::Quantity::FromInt(std::int64_t{16} << 30));
  }
  object.containers = {std::move(container)};
  return object;
}

std::string MakeReport(int index, const NodeLoad& node, std::int64_t version) {
  static const std::string& machine = *new std::string(MachineJson());
  return fmt::format(
      R"({{"apiVersion":"numafit.io/v1alpha1","kind":"NodeReport","metadata":{{"name":"{}",)"
      R"("uid":"5ae2b1c4-0000-4000-8000-{:012}","resourceVersion":"{}","generation":{},)"
      R"("creationTimestamp":"2026-11-01T00:00:00Z"}},"status":{{"bootId":"boot-{}",)"
      R"("generation":{},{},{},"pods":[{}],"summary":{{"accelerators":"4/8","endpoints":"4/8"}}}}}})",
      NodeName(index), index, version, node.generation, index, node.generation, machine,
      ResourcesJson(index), HeldJson(node));
}

}  // namespace numafit::bench
