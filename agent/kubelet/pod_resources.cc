#include "agent/kubelet/pod_resources.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "api/podresources.grpc.pb.h"

namespace numafit::agent {
namespace {

// As large as the kubelet's own clients allow.
constexpr int kMaxAnswerBytes = 16 << 20;

std::vector<int> NumaNodes(const v1::TopologyInfo& topology) {
  std::vector<int> nodes;
  for (const v1::NUMANode& node : topology.nodes()) {
    if (node.id() < -1 || node.id() > std::numeric_limits<int>::max()) continue;
    nodes.push_back(static_cast<int>(node.id()));
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

template <typename Entries>
DeviceTopologies ReadDevices(const Entries& entries) {
  DeviceTopologies devices;
  for (const v1::ContainerDevices& entry : entries) {
    if (entry.resource_name().empty()) continue;
    auto& resource = devices[entry.resource_name()];
    for (const std::string& id : entry.device_ids()) {
      DeviceTopology& device = resource[id];
      if (!entry.has_topology()) continue;
      device.published = true;
      std::vector<int> merged;
      const std::vector<int> nodes = NumaNodes(entry.topology());
      std::set_union(device.numa_nodes.begin(), device.numa_nodes.end(), nodes.begin(), nodes.end(),
                     std::back_inserter(merged));
      device.numa_nodes = std::move(merged);
    }
  }
  return devices;
}

template <typename Ids>
policy::CpuSet ReadCpus(const Ids& ids) {
  policy::CpuSet cpus;
  for (const std::int64_t id : ids) {
    if (id >= 0 && id < policy::CpuSet::kMaxIds) cpus.Add(static_cast<int>(id));
  }
  return cpus;
}

template <typename Entries>
std::vector<MemoryBlock> ReadMemory(const Entries& entries) {
  std::vector<MemoryBlock> blocks;
  for (const v1::ContainerMemory& entry : entries) {
    blocks.push_back({entry.memory_type(), NumaNodes(entry.topology()), entry.size()});
  }
  return blocks;
}

absl::Status FromGrpc(const grpc::Status& status, const std::string& socket, const char* call) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      fmt::format("{}: {}: {}", socket, call, status.error_message()));
}

}  // namespace

struct PodResourcesClient::Connection {
  std::unique_ptr<v1::PodResourcesLister::Stub> stub;
};

DeviceTopologies ReadAllocatable(const v1::AllocatableResourcesResponse& response) {
  return ReadDevices(response.devices());
}

std::vector<ListedPod> ReadList(const v1::ListPodResourcesResponse& response) {
  std::vector<ListedPod> pods;
  for (const v1::PodResources& entry : response.pod_resources()) {
    if (entry.name().empty()) continue;
    ListedPod& pod = pods.emplace_back();
    pod.namespace_ = entry.namespace_();
    pod.name = entry.name();
    pod.cpus = ReadCpus(entry.cpu_ids());
    pod.memory = ReadMemory(entry.memory());
    for (const v1::ContainerResources& listed : entry.containers()) {
      pod.containers.push_back({listed.name(), ReadDevices(listed.devices()),
                                ReadCpus(listed.cpu_ids()), ReadMemory(listed.memory())});
    }
  }
  std::stable_sort(pods.begin(), pods.end(), [](const ListedPod& a, const ListedPod& b) {
    return std::tie(a.namespace_, a.name) < std::tie(b.namespace_, b.name);
  });
  return pods;
}

PodResourcesClient::PodResourcesClient(std::string socket, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout) {}

PodResourcesClient::~PodResourcesClient() = default;

PodResourcesClient::Connection& PodResourcesClient::Connect() {
  if (connection_ != nullptr) return *connection_;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // Else a new channel would share the old one's waiting time.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A unix socket has no authority of its own, and Go's server refuses an escaped path in it.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  connection_ = std::make_unique<Connection>();
  connection_->stub = v1::PodResourcesLister::NewStub(
      grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments));
  return *connection_;
}

absl::StatusOr<DeviceTopologies> PodResourcesClient::Allocatable() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout_);
  v1::AllocatableResourcesResponse response;
  const absl::Status status = FromGrpc(Connect().stub->GetAllocatableResources(
                                           &context, v1::AllocatableResourcesRequest(), &response),
                                       socket_, "GetAllocatableResources");
  if (status.ok()) return ReadAllocatable(response);
  connection_.reset();
  return status;
}

absl::StatusOr<std::vector<ListedPod>> PodResourcesClient::List() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout_);
  v1::ListPodResourcesResponse response;
  const absl::Status status = FromGrpc(
      Connect().stub->List(&context, v1::ListPodResourcesRequest(), &response), socket_, "List");
  if (status.ok()) return ReadList(response);
  connection_.reset();
  return status;
}

}  // namespace numafit::agent
