#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "agent/kubelet/configuration.h"
#include "api/yaml_tree.h"

namespace numafit::agent {
namespace {

using nlohmann::json;

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(Trim(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::pair<std::string, std::string> SplitOnce(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return {std::string(Trim(text)), ""};
  return {std::string(Trim(text.substr(0, at))), std::string(Trim(text.substr(at + 1)))};
}

// "a=1,b=2"
json TextMap(const std::string& value) {
  json map = json::object();
  for (const std::string& part : SplitAt(value, ',')) {
    const auto [key, text] = SplitOnce(part, '=');
    if (!key.empty()) map[key] = text;
  }
  return map;
}

// "0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=2Gi"; the flag may be given several times.
void AddReservedMemory(const std::string& value, json* list) {
  for (const std::string& part : SplitAt(value, ';')) {
    const auto [numa, limits] = SplitOnce(part, ':');
    const std::optional<int> id = ParseInt(numa);
    if (id.has_value()) list->push_back({{"numaNode", *id}, {"limits", TextMap(limits)}});
  }
}

// The values of each flag, in order. "--flag=value" and "--flag value"; a flag that takes no value
// may swallow the next word, which does no harm to those that we look for.
std::map<std::string, std::vector<std::string>> ReadFlags(const std::vector<std::string>& command) {
  std::map<std::string, std::vector<std::string>> flags;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with("-")) continue;
    const auto [name, value] =
        SplitOnce(std::string_view(word).substr(word.starts_with("--") ? 2 : 1), '=');
    if (word.find('=') != std::string::npos) {
      flags[name].push_back(value);
    } else if (i + 1 < command.size() && !command[i + 1].starts_with("-")) {
      flags[name].push_back(command[i + 1]);
    }
  }
  return flags;
}

void ApplyFlags(const std::map<std::string, std::vector<std::string>>& flags, json* config) {
  const auto for_flag = [&flags](const std::string& name,
                                 const std::function<void(const std::vector<std::string>&)>& f) {
    const auto found = flags.find(name);
    if (found != flags.end() && !found->second.empty()) f(found->second);
  };
  const auto text = [&](const std::string& flag, const std::string& key) {
    for_flag(flag, [&](const auto& values) { (*config)[key] = values.back(); });
  };
  const auto map = [&](const std::string& flag, const std::string& key) {
    for_flag(flag, [&](const auto& values) {
      json merged = json::object();
      for (const std::string& value : values) merged.update(TextMap(value));
      (*config)[key] = merged;
    });
  };
  text("topology-manager-policy", "topologyManagerPolicy");
  text("topology-manager-scope", "topologyManagerScope");
  map("topology-manager-policy-options", "topologyManagerPolicyOptions");
  text("cpu-manager-policy", "cpuManagerPolicy");
  map("cpu-manager-policy-options", "cpuManagerPolicyOptions");
  text("reserved-cpus", "reservedSystemCPUs");
  map("kube-reserved", "kubeReserved");
  map("system-reserved", "systemReserved");
  text("memory-manager-policy", "memoryManagerPolicy");
  for_flag("reserved-memory", [&](const auto& values) {
    json list = json::array();
    for (const std::string& value : values) AddReservedMemory(value, &list);
    (*config)["reservedMemory"] = list;
  });
  for_flag("feature-gates", [&](const auto& values) {
    for (const std::string& value : values) {
      const json gates = TextMap(value);
      for (const auto& [gate, on] : gates.items()) {
        const std::string word = on.template get<std::string>();
        (*config)["featureGates"][gate] = word == "true" || word == "True" || word == "1";
      }
    }
  });
}

absl::StatusOr<json> ReadYamlFile(const HostFiles& host, const std::string& path) {
  const absl::StatusOr<std::string> text = host.Read(path);
  if (!text.ok()) return text.status();
  const absl::StatusOr<std::vector<api::YamlTree>> documents = api::ParseYaml(*text, path);
  if (!documents.ok()) return documents.status();
  if (documents->size() != 1 || documents->front().kind != api::YamlTree::Kind::kMap) {
    return absl::InvalidArgumentError(fmt::format("{}: expected one map", path));
  }
  json document = api::YamlToJson(documents->front());
  const auto kind = document.find("kind");
  if (kind == document.end() || *kind != "KubeletConfiguration") {
    return absl::InvalidArgumentError(fmt::format("{}: kind is not KubeletConfiguration", path));
  }
  return document;
}

// Files below the folder that end in ".conf", in the order of their paths.
void ListDropIns(const HostFiles& host, const std::string& folder, int depth,
                 std::vector<std::string>* files) {
  for (const std::string& name : host.List(folder)) {
    const std::string path = folder + "/" + name;
    if (depth > 0 && !host.List(path).empty()) {
      ListDropIns(host, path, depth - 1, files);
    } else if (name.ends_with(".conf")) {
      files->push_back(path);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindKubeletCommand(const HostFiles& proc) {
  for (const std::string& pid : proc.List("")) {
    if (!ParseInt(pid).has_value()) continue;
    const absl::StatusOr<std::string> text = proc.Read("/" + pid + "/cmdline");
    if (!text.ok() || text->empty()) continue;
    std::vector<std::string> words = SplitAt(*text, '\0');
    if (!words.empty() && BaseName(words.front()) == "kubelet") return words;
  }
  return absl::NotFoundError(fmt::format("{}: no kubelet runs here", proc.Path("/")));
}

absl::StatusOr<v1alpha1::Kubelet> ReadConfigurationFiles(const HostFiles& host,
                                                         const std::vector<std::string>& command,
                                                         const std::string& fallback_file) {
  const std::map<std::string, std::vector<std::string>> flags = ReadFlags(command);
  json config = json::object();
  const auto file = flags.find("config");
  if (file != flags.end()) {
    absl::StatusOr<json> document = ReadYamlFile(host, file->second.back());
    if (!document.ok()) return document.status();
    config = *std::move(document);
  } else if (!fallback_file.empty()) {
    absl::StatusOr<json> document = ReadYamlFile(host, fallback_file);
    if (document.ok()) {
      config = *std::move(document);
    } else if (command.empty() || !absl::IsNotFound(document.status())) {
      return document.status();
    }
  }
  if (const auto folder = flags.find("config-dir"); folder != flags.end()) {
    std::vector<std::string> files;
    ListDropIns(host, folder->second.back(), 8, &files);
    for (const std::string& path : files) {
      const absl::StatusOr<json> document = ReadYamlFile(host, path);
      if (!document.ok()) return document.status();
      config.merge_patch(*document);
    }
  }
  ApplyFlags(flags, &config);
  absl::StatusOr<v1alpha1::Kubelet> kubelet = ReadKubeletConfiguration(config);
  if (!kubelet.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("kubelet configuration: {}", std::string(kubelet.status().message())));
  }
  return kubelet;
}

}  // namespace numafit::agent
