#include "cache/pod_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "api/pod_json.h"
#include "api/yaml_tree.h"

namespace numafit::cache {
namespace {

using nlohmann::json;

// A member that is an object, or an empty one.
const json& Object(const json& parent, std::string_view key) {
  static const json kEmpty = json::object();
  const auto found = parent.find(std::string(key));
  return found != parent.end() && found->is_object() ? *found : kEmpty;
}

std::string Text(const json& parent, std::string_view key) {
  const auto found = parent.find(std::string(key));
  return found != parent.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class Collector {
 public:
  explicit Collector(const std::string& file) : file_(file) {}

  absl::Status Add(const json& document, int line) {
    if (!document.is_object()) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: is no Kubernetes object", file_, line));
    }
    const std::string kind = Text(document, "kind");
    if (const auto items = document.find("items"); items != document.end() && items->is_array()) {
      for (const json& item : *items) {
        if (absl::Status status = Add(item, line); !status.ok()) return status;
      }
      return absl::OkStatus();
    }
    if (kind == "Pod") return AddPod(document, document, line);
    const json& spec = Object(document, "spec");
    const json& job = kind == "CronJob" ? Object(Object(spec, "jobTemplate"), "spec") : spec;
    if (const json& pod = Object(job, "template"); pod.contains("spec")) {
      return AddPod(pod, document, line);
    }
    if (!kinds_.empty()) kinds_ += ", ";
    kinds_ += kind.empty() ? "an object without kind" : kind;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<api::Pod>> Take() {
    if (pods_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has no Pod and nothing with a Pod template{}", file_,
                      kinds_.empty() ? std::string() : fmt::format(", only {}", kinds_)));
    }
    return std::move(pods_);
  }

 private:
  absl::Status AddPod(const json& pod_json, const json& owner, int line) {
    absl::StatusOr<api::Pod> pod = api::PodFromJsonValue(pod_json);
    if (!pod.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: {}", file_, line, std::string(pod.status().message())));
    }
    const json& metadata = Object(owner, "metadata");
    if (pod->metadata.name.empty()) pod->metadata.name = Text(metadata, "name");
    if (pod->metadata.name.empty()) pod->metadata.name = Text(metadata, "generateName");
    if (pod->metadata.name.empty()) pod->metadata.name = "unnamed";
    if (pod->metadata.namespace_.empty()) pod->metadata.namespace_ = Text(metadata, "namespace");
    if (pod->metadata.namespace_.empty()) pod->metadata.namespace_ = "default";
    pods_.push_back(*std::move(pod));
    return absl::OkStatus();
  }

  const std::string& file_;
  std::vector<api::Pod> pods_;
  std::string kinds_;
};

}  // namespace

absl::StatusOr<std::vector<api::Pod>> ParsePods(std::string_view text, const std::string& file) {
  absl::StatusOr<std::vector<api::YamlTree>> documents = api::ParseYaml(text, file);
  if (!documents.ok()) return documents.status();
  Collector collector(file);
  for (const api::YamlTree& document : *documents) {
    if (document.kind == api::YamlTree::Kind::kNull) continue;
    if (absl::Status status = collector.Add(api::YamlToJson(document), document.line);
        !status.ok()) {
      return status;
    }
  }
  return collector.Take();
}

}  // namespace numafit::cache
