// The requests of the fake API server that change something, and which request is which.
#include <fmt/format.h>

#include <algorithm>

#include "api/pod_json.h"
#include "test/kube/encode.h"
#include "test/kube/fake_api_server_state.h"

namespace numafit::kube_testing {
namespace {

using nlohmann::json;

bool IsMergePatch(const httplib::Request& request) {
  return request.get_header_value("Content-Type") == "application/merge-patch+json";
}

// Lists of Kueue's statuses are maps: entries that are named stay one entry, the others stay.
void ApplyEntries(const json& applied, json& list) {
  for (const json& entry : applied) {
    const char* const key = entry.contains("type") ? "type" : "name";
    const auto known = std::find_if(list.begin(), list.end(), [&](const json& each) {
      return each.value(key, "") == entry.at(key).get<std::string>();
    });
    if (known == list.end()) {
      list.push_back(entry);
    } else {
      known->update(entry);
    }
  }
}

}  // namespace

void FakeApiServer::State::Bind(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const std::string key = fmt::format("{}/{}", request.matches[1].str(), request.matches[2].str());
  const auto found = pods.find(key);
  if (found == pods.end()) {
    Refuse(request, response, 404, "NotFound",
           fmt::format("pods \"{}\" not found", request.matches[2].str()));
    return;
  }
  const json binding = json::parse(request.body);
  api::Pod pod = found->second.first;
  const std::string uid = binding["metadata"].value("uid", "");
  if (!uid.empty() && uid != pod.metadata.uid) {
    Refuse(request, response, 409, "Conflict", "Precondition failed: UID in precondition");
    return;
  }
  if (!pod.node_name.empty()) {
    Refuse(request, response, 409, "Conflict",
           fmt::format("Operation cannot be fulfilled on pods/binding \"{}\": pod {} is already "
                       "assigned to node \"{}\"",
                       pod.metadata.name, pod.metadata.name, pod.node_name));
    return;
  }
  pod.node_name = binding["target"]["name"];
  if (binding["metadata"].contains("annotations")) {
    for (const auto& [name, value] : binding["metadata"]["annotations"].items()) {
      pod.metadata.annotations.insert_or_assign(name, value);
    }
  }
  Store(std::move(pod));
  Answer(response, 201, EncodeStatusJson(201, "", ""), true);
}

void FakeApiServer::State::AnnotatePod(const httplib::Request& request,
                                       httplib::Response& response) {
  const std::lock_guard lock(mutex);
  if (!IsMergePatch(request)) {
    Refuse(request, response, 415, "UnsupportedMediaType", "not a merge patch");
    return;
  }
  const auto found = pods.find(request.matches[1].str() + "/" + request.matches[2].str());
  if (found == pods.end()) {
    Refuse(request, response, 404, "NotFound",
           fmt::format("pods \"{}\" not found", request.matches[2].str()));
    return;
  }
  const json metadata = json::parse(request.body)["metadata"];
  api::Pod pod = found->second.first;
  if (metadata.contains("uid") && metadata["uid"] != pod.metadata.uid) {
    Refuse(request, response, 409, "Conflict", "Precondition failed: UID in precondition");
    return;
  }
  for (const auto& [name, value] : metadata["annotations"].items()) {
    pod.metadata.annotations.insert_or_assign(name, value);
  }
  Store(std::move(pod));
  Answer(response, 200, Envelope("Pod", pods.at(found->first).second.protobuf), false);
}

void FakeApiServer::State::CreateNodeReport(const httplib::Request& request,
                                            httplib::Response& response) {
  if (const auto call = [&] {
        const std::lock_guard lock(mutex);
        return before_write;
      }()) {
    call();
  }
  const std::lock_guard lock(mutex);
  if (!has_node_reports) {
    response.status = 404;
    response.set_content("404 page not found", "text/plain");
    return;
  }
  json object = json::parse(request.body);
  const std::string name = object["metadata"]["name"];
  const auto& node_reports = Custom(Collection::kNodeReports);
  if (node_reports.contains(name)) {
    Refuse(request, response, 409, "AlreadyExists",
           fmt::format("nodereports.numafit.io \"{}\" already exists", name));
    return;
  }
  StoreNodeReport(std::move(object));
  Answer(response, 201, node_reports.at(name).as_json.dump(), true);
}

void FakeApiServer::State::UpdateNodeReport(const httplib::Request& request,
                                            httplib::Response& response) {
  if (const auto call = [&] {
        const std::lock_guard lock(mutex);
        return before_write;
      }()) {
    call();
  }
  const std::lock_guard lock(mutex);
  const std::string name = request.matches[1].str();
  const auto& node_reports = Custom(Collection::kNodeReports);
  const auto found = node_reports.find(name);
  json object = json::parse(request.body);
  if (found == node_reports.end()) {
    Refuse(request, response, 404, "NotFound",
           fmt::format("nodereports.numafit.io \"{}\" not found", name));
  } else if (object["metadata"]["resourceVersion"] !=
             found->second.as_json["metadata"]["resourceVersion"]) {
    Refuse(request, response, 409, "Conflict",
           fmt::format("Operation cannot be fulfilled on nodereports.numafit.io \"{}\": the object "
                       "has been modified",
                       name));
  } else {
    StoreNodeReport(std::move(object));
    Answer(response, 200, node_reports.at(name).as_json.dump(), true);
  }
}

void FakeApiServer::State::ApplyStatus(Collection collection, const std::string& key,
                                       const httplib::Request& request,
                                       httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const bool is_apply =
      request.get_header_value("Content-Type") == "application/apply-patch+yaml" &&
      request.has_param("fieldManager");
  if (!is_apply) {
    Refuse(request, response, 415, "UnsupportedMediaType", "not a server-side apply");
    return;
  }
  auto& objects = Custom(collection);
  const auto found = objects.find(key);
  if (found == objects.end()) {
    Refuse(request, response, 404, "NotFound", fmt::format("\"{}\" not found", key));
    return;
  }
  const json applied = json::parse(request.body);
  json object = found->second.as_json;
  for (const char* field : {"uid", "resourceVersion"}) {
    const json& metadata = applied.at("metadata");
    if (metadata.contains(field) && metadata.at(field) != object["metadata"][field]) {
      Refuse(request, response, 409, "Conflict",
             fmt::format("Operation cannot be fulfilled on \"{}\": {} is another", key, field));
      return;
    }
  }
  for (const auto& [field, value] : applied.at("status").items()) {
    json& status = object["status"][field];
    if (value.is_array()) {
      ApplyEntries(value, status);
    } else {
      status = value;
    }
  }
  StoreCustom(collection, std::move(object));
  Answer(response, 200, objects.at(key).as_json.dump(), true);
}

void FakeApiServer::State::CreateEvent(const httplib::Request& request,
                                       httplib::Response& response) {
  const std::lock_guard lock(mutex);
  json object = json::parse(request.body);
  const std::string key =
      request.matches[1].str() + "/" + object["metadata"]["name"].get<std::string>();
  if (!events.emplace(key, std::move(object)).second) {
    Refuse(request, response, 409, "AlreadyExists", "already exists");
    return;
  }
  Answer(response, 201, "{}", true);
}

void FakeApiServer::State::Log(Collection collection, const char* type, Stored object) {
  log.push_back({++version, collection, type, std::move(object)});
  changed.notify_all();
}

void FakeApiServer::State::Store(api::Pod pod) {
  pod.metadata.resource_version = std::to_string(version + 1);
  const std::string key = pod.FullName();
  const char* const type = pods.contains(key) ? "MODIFIED" : "ADDED";
  Stored stored{EncodePod(pod), json::parse(PodToJson(pod))};
  pods.insert_or_assign(key, std::pair(std::move(pod), stored));
  Log(Collection::kPods, type, std::move(stored));
}

void FakeApiServer::State::Store(api::Node node) {
  node.metadata.resource_version = std::to_string(version + 1);
  const std::string key = node.metadata.name;
  const char* const type = nodes.contains(key) ? "MODIFIED" : "ADDED";
  Stored stored{EncodeNode(node), json::parse(NodeToJson(node))};
  nodes.insert_or_assign(key, std::pair(std::move(node), stored));
  Log(Collection::kNodes, type, std::move(stored));
}

bool FakeApiServer::State::Serves(Collection collection) const {
  switch (collection) {
    case Collection::kPods:
    case Collection::kNodes:
      return true;
    case Collection::kNodeReports:
      return has_node_reports;
    case Collection::kNodeResourceTopologies:
      return has_node_resource_topologies;
    default:
      return !kueue_versions.empty();
  }
}

void FakeApiServer::State::StoreNodeReport(json object) {
  StoreCustom(Collection::kNodeReports, std::move(object));
}

void FakeApiServer::State::StoreCustom(Collection collection, json object) {
  auto& objects = Custom(collection);
  object["metadata"]["resourceVersion"] = std::to_string(version + 1);
  std::string key = object["metadata"]["name"];
  if (object["metadata"].contains("namespace")) {
    key = object["metadata"]["namespace"].get<std::string>() + "/" + key;
  }
  const char* const type = objects.contains(key) ? "MODIFIED" : "ADDED";
  Stored stored{"", std::move(object)};
  objects.insert_or_assign(key, stored);
  Log(collection, type, std::move(stored));
}

void FakeApiServer::State::DeleteCustom(Collection collection, const std::string& name) {
  auto& objects = Custom(collection);
  const auto found = objects.find(name);
  if (found == objects.end()) return;
  json object = std::move(found->second.as_json);
  object["metadata"]["resourceVersion"] = std::to_string(version + 1);
  objects.erase(found);
  Log(collection, "DELETED", {"", std::move(object)});
}

std::optional<std::string> FakeApiServer::State::FindCustom(Collection collection,
                                                            const std::string& name) const {
  const auto objects = customs.find(collection);
  if (objects == customs.end()) return std::nullopt;
  const auto found = objects->second.find(name);
  if (found == objects->second.end()) return std::nullopt;
  return found->second.as_json.dump();
}

void FakeApiServer::State::Routes() {
  server->set_tcp_nodelay(true);
  server->set_keep_alive_max_count(1'000'000);
  server->set_keep_alive_timeout(1);
  server->new_task_queue = [] { return new httplib::ThreadPool(64); };
  const auto collection = [this](Collection which) {
    return [this, which](const httplib::Request& request, httplib::Response& response) {
      const bool watch = request.get_param_value("watch") == "true";
      if (Fault(request, response, watch)) return;
      watch ? Watch(which, request, response) : List(which, request, response);
    };
  };
  server->Get("/api/v1/pods", collection(Collection::kPods));
  server->Get("/api/v1/nodes", collection(Collection::kNodes));
  server->Get("/apis/numafit.io/v1alpha1/nodereports", collection(Collection::kNodeReports));
  server->Get("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
              collection(Collection::kNodeResourceTopologies));
  for (const char* plural : {"workloads", "clusterqueues", "resourceflavors", "admissionchecks"}) {
    server->Get(std::string("/apis/kueue.x-k8s.io/v1beta[12]/") + plural,
                collection(KueueCollection(plural)));
  }
  server->Get("/apis/kueue.x-k8s.io", [this](const auto& request, auto& response) {
    if (Fault(request, response, false)) return;
    const std::lock_guard lock(mutex);
    if (kueue_versions.empty()) return Refuse(request, response, 404, "NotFound", "no such group");
    json versions = json::array();
    for (const std::string& each : kueue_versions) versions.push_back({{"version", each}});
    Answer(response, 200, json{{"kind", "APIGroup"}, {"versions", versions}}.dump(), true);
  });
  ObjectRoutes();
}

void FakeApiServer::State::ObjectRoutes() {
  const auto handle = [this](void (State::*handler)(const httplib::Request&, httplib::Response&)) {
    return [this, handler](const httplib::Request& request, httplib::Response& response) {
      if (!Fault(request, response, false)) (this->*handler)(request, response);
    };
  };
  const auto get = [this](Collection which) {
    return [this, which](const httplib::Request& request, httplib::Response& response) {
      if (Fault(request, response, false)) return;
      std::string key = request.matches[1].str();
      if (request.matches.size() > 2) key += "/" + request.matches[2].str();
      Get(which, key, request, response);
    };
  };
  const char* const node = R"(/api/v1/nodes/([^/]+))";
  const char* const pod = R"(/api/v1/namespaces/([^/]+)/pods/([^/]+))";
  const char* const report = R"(/apis/numafit.io/v1alpha1/nodereports/([^/]+))";
  server->Get(node, get(Collection::kNodes));
  server->Get(pod, get(Collection::kPods));
  server->Get(report, get(Collection::kNodeReports));
  server->Post(std::string(pod) + "/binding", handle(&State::Bind));
  server->Patch(pod, handle(&State::AnnotatePod));
  server->Post("/apis/numafit.io/v1alpha1/nodereports", handle(&State::CreateNodeReport));
  server->Put(report, handle(&State::UpdateNodeReport));
  const auto apply = [this](const httplib::Request& request, httplib::Response& response) {
    if (Fault(request, response, false)) return;
    const bool named = request.matches[1].matched;  // by a namespace
    const std::string name = request.matches[3].str();
    ApplyStatus(KueueCollection(request.matches[2].str()),
                named ? request.matches[1].str() + "/" + name : name, request, response);
  };
  server->Patch(
      R"(/apis/kueue.x-k8s.io/v1beta[12]/(?:namespaces/([^/]+)/)?(workloads|admissionchecks)/([^/]+)/status)",
      apply);
  server->Post(R"(/apis/events.k8s.io/v1/namespaces/([^/]+)/events)", handle(&State::CreateEvent));
  // Last: whatever nothing else serves.
  server->Get(R"(/.*)", handle(&State::GetDocument));
}

void FakeApiServer::State::GetDocument(const httplib::Request& request,
                                       httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const auto found = documents.find(request.path);
  if (found == documents.end()) {
    Refuse(request, response, 404, "NotFound", request.path + " not found");
  } else if (found->second.first == 200) {
    Answer(response, 200, found->second.second, true);
  } else {
    Refuse(request, response, found->second.first, "Refused", found->second.second);
  }
}

}  // namespace numafit::kube_testing
