#include "test/kube/fake_api_server_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include "api/pod_json.h"
#include "test/kube/encode.h"

namespace numafit::kube_testing {
namespace {

using nlohmann::json;

constexpr char kProtobuf[] = "application/vnd.kubernetes.protobuf";

std::string ClientName(const httplib::Request& request) {
  if (request.ssl == nullptr) return "";
  X509* cert = SSL_get1_peer_certificate(request.ssl);
  if (cert == nullptr) return "";
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name.data(),
                            static_cast<int>(name.size()));
  X509_free(cert);
  return name.data();
}

const char* KindOf(Collection collection) {
  switch (collection) {
    case Collection::kPods:
      return "Pod";
    case Collection::kNodes:
      return "Node";
    case Collection::kNodeReports:
      return "NodeReport";
    case Collection::kWorkloads:
      return "Workload";
    case Collection::kClusterQueues:
      return "ClusterQueue";
    case Collection::kResourceFlavors:
      return "ResourceFlavor";
    case Collection::kAdmissionChecks:
      return "AdmissionCheck";
    case Collection::kNodeResourceTopologies:
      break;
  }
  return "NodeResourceTopology";
}

std::string Frame(const std::string& type, Collection collection, const Stored& object,
                  bool as_json) {
  if (as_json) return json{{"type", type}, {"object", object.as_json}}.dump() + "\n";
  return EncodeEvent(type, Envelope(KindOf(collection), object.protobuf));
}

}  // namespace

Collection KueueCollection(const std::string& plural) {
  if (plural == "workloads") return Collection::kWorkloads;
  if (plural == "clusterqueues") return Collection::kClusterQueues;
  if (plural == "resourceflavors") return Collection::kResourceFlavors;
  if (plural == "admissionchecks") return Collection::kAdmissionChecks;
  throw std::invalid_argument("no resource of Kueue: " + plural);
}

std::string EncodeStatusJson(int code, const std::string& reason, const std::string& message) {
  return json{{"kind", "Status"},   {"apiVersion", "v1"}, {"status", "Failure"},
              {"message", message}, {"reason", reason},   {"code", code}}
      .dump();
}

bool FakeApiServer::State::UseJson(const httplib::Request& request) const {
  return speak_json || request.get_header_value("Accept").find(kProtobuf) == std::string::npos;
}

void FakeApiServer::State::Answer(httplib::Response& response, int status, const std::string& body,
                                  bool as_json) {
  response.status = status;
  response.set_content(body, as_json ? "application/json" : kProtobuf);
}

void FakeApiServer::State::Refuse(const httplib::Request& request, httplib::Response& response,
                                  int code, const std::string& reason,
                                  const std::string& message) const {
  const bool as_json = UseJson(request);
  Answer(response, code,
         as_json ? EncodeStatusJson(code, reason, message) : EncodeStatus(code, reason, message),
         as_json);
}

bool FakeApiServer::State::Fault(const httplib::Request& request, httplib::Response& response,
                                 bool watch) {
  std::unique_lock lock(mutex);
  std::string query;
  for (const auto& [key, value] : request.params) query += fmt::format("&{}={}", key, value);
  seen.push_back({.method = request.method,
                  .path = request.path,
                  .query = query.empty() ? "" : query.substr(1),
                  .authorization = request.get_header_value("Authorization"),
                  .accept = request.get_header_value("Accept"),
                  .body = request.body,
                  .client_name = ClientName(request),
                  .remote_port = request.remote_port});
  changed.notify_all();
  changed.wait(lock, [&] { return !held || stopping; });
  Failure& failure = failures[watch ? 1 : 0];
  if (failure.count > 0) {
    --failure.count;
    if (failure.status == 0) {
      // httplib cannot be told to hang up, but a body that fails does the same to the client.
      response.set_content_provider(5, kProtobuf, [](auto, auto, auto&) { return false; });
      return true;
    }
    if (failure.retry_after > 0) {
      response.set_header("Retry-After", std::to_string(failure.retry_after));
    }
    Refuse(request, response, failure.status, "Fault", "made to fail");
    return true;
  }
  if (!token.empty() && request.get_header_value("Authorization") != "Bearer " + token) {
    Refuse(request, response, 401, "Unauthorized", "Unauthorized");
    return true;
  }
  if (std::any_of(forbidden.begin(), forbidden.end(), [&](const std::string& part) {
        return request.path.find(part) != std::string::npos;
      })) {
    Refuse(request, response, 403, "Forbidden", request.path + " is forbidden");
    return true;
  }
  return false;
}

bool FakeApiServer::State::Selects(const httplib::Request& request, const Stored& object) {
  // Of the selectors only this one: a client that asks for Pods with a node is sent all of them,
  // and has to bear it.
  if (request.get_param_value("fieldSelector").find("status.nominatedNodeName!=") ==
      std::string::npos) {
    return true;
  }
  const auto text = [&object](const char* part, const char* key) {
    return object.as_json.value(part, json::object()).value(key, "");
  };
  return text("spec", "nodeName").empty() && !text("status", "nominatedNodeName").empty();
}

std::vector<std::pair<std::string, const Stored*>> FakeApiServer::State::Objects(
    Collection collection, const std::string& from) const {
  std::vector<std::pair<std::string, const Stored*>> all;
  if (collection == Collection::kPods) {
    for (auto at = pods.lower_bound(from); at != pods.end(); ++at) {
      all.emplace_back(at->first, &at->second.second);
    }
  } else if (collection == Collection::kNodes) {
    for (auto at = nodes.lower_bound(from); at != nodes.end(); ++at) {
      all.emplace_back(at->first, &at->second.second);
    }
  } else {
    const auto& custom = const_cast<State*>(this)->Custom(collection);
    for (auto at = custom.lower_bound(from); at != custom.end(); ++at) {
      all.emplace_back(at->first, &at->second);
    }
  }
  return all;
}

void FakeApiServer::State::List(Collection collection, const httplib::Request& request,
                                httplib::Response& response) {
  const std::lock_guard lock(mutex);
  if (!Serves(collection)) {
    response.status = 404;
    response.set_content("404 page not found", "text/plain");
    return;
  }
  const std::string from = request.get_param_value("continue");
  if (!from.empty() && std::exchange(expire_continue, false)) {
    Refuse(request, response, 410, "Expired", "the continue parameter is too old");
    return;
  }
  const std::string limit_text = request.get_param_value("limit");
  const std::size_t limit = limit_text.empty() ? 0 : std::stoul(limit_text);
  std::vector<std::string> items;
  json json_items = json::array();
  std::string next;
  for (const auto& [key, object] : Objects(collection, from)) {
    if (limit != 0 && items.size() == limit) {
      next = key;
      break;
    }
    if (!Selects(request, *object)) continue;
    items.push_back(object->protobuf);
    json_items.push_back(object->as_json);
  }
  const std::string kind = std::string(KindOf(collection)) + "List";
  if (UseJson(request)) {
    json metadata = {{"resourceVersion", std::to_string(version)}};
    if (!next.empty()) metadata["continue"] = next;
    Answer(response, 200,
           json{{"kind", kind}, {"metadata", metadata}, {"items", json_items}}.dump(), true);
  } else {
    Answer(response, 200, EncodeList(kind, items, std::to_string(version), next), false);
  }
}

void FakeApiServer::State::Get(Collection collection, const std::string& key,
                               const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const auto objects = Objects(collection, key);
  if (objects.empty() || objects.front().first != key) {
    Refuse(request, response, 404, "NotFound",
           fmt::format("{} \"{}\" not found", KindOf(collection), key));
  } else if (UseJson(request)) {
    Answer(response, 200, objects.front().second->as_json.dump(), true);
  } else {
    Answer(response, 200, Envelope(KindOf(collection), objects.front().second->protobuf), false);
  }
}

// What a watch sends for one signal; false: it ends dirty.
bool FakeApiServer::State::SendSignal(const Signal& signal, Collection collection, bool as_json,
                                      httplib::DataSink& sink, bool& end) const {
  std::string bytes;
  if (signal.type == "BOOKMARK") {
    const std::string now = std::to_string(version);
    api::Pod pod;
    pod.metadata.resource_version = now;
    const Stored object{EncodePod(pod), {{"metadata", {{"resourceVersion", now}}}}};
    bytes = Frame("BOOKMARK", collection, object, as_json);
  } else if (signal.type == "ERROR") {
    bytes = as_json
                ? json{{"type", "ERROR"},
                       {"object",
                        json::parse(EncodeStatusJson(signal.code, signal.reason, "told to fail"))}}
                          .dump() +
                      "\n"
                : EncodeEvent("ERROR", EncodeStatus(signal.code, signal.reason, "told to fail"));
    end = true;
  } else if (signal.cut == Cut::kMidFrame) {
    bytes = as_json ? "{\"type\":\"AD" : std::string("\0\0\1\0half", 8);
  } else if (signal.cut == Cut::kGarbage) {
    bytes = as_json ? "garbage\n" : std::string("\0\0\0\4\xff\xff\xff\xff", 8);
  } else if (signal.cut == Cut::kHugeFrame) {
    bytes = as_json ? std::string(std::size_t{17} << 20, 'x') : std::string("\x7f\xff\xff\xff", 4);
  }
  if (signal.type == "CUT") end = true;
  const bool sent = bytes.empty() || sink.write(bytes.data(), bytes.size());
  return sent && !(signal.type == "CUT" && signal.cut != Cut::kClean);
}

void FakeApiServer::State::Watch(Collection collection, const httplib::Request& request,
                                 httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const std::string text = request.get_param_value("resourceVersion");
  const std::int64_t from = text.empty() ? 0 : std::stoll(text);
  if (from < compacted) {
    Refuse(request, response, 410, "Expired", "too old resource version");
    return;
  }
  const bool as_json = UseJson(request);
  ++watches;
  changed.notify_all();
  response.set_chunked_content_provider(
      as_json ? "application/json" : std::string(kProtobuf) + ";stream=watch",
      [this, collection, as_json, request, last = from, told = signals.size()](
          std::size_t, httplib::DataSink& sink) mutable {
        std::unique_lock lock2(mutex);
        const auto news = [&] {
          return stopping || told < signals.size() || (!log.empty() && log.back().version > last);
        };
        // Woken now and then to notice that the client has gone.
        changed.wait_for(lock2, std::chrono::milliseconds(50), news);
        if (stopping || !sink.is_writable()) return false;
        for (const Change& change : log) {
          if (change.version <= last) continue;
          last = change.version;
          if (change.collection != collection) continue;
          // What is not selected any more is gone for this watch.
          const std::string type = Selects(request, change.object) ? change.type : "DELETED";
          const std::string bytes = Frame(type, collection, change.object, as_json);
          if (!sink.write(bytes.data(), bytes.size())) return false;
        }
        bool end = false;
        while (told < signals.size() && !end) {
          if (!SendSignal(signals[told++], collection, as_json, sink, end)) return false;
        }
        if (end) sink.done();
        return true;
      },
      [this](bool) {
        const std::lock_guard lock3(mutex);
        --watches;
        changed.notify_all();
      });
}

}  // namespace numafit::kube_testing
