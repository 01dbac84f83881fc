// A client for the Kubernetes API server: credentials, list + watch, binding,
// annotating.
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
#include "api/objects.h"

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

}  // namespace numafit::kube
