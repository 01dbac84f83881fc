// A client for the Kubernetes API server: credentials, list + watch, binding, annotating, events,
// NodeReports.
//
// Pods and Nodes travel as the API server's protobuf, decoded with messages of ours that name only
// the fields we read (kube/core_v1.proto); everything else is JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/kueue_objects.h"
#include "api/node_report.h"
#include "api/node_resource_topology.h"
#include "api/objects.h"
#include "api/workload.h"

namespace numafit::kube {

// Where the API server is and who we are. A plain value.
struct Credentials {
  std::string server;  // "https://127.0.0.1:6443"
  std::string ca_pem;  // empty: the system's roots
  bool insecure_skip_verify = false;
  std::string tls_server_name;
  std::string client_cert_pem;
  std::string client_key_pem;
  std::string token;
  std::string token_file;  // read again when it changes (service-account tokens rotate)
};

// From a kubeconfig file (its current context): token, tokenFile, client certificate and CA, as
// files or inline data; relative paths are relative to the file. Errors name the file and the key.
absl::StatusOr<Credentials> LoadKubeconfig(const std::string& path);
// The Pod's own service account: KUBERNETES_SERVICE_HOST/PORT and the mounted token and CA.
absl::StatusOr<Credentials> InClusterCredentials(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

class Transport;

struct BindRequest {
  std::string pod_namespace;
  std::string pod_name;
  std::string pod_uid;
  std::string node;
  api::StringMap annotations;  // land on the Pod atomically with the binding (kubernetes.md 1.9)
};

// An Event, as `kubectl describe` shows it below its object. Posted as events.k8s.io/v1, which is
// stored as the same object as a core/v1 Event, but is checked when it is posted: there are no
// half-filled ones.
struct EventRequest {
  // What it is about; kind, name and uid are needed. Of a Node the uid is its name: so kubectl
  // asks.
  std::string api_version = "v1";
  std::string kind;
  std::string object_namespace;  // empty: cluster-scoped, the Event then goes to "default"
  std::string name;
  std::string uid;
  std::string reason;  // one word, "DevicesMisaligned"; needed
  std::string action;  // what the controller did, one word; empty: the reason
  std::string note;    // for people; cut to 1024 bytes
  bool warning = false;
  std::string controller;        // "numafit.io/extender"; needed
  std::string instance;          // which one: the Pod's or host's name; needed
  std::int64_t time_micros = 0;  // since the epoch
  // An Event about the same object with the same reason and key is the same one, whatever its time
  // and note. Empty: time and note tell Events apart.
  std::string key = {};
};

// Thread-safe. Keeps at most `max_connections` connections open and retries a request once on a
// fresh connection when a kept one turns out to be dead before any byte of an answer.
class Client {
 public:
  struct Options {
    int max_connections = 16;
    int timeout_ms = 10'000;
  };
  static absl::StatusOr<std::unique_ptr<Client>> Create(Credentials credentials, Options options);
  virtual ~Client() = default;

  // POST pods/binding. OK only after the API server said so. AlreadyExists-like conflicts come as
  // absl::StatusCode::kAborted, a missing Pod as kNotFound, an unreachable server as kUnavailable,
  // one that did not answer in time as kDeadlineExceeded (the Pod may be bound nevertheless);
  // the message is the API server's.
  virtual absl::Status Bind(const BindRequest& request) = 0;
  // Sets one annotation (PATCH, JSON merge), only if the Pod of that name still has this uid: one
  // that was recreated under the same name is kAborted or kInvalidArgument, a missing one
  // kNotFound.
  virtual absl::Status AnnotatePod(const std::string& pod_namespace, const std::string& name,
                                   const std::string& uid, const std::string& key,
                                   const std::string& value) = 0;
  virtual absl::StatusOr<api::Pod> GetPod(const std::string& pod_namespace,
                                          const std::string& name) = 0;
  virtual absl::StatusOr<api::Node> GetNode(const std::string& name) = 0;

  // The following have a default that answers Unimplemented, for fakes that have no use for them.

  // Posts an Event. Repeating the same request (object, time, reason, note) is OK and adds none.
  // PermissionDenied and NotFound (the namespace is gone) are the caller's to ignore: nothing
  // depends on an Event.
  virtual absl::Status PostEvent(const EventRequest& event);

  // The stored report of a node; its status is not checked (api::CheckNodeReport). NotFound: there
  // is none, or the CustomResourceDefinition is not installed. InvalidArgument: not readable as a
  // report.
  virtual absl::StatusOr<api::NodeReport> GetNodeReport(const std::string& name);
  // Makes `report` the stored report of the node that it is named after, created if need be; only
  // name, owners and status are taken from it, everything else of a stored object stays, owners of
  // other kinds included. Nothing is written when that is stored already, so it may be repeated
  // after a lost answer. When somebody else writes at the same time it looks again, a few times.
  // Aborted: a report of the same boot that is not older (generation) is stored, or others kept
  // writing. The caller reads it and goes on from its generation. InvalidArgument: the API server's
  // schema refused it; the message names the field. PermissionDenied: no right, or another node's
  // (deploy/manifests/agent-policy.yaml). NotFound: no CustomResourceDefinition.
  virtual absl::Status ApplyNodeReport(const api::NodeReport& report);

  // What requests travel over; null in fakes, whose watches only report that through on_state.
  virtual Transport* transport() { return nullptr; }
};

// What a watch delivers. Handlers are called from the watch's one thread, in order, and must not
// block for long.
template <typename T>
struct WatchHandlers {
  // A complete list: everything not in it is gone. Called first, and again after a gap that could
  // not be resumed (410 Gone).
  std::function<void(std::vector<T>)> on_list;
  // Sees each page of a list as it comes, before on_list, and may take out of the objects what need
  // not be kept until then: a large cluster's objects are never all in memory at once. Pages of a
  // list that then fails are not taken back. Optional.
  std::function<void(std::vector<T>&)> on_page = nullptr;
  // Added or modified.
  std::function<void(T)> on_upsert;
  std::function<void(T)> on_delete;
  // The connection to the API server broke (not OK) or was repaired (OK); called when that, or the
  // reason, changes. A stream that ends in good order is no break. Optional.
  std::function<void(const absl::Status&)> on_state;
};

// A running list + watch. Resumes at the last seen resourceVersion (bookmarks move it on), lists
// again on 410 Gone, backs off exponentially with jitter while the server is away. Stops, and joins
// its thread, in the destructor.
class Watch {
 public:
  virtual ~Watch() = default;
  // At least one complete list has been delivered.
  [[nodiscard]] virtual bool synced() const = 0;
  // Seconds since the last byte from the server (event, bookmark or list). A quiet stream brings a
  // bookmark about once a minute, so only several minutes mean something.
  [[nodiscard]] virtual double seconds_since_contact() const = 0;
};

struct WatchOptions {
  std::string field_selector;
  std::string label_selector;
  int page_size = 500;
  int timeout_seconds = 300;  // asked of the server; each stream ends and resumes
  int backoff_initial_ms = 100;
  int backoff_max_ms = 10'000;
};

// `client` must outlive the watch.
std::unique_ptr<Watch> WatchPods(Client& client, WatchOptions options,
                                 WatchHandlers<api::Pod> handlers);
std::unique_ptr<Watch> WatchNodes(Client& client, WatchOptions options,
                                  WatchHandlers<api::Node> handlers);
// A report that cannot be used comes with `problem` set and a null status; it does not stop the
// others. While the CustomResourceDefinition is not installed the watch goes on trying, and
// on_state says NotFound.
std::unique_ptr<Watch> WatchNodeReports(Client& client, WatchOptions options,
                                        WatchHandlers<api::NodeReport> handlers);
// Kueue's Workloads, in the given version of its API. One that cannot be read comes with `problem`
// set.
std::unique_ptr<Watch> WatchWorkloads(Client& client, const std::string& version,
                                      WatchOptions options, WatchHandlers<api::Workload> handlers);

// Kueue's other objects, likewise.
std::unique_ptr<Watch> WatchAdmissionChecks(Client& client, const std::string& version,
                                            WatchOptions options,
                                            WatchHandlers<api::AdmissionCheck> handlers);
std::unique_ptr<Watch> WatchResourceFlavors(Client& client, const std::string& version,
                                            WatchOptions options,
                                            WatchHandlers<api::ResourceFlavor> handlers);
std::unique_ptr<Watch> WatchClusterQueues(Client& client, const std::string& version,
                                          WatchOptions options,
                                          WatchHandlers<api::ClusterQueue> handlers);

// A verdict of ours on a Workload: its own entry of status.admissionChecks.
struct CheckStateRequest {
  std::string version;  // of Kueue's API
  std::string workload_namespace;
  std::string workload_name;
  std::string workload_uid;
  std::string resource_version;  // at which the verdict was made
  std::string check;             // the AdmissionCheck's name
  std::string state;             // Pending, Ready, Retry
  std::string message;           // for people; cut to 32768 bytes
  std::int64_t since = 0;        // lastTransitionTime, seconds since the epoch: of this state
};
// Server-side apply of that one entry; those of other checks stay (kueue.md 4). Aborted: the
// Workload has changed since, or is another one; its news bring the next chance. NotFound: it is
// gone. Kueue's webhook checks the write: without Kueue it fails (Internal, Unavailable).
absl::Status ApplyCheckState(Client& client, const CheckStateRequest& request);

// The condition Active of an AdmissionCheck: whether its controller is at work. While it is not
// True Kueue admits nothing in the queues that use it.
struct CheckActiveRequest {
  std::string version;
  std::string name;
  bool active = false;
  std::string reason;  // one word
  std::string message;
  std::int64_t observed_generation = 0;
  std::int64_t since = 0;  // seconds since the epoch
};
absl::Status ApplyCheckActive(Client& client, const CheckActiveRequest& request);

// The version of Kueue's API to ask for: v1beta2 where it is served, else v1beta1 (asking for the
// version that is not stored needs Kueue's webhook). NotFound: Kueue is not installed, or serves
// neither.
absl::StatusOr<std::string> FindKueueVersion(Client& client);
// The same for NodeResourceTopology objects: one that cannot be used comes with `problem` set.
std::unique_ptr<Watch> WatchNodeResourceTopologies(
    Client& client, WatchOptions options, WatchHandlers<api::NodeResourceTopology> handlers);

}  // namespace numafit::kube
