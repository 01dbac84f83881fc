// Reads every source of a node and keeps what was last good.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/assemble.h"
#include "agent/config.h"
#include "agent/device_memory.h"
#include "agent/host_files.h"
#include "agent/kubelet/pod_resources.h"
#include "agent/shared_pools.h"

namespace numafit::agent {

// Not thread-safe.
//
// A source that cannot be read keeps its last good state; the report says since when, and why. So
// does a state file that is cut off or whose checksum is wrong: the kubelet replaces its files as a
// whole, and the next change is read at once.
class Collector {
 public:
  // What only the Node object tells, no file and no call of the kubelet.
  struct NodeFacts {
    std::string kubelet_version;  // "v1.36.3"
    // Devices by resource, those that are broken included: capacity. Other resources do no harm.
    std::map<std::string, std::int64_t, std::less<>> capacity = {};
  };
  using AskNode = std::function<absl::StatusOr<NodeFacts>()>;

  // `now` is the wall clock, for the times in the report only. Without `ask_node` the version is
  // not known. It is asked at a Collect until it answers, at the next ten after the kubelet came
  // (back): a new one tells the API server a little later; and as long as the Node counts devices
  // that were never seen.
  Collector(const AgentConfig& config, std::function<absl::Time()> now, AskNode ask_node = nullptr);
  ~Collector();

  // Everything. Files come before the list, so that a Pod that is admitted in between is listed
  // without its UID rather than missed; its file's change brings the next look.
  v1alpha1::NodeReportStatus Collect();

  // What this agent's predecessor reported last: devices that have gone since then are remembered
  // as if it had seen them go. No-op for a report of another boot.
  void Restore(const v1alpha1::NodeReportStatus& last);

  // What changes with Pods only: state files and PodResources. The rest is from the last Collect.
  v1alpha1::NodeReportStatus CollectPods();

  // Whether PodResources now lists something else than at the last look, or has gone or come back.
  // One call; much cheaper than a Collect.
  bool PodsChanged();

  // Readable once the kubelet has ended (PodResourcesClient::ended_fd); TakeKubeletEnd takes the
  // news.
  [[nodiscard]] int kubelet_ended_fd() const { return client_.ended_fd(); }
  void TakeKubeletEnd() { client_.TakeEnd(); }

  // Folders whose changes matter, and where the kubelet's socket is.
  [[nodiscard]] std::vector<std::string> WatchedFolders() const;

 private:
  v1alpha1::NodeReportStatus Report();
  void ReadHost();
  void ReadSharedPools();
  void ReadConfiguration();
  void ReadNode();
  // What the Node counts and nobody has seen, for people; empty: nothing.
  [[nodiscard]] std::string UnseenDevices(const v1alpha1::NodeReportStatus& report) const;
  absl::StatusOr<v1alpha1::Kubelet> ConfigurationFromFiles() const;
  void ReadStateFiles();
  void ReadPodNames();
  void ReadPodResources();
  // Whether the kubelet has just started and does not know all its Pods yet.
  [[nodiscard]] bool IsStarting() const;
  void Note(const char* source, const absl::Status& status, const char* origin = "");

  const AgentConfig config_;
  const HostPaths paths_;
  const std::function<absl::Time()> now_;
  const HostFiles root_;
  const HostFiles sys_;
  const HostFiles proc_;
  const HostFiles kubelet_;
  const api::ResourceClasses classes_;
  PodResourcesClient client_;
  DeviceMemory memory_;
  Observations seen_;
  std::map<std::string, std::vector<SharedPool>> pools_;  // by file, each as last read
  std::vector<EndpointRule> rules_;                       // the configuration's, then the pools'
  bool list_ok_ = false;
  bool kubelet_away_ = false;
  bool kubelet_starting_ = false;
  const AskNode ask_node_;
  std::string version_;
  std::map<std::string, std::int64_t, std::less<>> capacity_;
  bool has_unseen_ = false;
  std::string node_error_;                   // of the last time it was asked for
  std::optional<std::int64_t> socket_made_;  // that of the kubelet whose Node is asked for
  int node_asks_left_ = 0;
  std::map<std::string, v1alpha1::Source> sources_;
};

// The text by which two reports are the same: everything but generation and times.
std::string Fingerprint(const v1alpha1::NodeReportStatus& report);

}  // namespace numafit::agent
