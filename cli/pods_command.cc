// numafit pods: who holds accelerators and endpoints, where, and whether together.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/source.h"
#include "cli/table.h"

namespace numafit::cli {
namespace {

using nlohmann::json;

constexpr std::array<Option, 6> kOptions = {{
    kSourceFleetOption,
    kSourceServerOption,
    {.name = "node", .letter = 0, .value_name = "NAME", .help = "only this node"},
    {.name = "misaligned",
     .letter = 0,
     .value_name = "",
     .help = "only Pods with a misaligned container; the exit code is 1 when there is none"},
    {.name = "all",
     .letter = 0,
     .value_name = "",
     .help = "one line per container, nothing folded"},
    kOutputOption,
}};

std::string Short(const std::string& resource) {
  return resource.substr(resource.rfind('/') + 1);
}

std::string NumaName(const json& device) {
  std::string ids;
  for (const json& numa : device.value("numa", json::array())) {
    ids += (ids.empty() ? "" : "+") + numa.dump();
  }
  return ids.empty() ? "NUMA ?" : "NUMA " + ids;
}

// "NUMA 0: 4 gpu + 4 rdma; NUMA 1: 2 gpu"; "NUMA ?" where nobody knows, "(hardware)" where the
// agent knows and the kubelet does not.
std::string Holds(const json& container) {
  std::vector<std::string> order;
  std::map<std::string, std::string> by_numa;
  const json devices = container.value("devices", json::array());
  for (const char* kind : {"accelerator", "endpoint"}) {
    for (const json& device : devices) {
      if (device.value("kind", "") != kind) continue;
      const bool is_hidden =
          !device.value("published", true) && !device.value("numa", json::array()).empty();
      const std::string numa = NumaName(device) + (is_hidden ? " (hardware)" : "");
      std::string& held = by_numa[numa];
      if (held.empty()) order.push_back(numa);
      held += fmt::format("{}{} {}", held.empty() ? "" : " + ", device.value("count", 0),
                          Short(device.value("resource", "")));
    }
  }
  std::sort(order.begin(), order.end());
  std::string text;
  for (const std::string& numa : order) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", numa, by_numa[numa]);
  }
  return text;
}

Tone ToneOf(const std::string& alignment) {
  if (alignment == "aligned") return Tone::kGood;
  if (alignment == "misaligned") return Tone::kBad;
  return alignment == "unknown" ? Tone::kCaution : Tone::kPlain;
}

std::string ContainerName(const json& container) {
  return container.value("name", "") + (container.value("init", false) ? " (init)" : "");
}

void AddRows(const json& pod, Table& table) {
  bool first = true;
  for (const json& container : pod.value("containers", json::array())) {
    const std::string alignment = container.value("alignment", "");
    table.Add({{first ? pod.value("pod", "") : ""},
               {first ? pod.value("node", "") : ""},
               {first ? pod.value("state", "") : ""},
               {ContainerName(container)},
               {Holds(container)},
               {alignment == "not-needed" ? "-" : alignment, ToneOf(alignment)}});
    first = false;
  }
}

void AddPossible(const json& pod, const Terminal& terminal, Table& table) {
  std::string text;
  for (const json& each : pod.value("possible", json::array())) {
    text += (text.empty() ? "" : "; or ") + each.get<std::string>();
  }
  if (!text.empty()) table.AddLine(Colored("  may hold " + text, Tone::kFaint, terminal));
}

// Pods that differ in name and node alone.
std::string KeyOf(const json& pod) {
  json key = pod;
  key.erase("pod");
  key.erase("node");
  return key.dump();
}

std::string Headline(const json& pods) {
  int containers = 0;
  int unknown = 0;
  for (const json& pod : pods) {
    for (const json& container : pod.value("containers", json::array())) {
      const std::string alignment = container.value("alignment", "");
      if (alignment == "misaligned") ++containers;
      if (alignment == "unknown") ++unknown;
    }
  }
  std::string text =
      containers == 0
          ? std::string("No container is known to be misaligned")
          : fmt::format(
                "{} container{} misaligned: accelerators and endpoints on different NUMA "
                "nodes",
                containers, containers == 1 ? " is" : "s are");
  if (unknown > 0) text += fmt::format("; of {} nobody knows", unknown);
  return text + fmt::format("; {} Pod{} with accelerators or endpoints", pods.size(),
                            pods.size() == 1 ? "" : "s");
}

std::string Render(const json& pods, bool all, const Terminal& terminal) {
  std::string text = Headline(pods) + "\n";
  if (pods.empty()) return text;
  Table table({"POD", "NODE", "STATE", "CONTAINER", "HOLDS", "ALIGNED"});
  std::vector<std::vector<const json*>> groups;
  std::map<std::string, std::size_t> index;
  for (const json& pod : pods) {
    // Each misaligned Pod is one too many to be folded away.
    const bool own_line = all || pod.value("alignment", "") == "misaligned";
    const auto [found, is_new] = index.emplace(own_line ? pod.dump() : KeyOf(pod), groups.size());
    if (is_new || own_line) {
      groups.push_back({&pod});
    } else {
      groups[found->second].push_back(&pod);
    }
  }
  for (const std::vector<const json*>& group : groups) {
    const json& pod = *group.front();
    AddRows(pod, table);
    AddPossible(pod, terminal, table);
    if (group.size() == 1) continue;
    std::set<std::string> nodes;
    for (const json* each : group) nodes.insert(each->value("node", ""));
    table.AddLine(
        Colored(fmt::format("  … {} more like {} on {} node{}", group.size() - 1,
                            pod.value("pod", ""), nodes.size(), nodes.size() == 1 ? "" : "s"),
                Tone::kFaint, terminal));
  }
  return text + "\n" + table.Render(terminal);
}

int Run(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(arguments);
  if (!source.ok()) return Fail(source.status());
  const bool misaligned = arguments.Has("misaligned");
  const absl::StatusOr<json> answer = (*source)->Pods(arguments.Value("node"), misaligned);
  if (!answer.ok()) return Fail(answer.status());
  const json pods = answer->value("pods", json::array());
  const std::string output = as_json
                                 ? answer->dump(2) + "\n"
                                 : Render(pods, arguments.Has("all"), Terminal::OfStandardOutput());
  std::fwrite(output.data(), 1, output.size(), stdout);
  return misaligned && pods.empty() ? kNo : kYes;
}

}  // namespace

const Command kPodsCommand = {
    .name = "pods",
    .summary = "Show which Pods hold accelerators and endpoints, where, and whether together",
    .usage =
        "numafit pods [--fleet FILE | --server URL] [--node NAME] [--misaligned] [--all] [-o json]",
    .details =
        "STATE is observed (a report or the fleet file says what it has), predicted (bound; its\n"
        "devices are foretold), reserved (a bind in flight) or leaving. A container is misaligned\n"
        "when its accelerators and its endpoints share no NUMA node. NUMA ? is a place that "
        "nobody\n"
        "knows; (hardware) one that the agent knows and the kubelet is not told.\n\n"
        "Examples:\n"
        "  numafit pods --node gpu-a-002\n"
        "  numafit pods --server http://127.0.0.1:8889 --misaligned\n"
        "  numafit pods --misaligned -o json | jq -r '.pods[].pod'\n",
    .options = kOptions,
    .run = Run};

}  // namespace numafit::cli
