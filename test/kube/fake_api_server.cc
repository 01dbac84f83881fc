#include "test/kube/fake_api_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "api/pod_json.h"
#include "test/kube/encode.h"
#include "test/kube/fake_api_server_state.h"

namespace numafit::kube_testing {
namespace {

using nlohmann::json;

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

}  // namespace

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
  pod.metadata.resource_version = std::to_string(state_->version + 1);
  state_->pods.erase(found);
  state_->Log(Collection::kPods, "DELETED", {EncodePod(pod), json::parse(PodToJson(pod))});
}

void FakeApiServer::PutNode(api::Node node) {
  const std::lock_guard lock(state_->mutex);
  state_->Store(std::move(node));
}

void FakeApiServer::DeleteNode(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->nodes.find(name);
  if (found == state_->nodes.end()) return;
  api::Node node = std::move(found->second.first);
  node.metadata.resource_version = std::to_string(state_->version + 1);
  state_->nodes.erase(found);
  state_->Log(Collection::kNodes, "DELETED", {EncodeNode(node), json::parse(NodeToJson(node))});
}

void FakeApiServer::PutNodeReport(const std::string& object) {
  const std::lock_guard lock(state_->mutex);
  state_->StoreNodeReport(json::parse(object));
}

void FakeApiServer::DeleteNodeReport(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  state_->DeleteCustom(Collection::kNodeReports, name);
}

void FakeApiServer::PutNodeResourceTopology(const std::string& object) {
  const std::lock_guard lock(state_->mutex);
  state_->StoreCustom(Collection::kNodeResourceTopologies, json::parse(object));
}

void FakeApiServer::DeleteNodeResourceTopology(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  state_->DeleteCustom(Collection::kNodeResourceTopologies, name);
}

void FakeApiServer::PutWorkload(const std::string& object) {
  PutKueueObject("workloads", object);
}

void FakeApiServer::DeleteWorkload(const std::string& pod_namespace, const std::string& name) {
  DeleteKueueObject("workloads", pod_namespace + "/" + name);
}

void FakeApiServer::PutKueueObject(const std::string& plural, const std::string& object) {
  const std::lock_guard lock(state_->mutex);
  state_->StoreCustom(KueueCollection(plural), json::parse(object));
}

void FakeApiServer::DeleteKueueObject(const std::string& plural, const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  state_->DeleteCustom(KueueCollection(plural), name);
}

std::optional<std::string> FakeApiServer::FindKueueObject(const std::string& plural,
                                                          const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->FindCustom(KueueCollection(plural), name);
}

void FakeApiServer::ServeKueue(std::vector<std::string> versions) {
  const std::lock_guard lock(state_->mutex);
  state_->kueue_versions = std::move(versions);
}

void FakeApiServer::PutDocument(const std::string& path, const std::string& body, int status) {
  const std::lock_guard lock(state_->mutex);
  state_->documents[path] = {status, body};
}

void FakeApiServer::ServeNodeResourceTopologies(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->has_node_resource_topologies = on;
}

std::optional<std::string> FakeApiServer::FindNodeReport(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->FindCustom(Collection::kNodeReports, name);
}

void FakeApiServer::ServeNodeReports(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->has_node_reports = on;
}

void FakeApiServer::BeforeWrite(std::function<void()> call) {
  const std::lock_guard lock(state_->mutex);
  state_->before_write = std::move(call);
}

std::vector<std::string> FakeApiServer::events() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> all;
  for (const auto& [key, event] : state_->events) all.push_back(event.dump());
  return all;
}

std::optional<api::Node> FakeApiServer::FindNode(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->nodes.find(name);
  if (found == state_->nodes.end()) return std::nullopt;
  return found->second.first;
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

void FakeApiServer::Forbid(std::vector<std::string> paths) {
  const std::lock_guard lock(state_->mutex);
  state_->forbidden = std::move(paths);
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
