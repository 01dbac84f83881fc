#include "agent/kubelet/pod_resources.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <thread>
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

// A channel, and somebody who waits for its end.
class PodResourcesClient::Connection {
 public:
  Connection(std::shared_ptr<grpc::Channel> channel, int ended_fd)
      : channel_(std::move(channel)),
        stub_(v1::PodResourcesLister::NewStub(channel_)),
        ended_fd_(ended_fd) {}
  ~Connection() {
    given_up_ = true;
    // The end of the channel ends the wait.
    stub_.reset();
    channel_.reset();
    if (waiting_.joinable()) waiting_.join();
    ends_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (ends_.Next(&tag, &ok)) {
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  v1::PodResourcesLister::Stub& stub() { return *stub_; }

  // It has just brought an answer.
  void WatchForEnd() {
    if (waiting_.joinable() || ended_fd_ < 0) return;
    channel_->NotifyOnStateChange(GRPC_CHANNEL_READY, gpr_inf_future(GPR_CLOCK_REALTIME), &ends_,
                                  this);
    waiting_ = std::thread([this] {
      void* tag = nullptr;
      bool ok = false;
      if (ends_.Next(&tag, &ok) && !given_up_) ::eventfd_write(ended_fd_, 1);
    });
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PodResourcesLister::Stub> stub_;
  const int ended_fd_;
  std::atomic<bool> given_up_{false};
  grpc::CompletionQueue ends_;
  std::thread waiting_;
};

bool NobodyListens(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof(address.sun_path)) return false;
  socket.copy(address.sun_path, socket.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool connected =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = connected ? 0 : errno;
  ::close(fd);
  return error == ENOENT || error == ECONNREFUSED;
}

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
    : socket_(std::move(socket)),
      timeout_(timeout),
      ended_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PodResourcesClient::~PodResourcesClient() {
  connection_.reset();
  if (ended_fd_ >= 0) ::close(ended_fd_);
}

void PodResourcesClient::TakeEnd() {
  eventfd_t ends = 0;
  ::eventfd_read(ended_fd_, &ends);
}

PodResourcesClient::Connection& PodResourcesClient::Connect() {
  if (connection_ != nullptr) return *connection_;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // Else a new channel would share the old one's waiting time.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A unix socket has no authority of its own, and Go's server refuses an escaped path in it.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  connection_ = std::make_unique<Connection>(
      grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments),
      ended_fd_);
  return *connection_;
}

absl::StatusOr<DeviceTopologies> PodResourcesClient::Allocatable() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout_);
  v1::AllocatableResourcesResponse response;
  const absl::Status status = FromGrpc(Connect().stub().GetAllocatableResources(
                                           &context, v1::AllocatableResourcesRequest(), &response),
                                       socket_, "GetAllocatableResources");
  if (!status.ok()) {
    connection_.reset();
    return status;
  }
  connection_->WatchForEnd();
  return ReadAllocatable(response);
}

absl::StatusOr<std::vector<ListedPod>> PodResourcesClient::List() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout_);
  v1::ListPodResourcesResponse response;
  const absl::Status status = FromGrpc(
      Connect().stub().List(&context, v1::ListPodResourcesRequest(), &response), socket_, "List");
  if (!status.ok()) {
    connection_.reset();
    return status;
  }
  connection_->WatchForEnd();
  return ReadList(response);
}

}  // namespace numafit::agent
