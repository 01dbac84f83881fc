// An API server for tests, on loopback and in this process: Pods, Nodes, NodeReports and
// NodeResourceTopology objects with
// resource versions, lists in pages, watches that stream and resume, bindings, events, and the ways
// in which a real one fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/objects.h"
#include "test/kube/test_pki.h"

namespace numafit::kube_testing {

// Thread-safe. Everything a test sets holds from the next request on.
class FakeApiServer {
 public:
  struct Tls {
    Identity identity;
    std::string client_ca_pem;  // empty: no client certificate is asked for
  };

  // Resource versions begin at `version`; watches from older ones get 410.
  explicit FakeApiServer(std::optional<Tls> tls = std::nullopt, int port = 0,
                         std::int64_t version = 100);
  ~FakeApiServer();
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;

  [[nodiscard]] std::string url() const;
  [[nodiscard]] int port() const;
  // Closes the port and every connection. The destructor does it too.
  void Stop();

  // The objects. Each change takes the next resource version and is told to the watches.
  void PutPod(api::Pod pod);
  void DeletePod(const std::string& pod_namespace, const std::string& name);
  void PutNode(api::Node node);
  void DeleteNode(const std::string& name);
  [[nodiscard]] std::optional<api::Pod> FindPod(const std::string& pod_namespace,
                                                const std::string& name) const;
  [[nodiscard]] std::optional<api::Node> FindNode(const std::string& name) const;
  // NodeReports as JSON, so that a test can put in what no writer of ours would.
  void PutNodeReport(const std::string& object);
  void DeleteNodeReport(const std::string& name);
  [[nodiscard]] std::optional<std::string> FindNodeReport(const std::string& name) const;
  // Whether the CustomResourceDefinition is installed; it is at first.
  void ServeNodeReports(bool on);
  // NodeResourceTopology objects likewise; their definition is not installed at first.
  void PutNodeResourceTopology(const std::string& object);
  void DeleteNodeResourceTopology(const std::string& name);
  void ServeNodeResourceTopologies(bool on);
  // Kueue's objects likewise: "workloads" by namespace/name, "clusterqueues", "resourceflavors" and
  // "admissionchecks" by name; the group serves these versions, none at first: then it is not
  // installed. The status of Workloads and AdmissionChecks takes server-side applies.
  void PutKueueObject(const std::string& plural, const std::string& object);
  void DeleteKueueObject(const std::string& plural, const std::string& name);
  [[nodiscard]] std::optional<std::string> FindKueueObject(const std::string& plural,
                                                           const std::string& name) const;
  void PutWorkload(const std::string& object);
  void DeleteWorkload(const std::string& pod_namespace, const std::string& name);
  void ServeKueue(std::vector<std::string> versions);
  // A GET of this very path is answered with this JSON: discovery, and objects of other kinds. With
  // another status than 200 it is refused.
  void PutDocument(const std::string& path, const std::string& body, int status = 200);
  // The posted Events as JSON.
  [[nodiscard]] std::vector<std::string> events() const;
  [[nodiscard]] std::int64_t resource_version() const;

  // Watches get a bookmark at the current resource version.
  void SendBookmark();
  // Forgets every event until now: watches from older versions get 410.
  void Compact();
  // An ERROR event with this code on every open watch, which then ends.
  void SendError(int code, const std::string& reason);
  enum class Cut { kClean, kDropped, kMidFrame, kGarbage, kHugeFrame };
  // Ends every open watch.
  void CutStreams(Cut how);
  [[nodiscard]] int open_watches() const;

  // The next `count` requests that are not watches (or, with `watches`, that are) get this status;
  // 0 closes the connection without an answer.
  void FailNext(int count, int status, bool watches = false, int retry_after_seconds = 0);
  // The next list page after the first answers 410.
  void ExpireNextContinue();
  // Answers come in JSON whatever is asked for.
  void SpeakJson(bool on);
  // Answers wait until Release.
  void Hold();
  void Release();
  // Called before each NodeReport is written, outside of all locks: the moment when others write.
  void BeforeWrite(std::function<void()> call);
  // 401 unless the bearer token is this one; empty: none is needed.
  void RequireToken(const std::string& token);
  // 403 for every path that contains one of these.
  void Forbid(std::vector<std::string> paths);

  struct Seen {
    std::string method;
    std::string path;
    std::string query;
    std::string authorization;
    std::string accept;
    std::string body;
    std::string client_name;  // of the TLS client certificate
    int remote_port = 0;      // equal ports = the same connection
  };
  [[nodiscard]] std::vector<Seen> requests() const;
  // How many requests have this method and a target (path?query) that contains `text`.
  [[nodiscard]] int CountRequests(const std::string& method, const std::string& text) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace numafit::kube_testing
