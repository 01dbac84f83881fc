#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/tree_reader.h"
#include "api/yaml_tree.h"
#include "extender/config.h"
#include "fmt/format.h"

namespace numafit::extender {
namespace {

using api::TreeReader;

policy::AlignmentNeed ReadAlignment(const TreeReader& place, policy::AlignmentNeed fallback) {
  if (!place.IsPresent()) return fallback;
  const std::string word = place.Text();
  if (word == "guaranteed") return policy::AlignmentNeed::kGuaranteed;
  if (word == "fit") return policy::AlignmentNeed::kFit;
  if (word == "preferred") return policy::AlignmentNeed::kPreferred;
  place.Fail(fmt::format("\"{}\" is not one of guaranteed, fit, preferred", word));
  return fallback;
}

void ReadResourceClasses(const TreeReader& place, Config* config) {
  if (!place.IsPresent()) return;
  config->resource_classes.clear();
  place.ForEach([config](const TreeReader& item) {
    item.AllowOnly({"pattern", "kind"});
    if (!item["pattern"].Require() || !item["kind"].Require()) return;
    const std::string word = item["kind"].Text();
    const std::optional<api::ResourceKind> kind = api::ParseResourceKind(word);
    if (!kind.has_value()) {
      item["kind"].Fail(
          fmt::format("\"{}\" is not one of accelerator, endpoint-exclusive, endpoint-shared, "
                      "endpoint-partition, endpoint-virtual, counter, other",
                      word));
      return;
    }
    config->resource_classes.push_back({item["pattern"].Text(), *kind});
  });
}

void ReadServer(const TreeReader& root, Config* config) {
  config->listen = root["listen"].Text(config->listen);
  config->read_listen = root["readListen"].Text(config->read_listen);
  config->workers = static_cast<int>(root["workers"].Int(0, 256, config->workers));
  config->bind_workers = static_cast<int>(root["bindWorkers"].Int(1, 256, config->bind_workers));
  config->max_connections =
      static_cast<int>(root["maxConnections"].Int(1, 1'000'000, config->max_connections));
  config->body_limit = static_cast<std::size_t>(
      root["bodyLimit"].Units(static_cast<std::int64_t>(config->body_limit)));
  config->buffer_limit = static_cast<std::size_t>(
      root["bufferLimit"].Units(static_cast<std::int64_t>(config->buffer_limit)));
}

// One of two words; true: the second.
bool ReadChoice(const TreeReader& place, std::string_view no, std::string_view yes, bool fallback) {
  if (!place.IsPresent()) return fallback;
  const std::string word = place.Text();
  if (word != no && word != yes) {
    place.Fail(fmt::format("\"{}\" is not one of {}, {}", word, no, yes));
  }
  return word == yes;
}

void ReadAdmissionCheck(const TreeReader& check, Config* config) {
  if (!check.IsPresent()) return;
  check.AllowOnly({"enabled", "unjudgedNodes", "retryAfterSeconds"});
  config->admission_check = check["enabled"].Bool(config->admission_check);
  config->check.admit_unjudged =
      ReadChoice(check["unjudgedNodes"], "wait", "admit", config->check.admit_unjudged);
  config->check.retry_after = check["retryAfterSeconds"].Int(0, 86'400, config->check.retry_after);
}

void ReadDecisions(const TreeReader& root, Config* config) {
  config->best_nodes = static_cast<std::size_t>(
      root["bestNodes"].Int(0, 1'000'000, static_cast<std::int64_t>(config->best_nodes)));
  config->score_strategy = root["scoreStrategy"].Text(config->score_strategy);
  const TreeReader alignment = root["alignment"];
  if (alignment.IsPresent()) {
    alignment.AllowOnly({"default", "namespaces"});
    config->default_alignment = ReadAlignment(alignment["default"], config->default_alignment);
    if (alignment["namespaces"].IsPresent()) {
      config->namespace_alignment.clear();
      alignment["namespaces"].ForEachField(
          [config](const std::string& name, const TreeReader& need) {
            config->namespace_alignment[name] = ReadAlignment(need, policy::AlignmentNeed::kFit);
          });
    }
  }
  ReadResourceClasses(root["resourceClasses"], config);
  const bool pass = ReadChoice(root["unknownNodes"], "refuse", "pass",
                               config->unknown_nodes == UnknownNodes::kPass);
  config->unknown_nodes = pass ? UnknownNodes::kPass : UnknownNodes::kRefuse;
  config->inventory_from_reports =
      ReadChoice(root["inventory"], "file", "reports", config->inventory_from_reports);
  config->node_resource_topology =
      root["nodeResourceTopology"].Bool(config->node_resource_topology);
  config->refuse_stale_nodes =
      ReadChoice(root["staleNodes"], "use", "refuse", config->refuse_stale_nodes);
  config->watch_workloads = ReadChoice(root["kueue"], "ignore", "watch", config->watch_workloads);
  ReadAdmissionCheck(root["admissionCheck"], config);
  config->cool_down_ms = root["coolDownMilliseconds"].Int(0, 600'000, config->cool_down_ms);
  config->offer_ttl_ms = root["offerMilliseconds"].Int(0, 600'000, config->offer_ttl_ms);
  config->verdict_shapes = static_cast<std::size_t>(
      root["verdictShapes"].Int(1, 1'000'000, static_cast<std::int64_t>(config->verdict_shapes)));
  config->waiting_pods = static_cast<std::size_t>(
      root["waitingPods"].Int(0, 1'000'000, static_cast<std::int64_t>(config->waiting_pods)));
  config->wake_ups_per_second =
      static_cast<int>(root["wakeUpsPerSecond"].Int(1, 1'000, config->wake_ups_per_second));
  config->bind_timeout_ms =
      root["bindTimeoutMilliseconds"].Int(100, 600'000, config->bind_timeout_ms);
}

void ReadLog(const TreeReader& log, Config* config) {
  if (!log.IsPresent()) return;
  log.AllowOnly({"level", "decisionsPerSecond"});
  if (log["level"].IsPresent() && !ParseLogLevel(log["level"].Text(), &config->log_level)) {
    log["level"].Fail(
        fmt::format("\"{}\" is not one of debug, info, warn, error, off", log["level"].Text()));
  }
  config->log_decisions_per_second = static_cast<int>(
      log["decisionsPerSecond"].Int(0, 1'000'000, config->log_decisions_per_second));
}

void ExpectText(const TreeReader& place, std::string_view expected) {
  if (!place.Require() || place.Text() == expected) return;
  place.Fail(fmt::format("\"{}\", expected {}", place.Text(), expected));
}

}  // namespace

absl::Status ApplyConfigText(std::string_view yaml, const std::string& file_name, Config* config) {
  absl::StatusOr<std::vector<api::YamlTree>> documents = api::ParseYaml(yaml, file_name);
  if (!documents.ok()) return documents.status();
  if (documents->size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected one document, found {}", file_name, documents->size()));
  }
  absl::Status status;
  const TreeReader root(documents->front(), file_name, status);
  root.AllowOnly({"apiVersion",
                  "kind",
                  "listen",
                  "readListen",
                  "workers",
                  "bindWorkers",
                  "maxConnections",
                  "bodyLimit",
                  "bufferLimit",
                  "bestNodes",
                  "scoreStrategy",
                  "alignment",
                  "resourceClasses",
                  "unknownNodes",
                  "inventory",
                  "nodeResourceTopology",
                  "staleNodes",
                  "kueue",
                  "admissionCheck",
                  "coolDownMilliseconds",
                  "offerMilliseconds",
                  "verdictShapes",
                  "waitingPods",
                  "wakeUpsPerSecond",
                  "bindTimeoutMilliseconds",
                  "fleet",
                  "kubeconfig",
                  "log"});
  ExpectText(root["apiVersion"], "numafit.io/v1alpha1");
  ExpectText(root["kind"], "ExtenderConfiguration");
  ReadServer(root, config);
  ReadDecisions(root, config);
  ReadLog(root["log"], config);
  config->fleet = root["fleet"].Text(config->fleet);
  config->kubeconfig = root["kubeconfig"].Text(config->kubeconfig);
  return status;
}

absl::Status ApplyConfigFile(const std::string& path, Config* config) {
  absl::StatusOr<std::string> text = api::ReadTextFile(path);
  if (!text.ok()) return text.status();
  return ApplyConfigText(*text, path, config);
}

absl::Status Validate(const Config& config) {
  if (policy::FindScoreStrategy(config.score_strategy) == nullptr) {
    std::string known;
    for (const std::string_view name : policy::ScoreStrategyNames()) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    }
    return absl::InvalidArgumentError(
        fmt::format("scoreStrategy: \"{}\" is not one of {}", config.score_strategy, known));
  }
  if (config.buffer_limit < config.body_limit) {
    return absl::InvalidArgumentError(
        fmt::format("bufferLimit: {} bytes are less than one body of bodyLimit ({} bytes)",
                    config.buffer_limit, config.body_limit));
  }
  if (config.simulate_binds && !config.no_cluster) {
    return absl::InvalidArgumentError("--simulate-binds needs --no-cluster");
  }
  if (config.inventory_from_reports && (config.no_cluster || !config.fleet.empty())) {
    return absl::InvalidArgumentError(
        "inventory: reports come from the API server; --no-cluster and a fleet file exclude them");
  }
  if (config.node_resource_topology && !config.inventory_from_reports) {
    return absl::InvalidArgumentError(
        "nodeResourceTopology: stands in for missing reports; it needs inventory: reports");
  }
  if (config.admission_check && (!config.watch_workloads || config.no_cluster)) {
    return absl::InvalidArgumentError(
        "admissionCheck.enabled: needs kueue: watch, and an API server");
  }
  if (config.no_cluster && !config.kubeconfig.empty()) {
    return absl::InvalidArgumentError("--no-cluster and a kubeconfig exclude each other");
  }
  return absl::OkStatus();
}

}  // namespace numafit::extender
