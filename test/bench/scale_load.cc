#include "test/bench/scale_load.h"

#include <fmt/format.h>
#include <httplib.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "api/objects.h"
#include "test/kube/encode.h"

namespace numafit::bench {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kRdma = "device.gpustack.ai/rdma";
constexpr int kPerNuma = 4;
constexpr std::array<int, 3> kSizes = {1, 2, 4};

struct PodLoad {
  int serial = 0;
  int numa = 0;
  int devices = 0;  // so many GPUs and adapters
};
struct NodeLoad {
  std::vector<PodLoad> pods;
  int generation = 1;

  [[nodiscard]] int Free(int numa) const {
    int free = kPerNuma;
    for (const PodLoad& pod : pods) free -= pod.numa == numa ? pod.devices : 0;
    return free;
  }
};

std::string UidOf(const PodLoad& pod) {
  return fmt::format("3f0a62d2-1111-4222-8333-{:012}", pod.serial);
}

api::Pod PodOf(const PodLoad& pod, int node, bool runs, std::int64_t version) {
  api::Pod object;
  object.metadata.name = fmt::format("train-worker-{}", pod.serial);
  object.metadata.namespace_ = "team-a";
  object.metadata.uid = UidOf(pod);
  object.metadata.resource_version = std::to_string(version);
  object.metadata.creation_time = 1'795'991'150;
  object.metadata.labels["app"] = "train";
  object.node_name = ScaleLoad::NodeName(node);
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
    pods += fmt::format(
        R"({}{{"namespace":"team-a","name":"train-worker-{}","uid":"{}","devices":[{}],)"
        R"("containers":[{{"name":"main","devices":[{}]}}]}})",
        pods.empty() ? "" : ",", pod.serial, UidOf(pod), held, held);
  }
  return pods;
}

}  // namespace

class ScaleLoad::Impl {
 public:
  explicit Impl(int count) : nodes_(static_cast<std::size_t>(count)), machine_(MachineJson()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto some = static_cast<int>(random_() % 5);
      for (int n = 0; n < some; ++n) AddPod(nodes_[i]);
    }
    Routes();
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Impl() {
    stopping_ = true;
    news_.notify_all();
    server_.stop();
    thread_.join();
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int pods() {
    const std::lock_guard lock(mutex_);
    int sum = 0;
    for (const NodeLoad& node : nodes_) sum += static_cast<int>(node.pods.size());
    return sum;
  }
  [[nodiscard]] std::size_t report_bytes() {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    constexpr int kSample = 100;
    for (int i = 0; i < kSample; ++i) {
      sum += ReportJson(static_cast<int>(random_() % nodes_.size())).size();
    }
    return sum / kSample;
  }
  [[nodiscard]] bool watched() const { return pods_.watches > 0 && reports_.watches > 0; }
  [[nodiscard]] std::int64_t changes() const { return changes_; }
  void Change();

 private:
  struct Stream {
    std::string waiting;  // frames that no watch has taken yet
    std::atomic<int> watches = 0;
  };

  bool AddPod(NodeLoad& node) {
    PodLoad pod{++serial_, 0, kSizes[random_() % kSizes.size()]};
    // Where a kubelet puts it.
    while (pod.numa < 2 && node.Free(pod.numa) < pod.devices) ++pod.numa;
    if (pod.numa == 2) return false;
    node.pods.push_back(pod);
    return true;
  }
  [[nodiscard]] std::string ReportJson(int index) const {
    const NodeLoad& node = nodes_[static_cast<std::size_t>(index)];
    return fmt::format(
        R"({{"apiVersion":"numafit.io/v1alpha1","kind":"NodeReport","metadata":{{"name":"{}",)"
        R"("uid":"5ae2b1c4-0000-4000-8000-{:012}","resourceVersion":"{}","generation":{},)"
        R"("creationTimestamp":"2026-11-01T00:00:00Z"}},"status":{{"bootId":"boot-{}",)"
        R"("generation":{},{},{},"pods":[{}],"summary":{{"accelerators":"4/8","endpoints":"4/8"}}}}}})",
        NodeName(index), index, version_, node.generation, index, node.generation, machine_,
        ResourcesJson(index), HeldJson(node));
  }
  void Send(Stream& stream, std::string_view frame) {
    stream.waiting += frame;
    news_.notify_all();
  }
  void SendPod(const char* type, const PodLoad& pod, int node, bool runs) {
    const std::string object =
        kube_testing::Envelope("Pod", kube_testing::EncodePod(PodOf(pod, node, runs, ++version_)));
    Send(pods_, kube_testing::EncodeEvent(type, object));
  }

  void Routes();
  void ListPods(const httplib::Request& request, httplib::Response& response);
  void ListReports(const httplib::Request& request, httplib::Response& response);
  void Watch(Stream& stream, const char* content_type, httplib::Response& response);
  static std::pair<std::size_t, std::size_t> Page(const httplib::Request& request,
                                                  std::size_t count) {
    const std::string from = request.get_param_value("continue");
    const std::string limit = request.get_param_value("limit");
    const std::size_t begin = from.empty() ? 0 : std::stoul(from);
    const std::size_t most = limit.empty() || limit == "0" ? count : std::stoul(limit);
    return {begin, std::min(count, begin + most)};
  }

  std::vector<NodeLoad> nodes_;
  const std::string machine_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::mt19937 random_{7};
  int serial_ = 0;
  std::int64_t version_ = 1000;
  Stream pods_;
  Stream reports_;
  std::atomic<std::int64_t> changes_ = 0;
  std::atomic<bool> stopping_ = false;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

void ScaleLoad::Impl::Change() {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<int>(random_() % nodes_.size());
  NodeLoad& node = nodes_[static_cast<std::size_t>(index)];
  const bool comes = node.pods.empty() || random_() % 2 == 0;
  ++node.generation;
  const bool added = comes && AddPod(node);
  if (added) {
    SendPod("ADDED", node.pods.back(), index, /*runs=*/false);
  } else if (!node.pods.empty()) {
    const auto at = static_cast<std::ptrdiff_t>(random_() % node.pods.size());
    const PodLoad gone = node.pods[static_cast<std::size_t>(at)];
    node.pods.erase(node.pods.begin() + at);
    SendPod("DELETED", gone, index, /*runs=*/true);
  }
  ++version_;
  Send(reports_, fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", ReportJson(index)));
  if (added) SendPod("MODIFIED", node.pods.back(), index, /*runs=*/true);
  ++changes_;
}

void ScaleLoad::Impl::ListPods(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex_);
  // Pages of nodes, not of Pods: a page has as many Pods as its nodes have.
  const auto [begin, end] = Page(request, nodes_.size());
  std::vector<std::string> items;
  for (std::size_t i = begin; i < end; ++i) {
    for (const PodLoad& pod : nodes_[i].pods) {
      items.push_back(
          kube_testing::EncodePod(PodOf(pod, static_cast<int>(i), /*runs=*/true, version_)));
    }
  }
  response.set_content(
      kube_testing::EncodeList("PodList", items, std::to_string(version_),
                               end < nodes_.size() ? std::to_string(end) : std::string()),
      "application/vnd.kubernetes.protobuf");
}

void ScaleLoad::Impl::ListReports(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = Page(request, nodes_.size());
  std::string body =
      fmt::format(R"({{"kind":"NodeReportList","metadata":{{"resourceVersion":"{}")", version_);
  if (end < nodes_.size()) body += fmt::format(R"(,"continue":"{}")", end);
  body += R"(},"items":[)";
  for (std::size_t i = begin; i < end; ++i) {
    if (i > begin) body += ',';
    body += ReportJson(static_cast<int>(i));
  }
  response.set_content(body + "]}", "application/json");
}

void ScaleLoad::Impl::Watch(Stream& stream, const char* content_type, httplib::Response& response) {
  ++stream.watches;
  response.set_chunked_content_provider(
      content_type,
      [this, &stream](std::size_t, httplib::DataSink& sink) {
        std::string frames;
        {
          std::unique_lock lock(mutex_);
          news_.wait_for(lock, std::chrono::milliseconds(200),
                         [&] { return stopping_ || !stream.waiting.empty(); });
          frames.swap(stream.waiting);
        }
        if (stopping_ || !sink.is_writable()) return false;
        return frames.empty() || sink.write(frames.data(), frames.size());
      },
      [&stream](bool) { --stream.watches; });
}

void ScaleLoad::Impl::Routes() {
  server_.set_tcp_nodelay(true);
  server_.set_keep_alive_max_count(1'000'000);
  server_.new_task_queue = [] { return new httplib::ThreadPool(16); };
  server_.Get("/api/v1/pods", [this](const httplib::Request& request, httplib::Response& response) {
    if (request.get_param_value("watch") == "true") {
      return Watch(pods_, "application/vnd.kubernetes.protobuf;stream=watch", response);
    }
    ListPods(request, response);
  });
  server_.Get("/apis/numafit.io/v1alpha1/nodereports",
              [this](const httplib::Request& request, httplib::Response& response) {
                if (request.get_param_value("watch") == "true") {
                  return Watch(reports_, "application/json", response);
                }
                ListReports(request, response);
              });
  // Annotations of Pods and Nodes that are woken.
  server_.Patch(".*", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("{}", "application/json");
  });
}

ScaleLoad::ScaleLoad(int nodes) : impl_(std::make_unique<Impl>(nodes)) {}
ScaleLoad::~ScaleLoad() = default;
int ScaleLoad::port() const {
  return impl_->port();
}
std::string ScaleLoad::NodeName(int node) {
  return fmt::format("gpu-node-use1-az2-example-internal-{:05}", node);
}
int ScaleLoad::pods() const {
  return impl_->pods();
}
std::size_t ScaleLoad::report_bytes() const {
  return impl_->report_bytes();
}
bool ScaleLoad::watched() const {
  return impl_->watched();
}
void ScaleLoad::Change() {
  impl_->Change();
}
std::int64_t ScaleLoad::changes() const {
  return impl_->changes();
}

}  // namespace numafit::bench
