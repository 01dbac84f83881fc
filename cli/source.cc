#include "cli/source.h"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/pod_json.h"
#include "api/resource_class.h"
#include "cache/demand.h"
#include "cache/explain.h"
#include "cache/fleet.h"
#include "cache/fleet_file.h"
#include "cache/pods_json.h"

namespace numafit::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kStrategy = "most-allocated";
constexpr int kConnectSeconds = 5;
constexpr int kReadSeconds = 60;
constexpr std::size_t kMostErrorText = 200;

class LocalSource final : public Source {
 public:
  explicit LocalSource(std::unique_ptr<cache::Fleet> fleet) : fleet_(std::move(fleet)) {}

  absl::StatusOr<json> Explain(const api::Pod& pod, const std::string& node, bool fold) override {
    const absl::StatusOr<policy::Demand> demand = cache::DemandFromPod(pod, classes_, {});
    if (!demand.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("Pod {}: {}", pod.FullName(), std::string(demand.status().message())));
    }
    const cache::ExplainOptions options = {.strategy = policy::FindScoreStrategy(kStrategy),
                                           .fold = fold,
                                           .node = node,
                                           .uid = pod.metadata.uid,
                                           .priority = pod.priority};
    const absl::StatusOr<cache::Explanation> explanation =
        cache::Explain(fleet_->Snapshot(), pod.FullName(), *demand, options);
    if (!explanation.ok()) return explanation.status();
    return json::parse(cache::ToJson(*explanation), nullptr, /*allow_exceptions=*/false);
  }

  absl::StatusOr<json> Nodes() override {
    return json::parse(cache::NodesToJson(fleet_->Snapshot(), classes_), nullptr,
                       /*allow_exceptions=*/false);
  }

  absl::StatusOr<bool> Ready() override { return true; }

  absl::StatusOr<json> Pods(const std::string& node, bool misaligned_only) override {
    const absl::StatusOr<std::string> pods =
        cache::PodsToJson(fleet_->Snapshot(), {.node = node, .misaligned_only = misaligned_only});
    if (!pods.ok()) return pods.status();
    return json::parse(*pods, nullptr, /*allow_exceptions=*/false);
  }

  absl::StatusOr<json> Workloads(bool, const std::string&) override {
    return absl::InvalidArgumentError(
        "Workloads are known to an extender that watches a cluster with Kueue; name one with "
        "--server");
  }

  absl::StatusOr<json> ClusterQueues() override {
    return absl::NotFoundError("a fleet file has no ClusterQueues");
  }

 private:
  const api::ResourceClasses classes_;
  std::unique_ptr<cache::Fleet> fleet_;
};

class ServerSource final : public Source {
 public:
  explicit ServerSource(const std::string& url) : url_(url), client_(url) {
    client_.set_connection_timeout(kConnectSeconds);
    client_.set_read_timeout(kReadSeconds);
    client_.set_tcp_nodelay(true);
  }
  [[nodiscard]] bool is_valid() const { return client_.is_valid(); }

  absl::StatusOr<json> Explain(const api::Pod& pod, const std::string& node, bool fold) override {
    httplib::Params params;
    if (!node.empty()) params.emplace("node", node);
    if (!fold) params.emplace("all", "true");
    const std::string path = httplib::append_query_params("/v1/explain", params);
    return Read(client_.Post(path, api::PodToJson(pod), "application/json"));
  }
  absl::StatusOr<json> Nodes() override { return Read(client_.Get("/v1/nodes")); }
  absl::StatusOr<bool> Ready() override {
    const httplib::Result result = client_.Get("/readyz");
    if (!result) {
      return absl::UnavailableError(
          fmt::format("{}: {}", url_, httplib::to_string(result.error())));
    }
    return result->status == 200;
  }
  absl::StatusOr<json> Pods(const std::string& node, bool misaligned_only) override {
    httplib::Params params;
    if (!node.empty()) params.emplace("node", node);
    if (misaligned_only) params.emplace("misaligned", "true");
    return Read(client_.Get(httplib::append_query_params("/v1/pods", params)));
  }
  absl::StatusOr<json> Workloads(bool all, const std::string& only) override {
    httplib::Params params;
    if (all) params.emplace("all", "true");
    if (!only.empty()) params.emplace("name", only);
    return Read(client_.Get(httplib::append_query_params("/v1/workloads", params)));
  }
  absl::StatusOr<json> ClusterQueues() override {
    const httplib::Result result = client_.Get("/v1/cluster-queues");
    if (result && result->status == 404) return absl::NotFoundError("not watched");
    return Read(result);
  }

 private:
  absl::StatusOr<json> Read(const httplib::Result& result) const {
    if (!result) {
      return absl::UnavailableError(
          fmt::format("{}: {}", url_, httplib::to_string(result.error())));
    }
    json body = json::parse(result->body, nullptr, /*allow_exceptions=*/false);
    if (result->status != 200) {
      std::string message = result->body.substr(0, kMostErrorText);
      if (body.is_object() && body.contains("error") && body["error"].is_string()) {
        message = body["error"].get<std::string>();
      }
      return absl::InvalidArgumentError(
          fmt::format("{} answers {}: {}", url_, result->status, message));
    }
    if (!body.is_object()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the answer is no JSON object: is this a numafit-extender?", url_));
    }
    return body;
  }

  std::string url_;
  httplib::Client client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const Arguments& arguments) {
  if (arguments.Has("server")) {
    if (arguments.Has("fleet")) {
      return absl::InvalidArgumentError("--fleet and --server exclude each other");
    }
    const std::string url = arguments.Value("server");
    if (!url.starts_with("http://") && !url.starts_with("https://")) {
      return absl::InvalidArgumentError(
          fmt::format("--server is \"{}\", expected a URL like http://127.0.0.1:8080", url));
    }
    auto server = std::make_unique<ServerSource>(url);
    if (!server->is_valid()) {
      return absl::InvalidArgumentError(fmt::format("--server {} is no usable URL", url));
    }
    return absl::StatusOr<std::unique_ptr<Source>>(std::move(server));
  }
  absl::StatusOr<cache::FleetFile> file = arguments.Has("fleet")
                                              ? cache::LoadFleetFile(arguments.Value("fleet"))
                                              : cache::EmbeddedFleet();
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<cache::Fleet>> fleet =
      cache::Fleet::FromFile(*file, api::ResourceClasses(), {});
  if (!fleet.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", arguments.Value("fleet"), std::string(fleet.status().message())));
  }
  return absl::StatusOr<std::unique_ptr<Source>>(std::make_unique<LocalSource>(*std::move(fleet)));
}

}  // namespace numafit::cli
