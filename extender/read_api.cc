#include "extender/read_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "api/pod_json.h"
#include "cache/explain.h"
#include "cache/pods_json.h"

namespace numafit::extender {
namespace {

constexpr std::string_view kNoKueue =
    "this extender watches nothing of Kueue (kueue: ignore, or no cluster)";

void Fail(int status, std::string_view message, http::Response& response) {
  response.status = status;
  http::AppendError(message, &response.body);
}

std::string Decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* const end = text.data() + i + 3;
      if (std::from_chars(text.data() + i + 1, end, value, 16).ptr == end) {
        out.push_back(static_cast<char>(value));
        i += 2;
        continue;
      }
    }
    out.push_back(text[i] == '+' ? ' ' : text[i]);
  }
  return out;
}

}  // namespace

std::string QueryValue(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (item.substr(0, equals) != key) continue;
    return equals == std::string_view::npos ? "" : Decode(item.substr(equals + 1));
  }
  return "";
}

void ReadApi::Nodes(const http::Request&, http::Response& response) const {
  response.body = cache::NodesToJson(fleet_.Snapshot(), rules_.classes);
}

void ReadApi::Pods(const http::Request& request, http::Response& response) const {
  cache::PodsOptions options;
  options.node = QueryValue(request.query, "node");
  options.misaligned_only = QueryValue(request.query, "misaligned") == "true";
  absl::StatusOr<std::string> pods = cache::PodsToJson(fleet_.Snapshot(), options);
  if (!pods.ok()) return Fail(404, std::string(pods.status().message()), response);
  response.body = *std::move(pods);
}

void ReadApi::Explain(const http::Request& request, http::Response& response) const {
  const absl::StatusOr<api::Pod> pod = api::PodFromJson(request.body);
  if (!pod.ok()) return Fail(400, std::string(pod.status().message()), response);
  PodQuestion question;
  const absl::Status asked = AskAboutPod(*pod, rules_, &question);
  if (!asked.ok()) return Fail(400, std::string(asked.message()), response);
  cache::ExplainOptions options;
  options.strategy = question.strategy;
  options.uid = pod->metadata.uid;
  options.priority = pod->priority;
  options.node = QueryValue(request.query, "node");
  options.fold = QueryValue(request.query, "all") != "true";
  const absl::StatusOr<cache::Explanation> explanation =
      cache::Explain(fleet_.Snapshot(), pod->FullName(), question.demand, options);
  if (!explanation.ok()) {
    return Fail(absl::IsNotFound(explanation.status()) ? 404 : 400,
                std::string(explanation.status().message()), response);
  }
  response.body = cache::ToJson(*explanation);
}

void ReadApi::ClusterQueues(const http::Request&, http::Response& response) const {
  if (quotas_ == nullptr) return Fail(404, kNoKueue, response);
  response.body = quotas_->ToJson();
}

void ReadApi::Workloads(const http::Request& request, http::Response& response) const {
  if (workloads_ == nullptr) return Fail(404, kNoKueue, response);
  const std::string only = QueryValue(request.query, "name");
  response.body = workloads_->ToJson(QueryValue(request.query, "all") == "true", only);
  if (!only.empty() && response.body.ends_with("\"workloads\":[]}")) {
    response.body.clear();
    Fail(404, fmt::format("no Workload {}", only), response);
  }
}

}  // namespace numafit::extender
