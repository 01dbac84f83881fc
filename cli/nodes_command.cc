// numafit nodes: the fleet as a table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

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

// "seen 41 s ago": when its agent was there last; else what its report's own clock says.
std::string SeenText(const json& node) {
  if (node.contains("agentLostSeconds")) {
    return fmt::format("seen {} ago", AgeText(node.value("agentLostSeconds", std::int64_t{0})));
  }
  const std::string observed = node.value("observedTime", "");
  return observed.empty() ? "" : "last report of " + observed;
}

// The states of a node, those first that say least is known. `age`: with how long ago; without it
// equal states have equal texts.
Table::Cell State(const json& node, bool age) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
  const std::string report = node.value("report", "current");
  if (report == "stale") {
    const std::string seen = age ? SeenText(node) : "";
    add("STALE" + (seen.empty() ? seen : " " + seen));
  }
  for (const json& state : node.value("states", json::array())) {
    if (state == "no-report") add("no report");
    if (state == "kubelet-away") add("kubelet away");
    if (state == "settling") add("settling");
    if (state == "cooling-down") add("cooling down");
    if (state == "kept-for-nominee") add("nominated");
  }
  if (!node.value("reportError", "").empty()) add("report refused");
  if (!text.empty()) return {text, Tone::kCaution};
  if (const int waiting = node.value("waiting", 0); waiting > 0) {
    return {fmt::format("{} on the way", waiting), Tone::kPlain};
  }
  return {""};
}

Table::Cell Misaligned(const json& node) {
  const int misaligned = node.value("misaligned", 0);
  return misaligned == 0 ? Table::Cell{"-"}
                         : Table::Cell{fmt::format("{}", misaligned), Tone::kBad};
}

// "12 nodes; 1 stale, 2 without a report; free/all per NUMA node, NUMA 0 first".
std::string Headline(const json& nodes) {
  std::map<std::string, int> counts;
  int misaligned = 0;
  for (const json& node : nodes) {
    for (const json& state : node.value("states", json::array())) ++counts[state];
    misaligned += node.value("misaligned", 0);
  }
  std::string text = fmt::format("{} node{}", nodes.size(), nodes.size() == 1 ? "" : "s");
  const std::array<std::pair<const char*, const char*>, 5> words = {
      {{"no-report", "without a report"},
       {"stale-report", "stale"},
       {"kubelet-away", "without their kubelet"},
       {"settling", "settling"},
       {"cooling-down", "cooling down"}}};
  for (const auto& [state, word] : words) {
    if (counts[state] > 0) text += fmt::format(", {} {}", counts[state], word);
  }
  if (misaligned > 0) {
    text += fmt::format("; {} misaligned container{} (numafit pods --misaligned)", misaligned,
                        misaligned == 1 ? "" : "s");
  }
  return text + "; free/all per NUMA node, NUMA 0 first";
}

std::string Render(const json& fleet, bool all, const Terminal& terminal) {
  Table table(
      {"NODE", "POLICY", "ACCELERATORS", "ENDPOINTS", "LARGEST", "PODS", "MISALIGNED", "STATE"});
  // Rows that look the same but for the name and the number of Pods.
  std::map<std::string, std::vector<const json*>> alike;
  std::vector<std::string> order;
  const json nodes = fleet.value("nodes", json::array());
  for (const json& node : nodes) {
    const std::string key =
        all ? node.value("name", "")
            : fmt::format("{}|{}|{}|{}|{}", node.value("topologyManagerPolicy", ""),
                          Cell(node.value("accelerators", json::array())),
                          Cell(node.value("endpoints", json::array())), Misaligned(node).text,
                          State(node, /*age=*/false).text);
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
               Misaligned(node),
               State(node, /*age=*/true)});
    if (group.size() > 1) {
      table.AddLine(
          Colored(fmt::format("  … {} more like {}", group.size() - 1, node.value("name", "")),
                  Tone::kFaint, terminal));
    }
  }
  return fmt::format("{}\n\n{}", Headline(nodes), table.Render(terminal));
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
        "picked. MISALIGNED counts running containers whose accelerators and endpoints share no\n"
        "NUMA node. STATE says what keeps Pods off, or the picture from being sure: no report; "
        "STALE\n"
        "(its agent is lost); settling and cooling down (docs/reasons.md); Pods that are bound "
        "and\n"
        "that the kubelet has not admitted yet.\n\n"
        "Examples:\n"
        "  numafit nodes\n"
        "  numafit nodes --fleet test/fleets/mixed.yaml --all\n"
        "  numafit nodes --server http://127.0.0.1:8080 -o json | jq '.nodes[].largestAligned'\n",
    .options = kOptions,
    .run = Run};

}  // namespace numafit::cli
