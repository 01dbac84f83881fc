// What is behind the fake API server: its objects and its answers. Of the files of this folder
// alone.
#pragma once

#include <httplib.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/kube/fake_api_server.h"

namespace numafit::kube_testing {

// An object in both encodings.
struct Stored {
  std::string protobuf;  // without its envelope; custom resources have none
  nlohmann::json as_json;
};

enum class Collection {
  kPods,
  kNodes,
  kNodeReports,
  kNodeResourceTopologies,
  // Kueue's:
  kWorkloads,
  kClusterQueues,
  kResourceFlavors,
  kAdmissionChecks,
};
// "workloads", "clusterqueues", …: as in paths.
Collection KueueCollection(const std::string& plural);

struct Change {
  std::int64_t version;
  Collection collection;
  std::string type;
  Stored object;
};

std::string EncodeStatusJson(int code, const std::string& reason, const std::string& message);

struct FakeApiServer::State {
  // What open watches are told beside changes; each watch keeps its own place in it.
  struct Signal {
    std::string type;  // BOOKMARK, ERROR, CUT
    int code = 0;
    std::string reason;
    Cut cut = Cut::kClean;
  };
  struct Failure {
    int count = 0;
    int status = 0;
    int retry_after = 0;
  };

  std::unique_ptr<httplib::Server> server;
  std::thread thread;
  int port = 0;
  bool tls = false;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::int64_t version = 0;
  std::int64_t compacted = 0;  // changes up to here are forgotten
  std::map<std::string, std::pair<api::Pod, Stored>> pods;
  std::map<std::string, std::pair<api::Node, Stored>> nodes;
  // Custom resources by name, or namespace/name.
  std::map<Collection, std::map<std::string, Stored>> customs;
  // The CustomResourceDefinition is there.
  bool has_node_reports = true;
  bool has_node_resource_topologies = false;
  std::vector<std::string> kueue_versions;       // of Kueue's API; empty: it is not installed
  std::map<std::string, nlohmann::json> events;  // by namespace/name
  std::map<std::string, std::pair<int, std::string>> documents;  // status and body by path
  std::vector<Change> log;
  std::vector<Signal> signals;
  int watches = 0;
  Failure failures[2];  // [watches]
  bool expire_continue = false;
  bool speak_json = false;
  bool held = false;
  std::string token;
  std::vector<std::string> forbidden;  // parts of paths
  std::vector<Seen> seen;
  std::function<void()> before_write;

  // The objects of a custom resource.
  [[nodiscard]] std::map<std::string, Stored>& Custom(Collection collection) {
    return customs[collection];
  }
  void Routes();
  void ObjectRoutes();
  void GetDocument(const httplib::Request& request, httplib::Response& response);

  [[nodiscard]] bool UseJson(const httplib::Request& request) const;
  static void Answer(httplib::Response& response, int status, const std::string& body,
                     bool as_json);
  void Refuse(const httplib::Request& request, httplib::Response& response, int code,
              const std::string& reason, const std::string& message) const;
  // True when the request has been dealt with by a fault or a missing token.
  bool Fault(const httplib::Request& request, httplib::Response& response, bool watch);

  void List(Collection collection, const httplib::Request& request, httplib::Response& response);
  void Watch(Collection collection, const httplib::Request& request, httplib::Response& response);
  void Get(Collection collection, const std::string& key, const httplib::Request& request,
           httplib::Response& response);
  void Bind(const httplib::Request& request, httplib::Response& response);
  void AnnotatePod(const httplib::Request& request, httplib::Response& response);
  void CreateNodeReport(const httplib::Request& request, httplib::Response& response);
  void UpdateNodeReport(const httplib::Request& request, httplib::Response& response);
  // Server-side apply on an object's status.
  void ApplyStatus(Collection collection, const std::string& key, const httplib::Request& request,
                   httplib::Response& response);
  void CreateEvent(const httplib::Request& request, httplib::Response& response);

  // Under the lock. A change takes the next resource version and is told to the watches.
  void Store(api::Pod pod);
  void Store(api::Node node);
  void StoreNodeReport(nlohmann::json object);
  void StoreCustom(Collection collection, nlohmann::json object);
  void DeleteCustom(Collection collection, const std::string& name);
  [[nodiscard]] std::optional<std::string> FindCustom(Collection collection,
                                                      const std::string& name) const;
  [[nodiscard]] bool Serves(Collection collection) const;
  void Log(Collection collection, const char* type, Stored object);

  [[nodiscard]] static bool Selects(const httplib::Request& request, const Stored& object);
  // Under the lock: key and object of everything in a collection, from `from` on.
  [[nodiscard]] std::vector<std::pair<std::string, const Stored*>> Objects(
      Collection collection, const std::string& from) const;
  bool SendSignal(const Signal& signal, Collection collection, bool as_json,
                  httplib::DataSink& sink, bool& end) const;
};

}  // namespace numafit::kube_testing
