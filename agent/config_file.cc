#include <fmt/format.h>

#include <utility>

#include "agent/config.h"
#include "api/tree_reader.h"
#include "api/yaml_tree.h"

namespace numafit::agent {
namespace {

using api::TreeReader;

void ReadPaths(const TreeReader& place, AgentConfig* config) {
  if (!place.IsPresent()) return;
  place.AllowOnly({"root", "sys", "proc", "kubelet", "podLogs"});
  config->root = place["root"].Text(config->root);
  config->sys = place["sys"].Text(config->sys);
  config->proc = place["proc"].Text(config->proc);
  config->kubelet = place["kubelet"].Text(config->kubelet);
  config->pod_logs = place["podLogs"].Text(config->pod_logs);
}

void ReadKubelet(const TreeReader& place, AgentConfig* config) {
  if (!place.IsPresent()) return;
  place.AllowOnly({"url", "caFile", "serverName", "tokenFile"});
  config->kubelet_url = place["url"].Text(config->kubelet_url);
  config->kubelet_ca_file = place["caFile"].Text(config->kubelet_ca_file);
  config->kubelet_server_name = place["serverName"].Text(config->kubelet_server_name);
  config->token_file = place["tokenFile"].Text(config->token_file);
}

void ReadResourceClasses(const TreeReader& place, AgentConfig* config) {
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

void ReadEndpointMap(const TreeReader& place, AgentConfig* config) {
  if (!place.IsPresent()) return;
  config->endpoint_map.clear();
  place.ForEach([config](const TreeReader& item) {
    item.AllowOnly({"resource", "devices", "rdmaDevices", "netdevs", "pciAddresses", "numaNodes"});
    if (!item["resource"].Require()) return;
    EndpointRule rule;
    rule.resource = item["resource"].Text();
    rule.devices = item["devices"].Text("*");
    rule.rdma_devices = item["rdmaDevices"].Texts();
    rule.netdevs = item["netdevs"].Texts();
    rule.pci_addresses = item["pciAddresses"].Texts();
    rule.numa_nodes = item["numaNodes"].Ints(0, 4095);
    if (rule.rdma_devices.empty() && rule.netdevs.empty() && rule.pci_addresses.empty() &&
        rule.numa_nodes.empty()) {
      item.Fail("says nothing, expected rdmaDevices, netdevs, pciAddresses or numaNodes");
    }
    config->endpoint_map.push_back(std::move(rule));
  });
}

std::chrono::milliseconds ReadMillis(const TreeReader& place, std::int64_t min,
                                     std::chrono::milliseconds fallback) {
  return std::chrono::milliseconds(place.Int(min, 3'600'000, fallback.count()));
}

void ExpectText(const TreeReader& place, std::string_view expected) {
  if (!place.Require() || place.Text() == expected) return;
  place.Fail(fmt::format("\"{}\", expected {}", place.Text(), expected));
}

}  // namespace

absl::Status ApplyConfigText(std::string_view yaml, const std::string& file_name,
                             AgentConfig* config) {
  absl::StatusOr<std::vector<api::YamlTree>> documents = api::ParseYaml(yaml, file_name);
  if (!documents.ok()) return documents.status();
  if (documents->size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected one document, found {}", file_name, documents->size()));
  }
  absl::Status status;
  const TreeReader root(documents->front(), file_name, status);
  root.AllowOnly({"apiVersion", "kind", "nodeName", "kubeconfig", "paths", "kubelet",
                  "resourceClasses", "endpointMap", "sharedPoolFiles", "healthAddress",
                  "settleMilliseconds", "minIntervalMilliseconds", "podsPollMilliseconds",
                  "fullPollMilliseconds"});
  ExpectText(root["apiVersion"], "numafit.io/v1alpha1");
  ExpectText(root["kind"], "AgentConfiguration");
  config->node_name = root["nodeName"].Text(config->node_name);
  config->kubeconfig = root["kubeconfig"].Text(config->kubeconfig);
  ReadPaths(root["paths"], config);
  ReadKubelet(root["kubelet"], config);
  ReadResourceClasses(root["resourceClasses"], config);
  ReadEndpointMap(root["endpointMap"], config);
  if (root["sharedPoolFiles"].IsPresent()) {
    config->shared_pool_files = root["sharedPoolFiles"].Texts();
  }
  config->health_address = root["healthAddress"].Text(config->health_address);
  config->settle = ReadMillis(root["settleMilliseconds"], 0, config->settle);
  config->min_interval = ReadMillis(root["minIntervalMilliseconds"], 50, config->min_interval);
  config->pods_poll = ReadMillis(root["podsPollMilliseconds"], 50, config->pods_poll);
  config->full_poll = ReadMillis(root["fullPollMilliseconds"], 1'000, config->full_poll);
  return status;
}

absl::Status ApplyConfigFile(const std::string& path, AgentConfig* config) {
  absl::StatusOr<std::string> text = api::ReadTextFile(path);
  if (!text.ok()) return text.status();
  return ApplyConfigText(*text, path, config);
}

HostPaths PathsOf(const AgentConfig& config) {
  std::string root = config.root;
  while (!root.empty() && root.back() == '/') root.pop_back();
  const auto below = [&root](const std::string& given, const char* path) {
    return given.empty() ? root + path : given;
  };
  return {root, below(config.sys, "/sys"), below(config.proc, "/proc"),
          below(config.kubelet, "/var/lib/kubelet"), below(config.pod_logs, "/var/log/pods")};
}

}  // namespace numafit::agent
