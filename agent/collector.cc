#include "agent/collector.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "agent/device_groups.h"
#include "agent/kubelet/configuration.h"
#include "agent/machine/numa.h"
#include "agent/machine/rdma.h"

namespace numafit::agent {
namespace {

constexpr char kPodResources[] = "pod-resources";
constexpr char kCheckpoint[] = "device-checkpoint";
constexpr char kCpuState[] = "cpu-state";
constexpr char kMemoryState[] = "memory-state";
constexpr char kConfiguration[] = "configuration";
constexpr char kMachine[] = "machine";
constexpr char kRdmaDevices[] = "rdma-devices";
constexpr char kEndpointMap[] = "endpoint-map";
constexpr char kSharedPools[] = "shared-pools";
constexpr char kPodLogs[] = "pod-logs";
constexpr char kNode[] = "node";

constexpr char kCheckpointFile[] = "/device-plugins/kubelet_internal_checkpoint";
constexpr char kSocketFile[] = "/pod-resources/kubelet.sock";

// The kubelet answers a local call in milliseconds, unless it is starting.
constexpr std::chrono::milliseconds kCallTimeout{2'000};

constexpr int kNodeAsks = 10;

// A kubelet that has started knows its Pods after a second or two. Pods that have ended stay in its
// checkpoint, so it is not waited for longer than this.
constexpr std::int64_t kStartSeconds = 10;

template <typename T, typename Parse>
absl::Status ReadStateFile(const HostFiles& folder, const std::string& path, const Parse& parse,
                           std::optional<T>* last_good) {
  const absl::StatusOr<std::string> text = folder.Read(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<T> state = parse(*text);
  if (!state.ok()) {
    return absl::Status(state.status().code(), fmt::format("{}: {}", folder.Path(path),
                                                           std::string(state.status().message())));
  }
  *last_good = *std::move(state);
  return absl::OkStatus();
}

}  // namespace

Collector::Collector(const AgentConfig& config, std::function<absl::Time()> now, AskNode ask_node)
    : config_(config),
      paths_(PathsOf(config)),
      now_(std::move(now)),
      root_(paths_.root),
      sys_(paths_.sys),
      proc_(paths_.proc),
      kubelet_(paths_.kubelet),
      classes_(config.resource_classes),
      client_(kubelet_.Path(kSocketFile), kCallTimeout),
      ask_node_(std::move(ask_node)) {}

Collector::~Collector() = default;

void Collector::Note(const char* source, const absl::Status& status, const char* origin) {
  v1alpha1::Source& entry = sources_[source];
  entry.set_name(source);
  entry.set_error(std::string(status.message()));
  if (!status.ok()) return;
  entry.set_read_time(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now_(), absl::UTCTimeZone()));
  entry.set_origin(origin);
}

void Collector::ReadHost() {
  const std::optional<std::string> boot_id = proc_.Line("/sys/kernel/random/boot_id");
  if (boot_id.has_value()) seen_.boot_id = *boot_id;
  absl::StatusOr<std::vector<v1alpha1::NumaNode>> nodes = ReadNumaNodes(sys_);
  Note(kMachine, nodes.status());
  if (nodes.ok()) seen_.numa_nodes = *std::move(nodes);
  if (sys_.Exists("/class")) {
    seen_.rdma_devices = ReadRdmaDevices(sys_);
    seen_.pci_numa_nodes = ReadPciNumaNodes(sys_);
    Note(kRdmaDevices, absl::OkStatus());
  } else {
    Note(kRdmaDevices, absl::NotFoundError(sys_.Path("/class") + ": does not exist"));
  }
  const std::string unmatched =
      EndpointMap(config_.endpoint_map, seen_.rdma_devices, seen_.pci_numa_nodes).Unmatched();
  Note(kEndpointMap,
       unmatched.empty() ? absl::OkStatus() : absl::FailedPreconditionError(unmatched));
  rules_ = config_.endpoint_map;
  if (!config_.shared_pool_files.empty()) ReadSharedPools();
}

// A file that cannot be read keeps its last good pools.
void Collector::ReadSharedPools() {
  absl::Status status;
  for (const std::string& file : config_.shared_pool_files) {
    const absl::StatusOr<std::string> text = HostFiles().Read(file);
    absl::StatusOr<std::vector<SharedPool>> pools =
        text.ok() ? ParseSharedPools(*text, file)
                  : absl::StatusOr<std::vector<SharedPool>>(text.status());
    if (pools.ok()) {
      pools_[file] = *std::move(pools);
    } else {
      status.Update(pools.status());
    }
    for (const SharedPool& pool : pools_[file]) {
      rules_.push_back(RuleOf(pool, seen_.rdma_devices, sys_));
    }
  }
  Note(kSharedPools, status);
}

absl::StatusOr<v1alpha1::Kubelet> Collector::ConfigurationFromFiles() const {
  const absl::StatusOr<std::vector<std::string>> command = FindKubeletCommand(proc_);
  // The default file, where it is below the folder that stands for "/".
  std::string fallback;
  if (paths_.kubelet.starts_with(paths_.root)) {
    fallback = paths_.kubelet.substr(paths_.root.size()) + "/config.yaml";
  }
  return ReadConfigurationFiles(root_, command.ok() ? *command : std::vector<std::string>(),
                                fallback);
}

void Collector::ReadConfiguration() {
  absl::Status asked = absl::FailedPreconditionError("");
  if (!config_.kubelet_url.empty()) {
    ConfigzOptions options;
    options.url = config_.kubelet_url;
    options.token_file = config_.token_file;
    options.ca_file = config_.kubelet_ca_file;
    options.tls_server_name = config_.kubelet_server_name;
    absl::StatusOr<v1alpha1::Kubelet> kubelet = FetchConfigz(options);
    if (kubelet.ok()) {
      seen_.kubelet = *std::move(kubelet);
      Note(kConfiguration, absl::OkStatus(), "configz");
      return;
    }
    asked = kubelet.status();
    // What the kubelet itself has said is better than any file. (It is read again when the kubelet
    // is back; a restart with another configuration is told by the next good answer.)
    if (seen_.kubelet.has_value() && seen_.kubelet->confirmed()) {
      Note(kConfiguration, asked);
      return;
    }
  }
  absl::StatusOr<v1alpha1::Kubelet> kubelet = ConfigurationFromFiles();
  if (!kubelet.ok()) {
    Note(kConfiguration, config_.kubelet_url.empty() ? kubelet.status() : asked);
    return;
  }
  seen_.kubelet = *std::move(kubelet);
  Note(kConfiguration, absl::OkStatus(), "files");
  // The files were read; why they had to stand in is worth saying.
  sources_[kConfiguration].set_error(std::string(asked.message()));
}

void Collector::ReadNode() {
  if (!ask_node_) return;
  const std::optional<std::int64_t> made = kubelet_.ModifiedAt(kSocketFile);
  if (made != socket_made_) node_asks_left_ = kNodeAsks;
  socket_made_ = made;
  if (!version_.empty() && node_asks_left_ == 0 && !has_unseen_) return;
  absl::StatusOr<NodeFacts> node = ask_node_();
  node_error_ = node.ok() ? "" : std::string(node.status().message());
  Note(kNode, node.status());
  if (!node.ok() || node->kubelet_version.empty()) return;
  version_ = std::move(node->kubelet_version);
  capacity_ = std::move(node->capacity);
  if (node_asks_left_ > 0) --node_asks_left_;
}

// A kubelet lists healthy devices and counts broken ones, too: one that was broken before any agent
// ran was never seen, and nobody can say where it is.
std::string Collector::UnseenDevices(const v1alpha1::NodeReportStatus& report) const {
  std::string text;
  for (const v1alpha1::Resource& resource : report.resources()) {
    const auto counted = capacity_.find(resource.name());
    if (counted == capacity_.end()) continue;
    std::int64_t seen = 0;
    for (const v1alpha1::DeviceGroup& group : resource.groups()) seen += group.count();
    if (counted->second <= seen) continue;
    if (!text.empty()) text += "; ";
    text += fmt::format("{}: the kubelet counts {} devices, and {} were ever seen", resource.name(),
                        counted->second, seen);
  }
  return text;
}

void Collector::ReadStateFiles() {
  Note(kCheckpoint,
       ReadStateFile(kubelet_, kCheckpointFile, ParseDeviceCheckpoint, &seen_.checkpoint));
  Note(kCpuState, ReadStateFile(kubelet_, "/cpu_manager_state", ParseCpuState, &seen_.cpus));
  Note(kMemoryState,
       ReadStateFile(kubelet_, "/memory_manager_state", ParseMemoryState, &seen_.memory));
}

// Folders NAMESPACE_NAME_UID.
void Collector::ReadPodNames() {
  const HostFiles logs(paths_.pod_logs);
  if (!logs.Exists("")) {
    Note(kPodLogs, absl::NotFoundError(paths_.pod_logs + ": does not exist"));
    return;
  }
  seen_.pod_names.clear();
  for (const std::string& folder : logs.List("")) {
    const std::size_t first = folder.find('_');
    const std::size_t last = folder.rfind('_');
    if (first == std::string::npos || first == last) continue;
    seen_.pod_names[folder.substr(last + 1)] = {folder.substr(0, first),
                                                folder.substr(first + 1, last - first - 1)};
  }
  Note(kPodLogs, absl::OkStatus());
}

void Collector::ReadPodResources() {
  const absl::StatusOr<DeviceTopologies> allocatable = client_.Allocatable();
  absl::StatusOr<std::vector<ListedPod>> pods =
      allocatable.ok() ? client_.List()
                       : absl::StatusOr<std::vector<ListedPod>>(allocatable.status());
  Note(kPodResources, pods.status());
  list_ok_ = pods.ok();
  if (pods.ok()) seen_.pods = *std::move(pods);
  kubelet_starting_ = IsStarting();
  kubelet_away_ = kubelet_starting_ || (!list_ok_ && NobodyListens(kubelet_.Path(kSocketFile)));
  DeviceMemory::News news;
  news.allocatable = list_ok_ ? &*allocatable : nullptr;
  news.pods = seen_.pods.has_value() ? &*seen_.pods : nullptr;
  news.checkpoint = seen_.checkpoint.has_value() ? &*seen_.checkpoint : nullptr;
  const std::optional<std::int64_t> written = kubelet_.ModifiedAt(kCheckpointFile);
  const std::optional<std::int64_t> started = kubelet_.ModifiedAt(kSocketFile);
  news.checkpoint_is_current = written.has_value() && started.has_value() && *written >= *started;
  memory_.Observe(news);
  seen_.devices = memory_.table();
}

// It serves its list before the API server has told it of its Pods. What is missing in the list
// then is as much there as before, and so would be its devices for a Pod that is bound meanwhile.
bool Collector::IsStarting() const {
  const std::optional<std::int64_t> made = kubelet_.ModifiedAt(kSocketFile);
  const std::int64_t age = made.has_value() ? absl::ToUnixNanos(now_()) - *made : -1;
  if (age < 0 || age > kStartSeconds * 1'000'000'000) return false;
  if (!list_ok_) return true;
  if (!seen_.checkpoint.has_value()) return false;
  std::set<std::string> uids;
  for (const DeviceCheckpoint::Entry& entry : seen_.checkpoint->entries) {
    uids.insert(entry.pod_uid);
  }
  // Static Pods are listed before all others, and most Pods have no device.
  const auto holders =
      std::count_if(seen_.pods->begin(), seen_.pods->end(), [](const ListedPod& pod) {
        return std::any_of(pod.containers.begin(), pod.containers.end(),
                           [](const ListedContainer& each) { return !each.devices.empty(); });
      });
  return static_cast<std::ptrdiff_t>(uids.size()) > holders;
}

v1alpha1::NodeReportStatus Collector::Report() {
  seen_.sources.clear();
  for (const auto& [name, source] : sources_) {
    seen_.sources.push_back(source);
    // Nobody can judge a kubelet of an unknown version.
    if (name != kConfiguration || !version_.empty() || node_error_.empty()) continue;
    seen_.sources.back().set_error("the kubelet's version, from its Node: " + node_error_);
  }
  v1alpha1::NodeReportStatus report = Assemble(seen_, classes_, rules_);
  if (!version_.empty()) report.mutable_kubelet()->set_version(version_);
  if (kubelet_away_) report.mutable_kubelet()->set_away(true);
  // While it is away, or its plugins are not back, its list says nothing about what is broken.
  const std::string unseen = kubelet_away_ || !list_ok_ ? "" : UnseenDevices(report);
  has_unseen_ = !unseen.empty();
  if (!has_unseen_) return report;
  for (v1alpha1::Source& source : *report.mutable_sources()) {
    if (source.name() == kNode && source.error().empty()) source.set_error(unseen);
  }
  return report;
}

v1alpha1::NodeReportStatus Collector::Collect() {
  ReadHost();
  ReadConfiguration();
  ReadNode();
  return CollectPods();
}

void Collector::Restore(const v1alpha1::NodeReportStatus& last) {
  if (seen_.boot_id.empty() || last.boot_id() != seen_.boot_id) return;
  memory_.Restore(last, [this](const std::string& resource, const std::string& id) {
    return EndpointOf(classes_, resource, id);
  });
}

v1alpha1::NodeReportStatus Collector::CollectPods() {
  ReadStateFiles();
  ReadPodNames();
  ReadPodResources();
  return Report();
}

bool Collector::PodsChanged() {
  const absl::StatusOr<std::vector<ListedPod>> pods = client_.List();
  // The kubelet limits the rate of all callers together; that says nothing about Pods.
  if (absl::IsResourceExhausted(pods.status())) return false;
  if (!pods.ok()) return list_ok_;
  if (kubelet_starting_ && !IsStarting()) return true;
  return !list_ok_ || !seen_.pods.has_value() || *pods != *seen_.pods;
}

std::vector<std::string> Collector::WatchedFolders() const {
  return {paths_.kubelet, paths_.kubelet + "/device-plugins", paths_.kubelet + "/pod-resources",
          paths_.pod_logs};
}

std::string Fingerprint(const v1alpha1::NodeReportStatus& report) {
  v1alpha1::NodeReportStatus timeless = report;
  timeless.clear_observed_time();
  timeless.clear_generation();
  for (v1alpha1::Source& source : *timeless.mutable_sources()) source.clear_read_time();
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    timeless.SerializeToCodedStream(&coded);
  }
  return text;
}

}  // namespace numafit::agent
