#include "test/kube/fake_api_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/pem.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "api/pod_json.h"
#include "test/kube/encode.h"

namespace numafit::kube_testing {
namespace {

using nlohmann::json;

constexpr char kProtobuf[] = "application/vnd.kubernetes.protobuf";

// An object in both encodings.
struct Stored {
  std::string protobuf;  // without its envelope
  json as_json;
};

struct Change {
  std::int64_t version;
  bool pods;
  std::string type;
  Stored object;
};

std::string EncodeStatusJson(int code, const std::string& reason, const std::string& message) {
  return json{{"kind", "Status"},   {"apiVersion", "v1"}, {"status", "Failure"},
              {"message", message}, {"reason", reason},   {"code", code}}
      .dump();
}

X509* ReadCert(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* cert = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return cert;
}

EVP_PKEY* ReadKey(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return key;
}

std::unique_ptr<httplib::Server> MakeServer(const std::optional<FakeApiServer::Tls>& tls) {
  if (!tls.has_value()) return std::make_unique<httplib::Server>();
  X509* cert = ReadCert(tls->identity.cert_pem);
  EVP_PKEY* key = ReadKey(tls->identity.key_pem);
  X509_STORE* store = nullptr;  // owned by the server
  if (!tls->client_ca_pem.empty()) {
    store = X509_STORE_new();
    X509* ca = ReadCert(tls->client_ca_pem);
    X509_STORE_add_cert(store, ca);
    X509_free(ca);
  }
  auto server = std::make_unique<httplib::SSLServer>(cert, key, store);
  X509_free(cert);
  EVP_PKEY_free(key);
  return server;
}

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

}  // namespace

struct FakeApiServer::State {
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
  std::vector<Change> log;
  // What open watches are told beside changes; each watch keeps its own place in it.
  struct Signal {
    std::string type;  // BOOKMARK, ERROR, CUT
    int code = 0;
    std::string reason;
    Cut cut = Cut::kClean;
  };
  std::vector<Signal> signals;
  int watches = 0;
  struct Failure {
    int count = 0;
    int status = 0;
    int retry_after = 0;
  };
  Failure failures[2];  // [watches]
  bool expire_continue = false;
  bool speak_json = false;
  bool held = false;
  std::string token;
  std::vector<Seen> seen;

  bool UseJson(const httplib::Request& request) const {
    return speak_json || request.get_header_value("Accept").find(kProtobuf) == std::string::npos;
  }

  void Answer(httplib::Response& response, int status, const std::string& body,
              bool as_json) const {
    response.status = status;
    response.set_content(body, as_json ? "application/json" : kProtobuf);
  }

  void Refuse(const httplib::Request& request, httplib::Response& response, int code,
              const std::string& reason, const std::string& message) const {
    const bool as_json = UseJson(request);
    Answer(response, code,
           as_json ? EncodeStatusJson(code, reason, message) : EncodeStatus(code, reason, message),
           as_json);
  }

  // True when the request has been dealt with by a fault or a missing token.
  bool Fault(const httplib::Request& request, httplib::Response& response, bool watch) {
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
    return false;
  }

  template <typename Map>
  void List(const Map& map, const char* kind, const httplib::Request& request,
            httplib::Response& response) {
    const std::lock_guard lock(mutex);
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
    for (auto at = map.lower_bound(from); at != map.end(); ++at) {
      if (limit != 0 && items.size() == limit) {
        next = at->first;
        break;
      }
      items.push_back(at->second.second.protobuf);
      json_items.push_back(at->second.second.as_json);
    }
    if (UseJson(request)) {
      json metadata = {{"resourceVersion", std::to_string(version)}};
      if (!next.empty()) metadata["continue"] = next;
      Answer(response, 200,
             json{{"kind", kind}, {"metadata", metadata}, {"items", json_items}}.dump(), true);
    } else {
      Answer(response, 200, EncodeList(kind, items, std::to_string(version), next), false);
    }
  }

  static std::string Frame(const std::string& type, const char* kind, const Stored& object,
                           bool as_json) {
    if (as_json) return json{{"type", type}, {"object", object.as_json}}.dump() + "\n";
    return EncodeEvent(type, Envelope(kind, object.protobuf));
  }

  // What a watch sends for one signal; false: it ends dirty.
  bool SendSignal(const Signal& signal, bool is_pods, bool as_json, httplib::DataSink& sink,
                  bool& end) const {
    std::string bytes;
    if (signal.type == "BOOKMARK") {
      const std::string now = std::to_string(version);
      api::Pod pod;
      pod.metadata.resource_version = now;
      const Stored object{EncodePod(pod), {{"metadata", {{"resourceVersion", now}}}}};
      bytes = Frame("BOOKMARK", is_pods ? "Pod" : "Node", object, as_json);
    } else if (signal.type == "ERROR") {
      bytes =
          as_json
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
      bytes =
          as_json ? std::string(std::size_t{17} << 20, 'x') : std::string("\x7f\xff\xff\xff", 4);
    }
    if (signal.type == "CUT") end = true;
    const bool sent = bytes.empty() || sink.write(bytes.data(), bytes.size());
    return sent && !(signal.type == "CUT" && signal.cut != Cut::kClean);
  }

  void Watch(bool is_pods, const httplib::Request& request, httplib::Response& response) {
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
        [this, is_pods, as_json, last = from, told = signals.size()](
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
            if (change.pods != is_pods) continue;
            const std::string bytes =
                Frame(change.type, is_pods ? "Pod" : "Node", change.object, as_json);
            if (!sink.write(bytes.data(), bytes.size())) return false;
          }
          bool end = false;
          while (told < signals.size() && !end) {
            if (!SendSignal(signals[told++], is_pods, as_json, sink, end)) return false;
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

  void Bind(const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard lock(mutex);
    const std::string key =
        fmt::format("{}/{}", request.matches[1].str(), request.matches[2].str());
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

  void Annotate(const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Content-Type") != "application/merge-patch+json") {
      Refuse(request, response, 415, "UnsupportedMediaType", "not a merge patch");
      return;
    }
    const std::lock_guard lock(mutex);
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

  // Under the lock.
  void Store(api::Pod pod) {
    pod.metadata.resource_version = std::to_string(++version);
    const std::string key = pod.FullName();
    Stored stored{EncodePod(pod), json::parse(PodToJson(pod))};
    log.push_back({version, true, pods.contains(key) ? "MODIFIED" : "ADDED", stored});
    pods.insert_or_assign(key, std::pair(std::move(pod), std::move(stored)));
    changed.notify_all();
  }

  template <typename T>
  void Get(const std::map<std::string, std::pair<T, Stored>>& map, const char* kind,
           const std::string& key, const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard lock(mutex);
    const auto found = map.find(key);
    if (found == map.end()) {
      Refuse(request, response, 404, "NotFound", fmt::format("{} \"{}\" not found", kind, key));
    } else if (UseJson(request)) {
      Answer(response, 200, found->second.second.as_json.dump(), true);
    } else {
      Answer(response, 200, Envelope(kind, found->second.second.protobuf), false);
    }
  }

  void Routes() {
    server->set_tcp_nodelay(true);
    server->set_keep_alive_max_count(1'000'000);
    server->set_keep_alive_timeout(1);
    server->new_task_queue = [] { return new httplib::ThreadPool(64); };
    const auto collection = [this](bool is_pods, const char* kind) {
      return [this, is_pods, kind](const httplib::Request& request, httplib::Response& response) {
        const bool watch = request.get_param_value("watch") == "true";
        if (Fault(request, response, watch)) return;
        if (watch) {
          Watch(is_pods, request, response);
        } else if (is_pods) {
          List(pods, kind, request, response);
        } else {
          List(nodes, kind, request, response);
        }
      };
    };
    server->Get("/api/v1/pods", collection(true, "PodList"));
    server->Get("/api/v1/nodes", collection(false, "NodeList"));
    server->Get(R"(/api/v1/nodes/([^/]+))", [this](const auto& request, auto& response) {
      if (!Fault(request, response, false)) {
        Get(nodes, "Node", request.matches[1].str(), request, response);
      }
    });
    server->Get(R"(/api/v1/namespaces/([^/]+)/pods/([^/]+))",
                [this](const auto& request, auto& response) {
                  if (Fault(request, response, false)) return;
                  Get(pods, "Pod", request.matches[1].str() + "/" + request.matches[2].str(),
                      request, response);
                });
    server->Post(R"(/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding)",
                 [this](const auto& request, auto& response) {
                   if (!Fault(request, response, false)) Bind(request, response);
                 });
    server->Patch(R"(/api/v1/namespaces/([^/]+)/pods/([^/]+))",
                  [this](const auto& request, auto& response) {
                    if (!Fault(request, response, false)) Annotate(request, response);
                  });
  }
};

FakeApiServer::FakeApiServer(std::optional<Tls> tls, int port, std::int64_t version)
    : state_(new State) {
  state_->version = version;
  state_->compacted = version;
  state_->server = MakeServer(tls);
  state_->tls = tls.has_value();
  state_->Routes();
  if (port == 0) {
    state_->port = state_->server->bind_to_any_port("127.0.0.1");
  } else if (state_->server->bind_to_port("127.0.0.1", port)) {
    state_->port = port;
  }
  state_->thread = std::thread([this] { state_->server->listen_after_bind(); });
  while (!state_->server->is_running()) std::this_thread::yield();
}

FakeApiServer::~FakeApiServer() {
  Stop();
}

std::string FakeApiServer::url() const {
  return fmt::format("{}://127.0.0.1:{}", state_->tls ? "https" : "http", state_->port);
}

int FakeApiServer::port() const {
  return state_->port;
}

void FakeApiServer::Stop() {
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
  }
  state_->server->stop();
  state_->thread.join();
}

void FakeApiServer::PutPod(api::Pod pod) {
  const std::lock_guard lock(state_->mutex);
  state_->Store(std::move(pod));
}

void FakeApiServer::DeletePod(const std::string& pod_namespace, const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->pods.find(pod_namespace + "/" + name);
  if (found == state_->pods.end()) return;
  api::Pod pod = std::move(found->second.first);
  pod.metadata.resource_version = std::to_string(++state_->version);
  state_->log.push_back(
      {state_->version, true, "DELETED", Stored{EncodePod(pod), json::parse(PodToJson(pod))}});
  state_->pods.erase(found);
  state_->changed.notify_all();
}

void FakeApiServer::PutNode(api::Node node) {
  const std::lock_guard lock(state_->mutex);
  node.metadata.resource_version = std::to_string(++state_->version);
  const std::string key = node.metadata.name;
  Stored stored{EncodeNode(node), json::parse(NodeToJson(node))};
  state_->log.push_back(
      {state_->version, false, state_->nodes.contains(key) ? "MODIFIED" : "ADDED", stored});
  state_->nodes.insert_or_assign(key, std::pair(std::move(node), std::move(stored)));
  state_->changed.notify_all();
}

void FakeApiServer::DeleteNode(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->nodes.find(name);
  if (found == state_->nodes.end()) return;
  api::Node node = std::move(found->second.first);
  node.metadata.resource_version = std::to_string(++state_->version);
  state_->log.push_back(
      {state_->version, false, "DELETED", Stored{EncodeNode(node), json::parse(NodeToJson(node))}});
  state_->nodes.erase(found);
  state_->changed.notify_all();
}

std::optional<api::Pod> FakeApiServer::FindPod(const std::string& pod_namespace,
                                               const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->pods.find(pod_namespace + "/" + name);
  if (found == state_->pods.end()) return std::nullopt;
  return found->second.first;
}

std::int64_t FakeApiServer::resource_version() const {
  const std::lock_guard lock(state_->mutex);
  return state_->version;
}

void FakeApiServer::SendBookmark() {
  const std::lock_guard lock(state_->mutex);
  state_->signals.push_back({.type = "BOOKMARK", .code = 0, .reason = {}, .cut = Cut::kClean});
  state_->changed.notify_all();
}

void FakeApiServer::Compact() {
  const std::lock_guard lock(state_->mutex);
  state_->compacted = ++state_->version;
  state_->log.clear();
}

void FakeApiServer::SendError(int code, const std::string& reason) {
  const std::lock_guard lock(state_->mutex);
  state_->signals.push_back({.type = "ERROR", .code = code, .reason = reason, .cut = Cut::kClean});
  state_->changed.notify_all();
}

void FakeApiServer::CutStreams(Cut how) {
  const std::lock_guard lock(state_->mutex);
  state_->signals.push_back({.type = "CUT", .code = 0, .reason = {}, .cut = how});
  state_->changed.notify_all();
}

int FakeApiServer::open_watches() const {
  const std::lock_guard lock(state_->mutex);
  return state_->watches;
}

void FakeApiServer::FailNext(int count, int status, bool watches, int retry_after_seconds) {
  const std::lock_guard lock(state_->mutex);
  state_->failures[watches ? 1 : 0] = {count, status, retry_after_seconds};
}

void FakeApiServer::ExpireNextContinue() {
  const std::lock_guard lock(state_->mutex);
  state_->expire_continue = true;
}

void FakeApiServer::SpeakJson(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->speak_json = on;
}

void FakeApiServer::Hold() {
  const std::lock_guard lock(state_->mutex);
  state_->held = true;
}

void FakeApiServer::Release() {
  const std::lock_guard lock(state_->mutex);
  state_->held = false;
  state_->changed.notify_all();
}

void FakeApiServer::RequireToken(const std::string& token) {
  const std::lock_guard lock(state_->mutex);
  state_->token = token;
}

std::vector<FakeApiServer::Seen> FakeApiServer::requests() const {
  const std::lock_guard lock(state_->mutex);
  return state_->seen;
}

int FakeApiServer::CountRequests(const std::string& method, const std::string& text) const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(
      std::count_if(state_->seen.begin(), state_->seen.end(), [&](const Seen& request) {
        return request.method == method &&
               (request.path + "?" + request.query).find(text) != std::string::npos;
      }));
}

}  // namespace numafit::kube_testing
