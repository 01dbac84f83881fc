// numafit nodes: the fleet as a table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/source.h"
#include "cli/table.h"

namespace numafit::cli {
namespace {

using nlohmann::json;

constexpr std::array<Option, 4> kOptions = {{
    kSourceFleetOption,
    kSourceServerOption,
    {.name = "all", .letter = 0, .value_name = "", .help = "one line per node, nothing folded"},
    kOutputOption,
}};

std::string Number(const json& count) {
  const int least = count.value("free", 0);
  const int most = count.value("freeAtMost", least);
  const int all = count.value("all", 0);
  if (all == 0) return "-";
  return least == most ? fmt::format("{}/{}", least, all)
                       : fmt::format("{}-{}/{}", least, most, all);
}

// "3/4  2/4": one number per NUMA node, in their order; named where there are several resources.
std::string Cell(const json& resources) {
  std::string cell;
  for (const json& resource : resources) {
    if (!cell.empty()) cell += "; ";
    if (resources.size() > 1) {
      const std::string name = resource.value("resource", "");
      cell += name.substr(name.rfind('/') + 1) + " ";
    }
    bool first = true;
    for (const json& count : resource.value("byNuma", json::array())) {
      if (!first) cell += "  ";
      cell += Number(count);
      if (count.value("numa", json()).is_null()) cell += " without NUMA";
      first = false;
    }
    if (const int unhealthy = resource.value("unhealthy", 0); unhealthy > 0) {
      cell += fmt::format(" ({} unhealthy)", unhealthy);
    }
  }
  return cell.empty() ? "-" : cell;
}

std::string Largest(const json& node) {
  const json largest = node.value("largestAligned", json());
  if (!largest.is_object()) return "-";
  return fmt::format("{} + {}", largest.value("accelerators", 0), largest.value("endpoints", 0));
}

Table::Cell State(const json& node) {
  const std::string report = node.value("report", "current");
  if (report == "none") return {"no report", Tone::kCaution};
  if (report == "stale") return {"agent lost", Tone::kCaution};
  if (node.value("settling", false)) return {"settling", Tone::kCaution};
  if (const int waiting = node.value("waiting", 0); waiting > 0) {
    return {fmt::format("{} on the way", waiting), Tone::kPlain};
  }
  return {""};
}

std::string Render(const json& fleet, bool all, const Terminal& terminal) {
  Table table({"NODE", "POLICY", "ACCELERATORS", "ENDPOINTS", "LARGEST", "PODS", "STATE"});
  // Rows that look the same but for the name and the number of Pods.
  std::map<std::string, std::vector<const json*>> alike;
  std::vector<std::string> order;
  const json nodes = fleet.value("nodes", json::array());
  for (const json& node : nodes) {
    const std::string key =
        all ? node.value("name", "")
            : fmt::format("{}|{}|{}|{}", node.value("topologyManagerPolicy", ""),
                          Cell(node.value("accelerators", json::array())),
                          Cell(node.value("endpoints", json::array())), State(node).text);
    std::vector<const json*>& group = alike[key];
    if (group.empty()) order.push_back(key);
    group.push_back(&node);
  }
  for (const std::string& key : order) {
    const std::vector<const json*>& group = alike[key];
    const json& node = *group.front();
    table.Add({{node.value("name", "")},
               {node.value("topologyManagerPolicy", "")},
               {Cell(node.value("accelerators", json::array()))},
               {Cell(node.value("endpoints", json::array()))},
               {Largest(node)},
               {fmt::format("{}", node.value("pods", 0))},
               State(node)});
    if (group.size() > 1) {
      table.AddLine(
          Colored(fmt::format("  … {} more like {}", group.size() - 1, node.value("name", "")),
                  Tone::kFaint, terminal));
    }
  }
  return fmt::format("{} nodes; free/all per NUMA node, NUMA 0 first\n\n{}", nodes.size(),
                     table.Render(terminal));
}

int Run(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(arguments);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<json> fleet = (*source)->Nodes();
  if (!fleet.ok()) return Fail(fleet.status());
  const std::string output =
      as_json ? fleet->dump(2) + "\n"
              : Render(*fleet, arguments.Has("all"), Terminal::OfStandardOutput());
  std::fwrite(output.data(), 1, output.size(), stdout);
  return kYes;
}

}  // namespace

const Command kNodesCommand = {
    .name = "nodes",
    .summary = "Show the fleet: free accelerators and endpoints per NUMA node",
    .usage = "numafit nodes [--fleet FILE | --server URL] [--all] [-o json]",
    .details =
        "LARGEST is what is free together on the NUMA node with most free accelerators:\n"
        "accelerators + endpoints. 3-4/4 means: three or four, depending on what the kubelet has\n"
        "picked. STATE tells of Pods that are bound and that the kubelet has not admitted yet.\n\n"
        "Examples:\n"
        "  numafit nodes\n"
        "  numafit nodes --fleet test/fleets/mixed.yaml --all\n"
        "  numafit nodes --server http://127.0.0.1:8080 -o json | jq '.nodes[].largestAligned'\n",
    .options = kOptions,
    .run = Run};

}  // namespace numafit::cli
