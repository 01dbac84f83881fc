// numafit explain: may this Pod go anywhere, where, and what is in the way?
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "api/yaml_tree.h"
#include "cache/explain_compute.h"
#include "cache/pod_file.h"
#include "cli/command.h"
#include "cli/source.h"
#include "cli/table.h"

namespace numafit::cli {
namespace {

using nlohmann::json;

// Answers that are shown without --all, and NUMA nodes that get a column each; with more, resources
// get one.
constexpr std::size_t kMostAnswers = 20;
constexpr std::size_t kMostNumaColumns = 2;

constexpr std::array<Option, 6> kOptions = {{
    {.name = "filename",
     .letter = 'f',
     .value_name = "FILE",
     .help = "a manifest with a Pod or a Pod template, YAML or JSON; - is standard input"},
    kSourceFleetOption,
    kSourceServerOption,
    {.name = "node", .letter = 0, .value_name = "NAME", .help = "only this node"},
    {.name = "all", .letter = 0, .value_name = "", .help = "one line per node, nothing folded"},
    kOutputOption,
}};

// What the kubelet gives out beside devices: memory is counted in bytes.
constexpr const char* kKinds[] = {"resources", "compute"};

std::string Amount(std::int64_t amount, bool bytes) {
  return bytes ? cache::BytesText(amount) : fmt::format("{}", amount);
}

std::string Number(const json& count, bool bytes = false) {
  const std::int64_t least = count.value("free", std::int64_t{0});
  const std::int64_t most = count.value("freeAtMost", least);
  const std::int64_t all = count.value("all", std::int64_t{0});
  if (all == 0) return "-";
  return least == most ? fmt::format("{}/{}", Amount(least, bytes), Amount(all, bytes))
                       : fmt::format("{}-{}/{}", Amount(least, bytes), Amount(most, bytes),
                                     Amount(all, bytes));
}

bool IsInBytes(const std::string& resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

std::string Short(const std::string& resource) {
  return resource.substr(resource.rfind('/') + 1);
}

// "gpu 3/4 rdma 4/4" for one NUMA node (null: devices without one).
std::string NumaCell(const json& answer, const json& numa) {
  std::string cell;
  for (const char* kind : kKinds) {
    for (const json& resource : answer.value(kind, json::array())) {
      const std::string name = resource.value("resource", "");
      for (const json& count : resource.value("byNuma", json::array())) {
        if (count.value("numa", json()) != numa) continue;
        cell += fmt::format("{}{} {}", cell.empty() ? "" : " ", Short(name),
                            Number(count, IsInBytes(name)));
      }
    }
  }
  return cell;
}

// "4/4  1/4" for one resource, over the NUMA nodes in their order.
std::string ResourceCell(const json& answer, const std::string& name) {
  std::string cell;
  for (const char* kind : kKinds) {
    for (const json& resource : answer.value(kind, json::array())) {
      if (resource.value("resource", "") != name) continue;
      for (const json& count : resource.value("byNuma", json::array())) {
        cell += fmt::format("{}{}{}", cell.empty() ? "" : "  ", Number(count, IsInBytes(name)),
                            count.value("numa", json()).is_null() ? " without NUMA" : "");
      }
    }
  }
  return cell;
}

// The resources that the answers speak of, in their order.
std::vector<std::string> Resources(const json& answers) {
  std::vector<std::string> names;
  for (const char* kind : kKinds) {
    for (const json& answer : answers) {
      for (const json& resource : answer.value(kind, json::array())) {
        const std::string name = resource.value("resource", "");
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  }
  return names;
}

// The NUMA ids that the answers speak of; null for devices without a NUMA node.
std::vector<json> NumaIds(const json& answers) {
  std::vector<json> ids;
  for (const char* kind : kKinds) {
    for (const json& answer : answers) {
      for (const json& resource : answer.value(kind, json::array())) {
        for (const json& count : resource.value("byNuma", json::array())) {
          const json id = count.value("numa", json());
          if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
        }
      }
    }
  }
  std::sort(ids.begin(), ids.end(), [](const json& a, const json& b) {
    return std::pair(a.is_null(), a) < std::pair(b.is_null(), b);
  });
  return ids;
}

Tone ToneOf(const json& answer) {
  const std::string reason = answer.value("reason", "");
  const std::string alignment = answer.value("alignment", "");
  if (reason == "fits") {
    return alignment == "guaranteed" || alignment == "not-needed" ? Tone::kGood : Tone::kCaution;
  }
  return reason == "settling" ? Tone::kCaution : Tone::kBad;
}

std::string Headline(const json& explanation) {
  const int nodes = explanation.value("nodes", 0);
  const int fit = explanation.value("fit", 0);
  const int guaranteed = explanation.value("guaranteed", 0);
  if (fit == 0) return fmt::format("No: none of {} nodes can place it", nodes);
  std::string text;
  if (guaranteed == fit) {
    text = fmt::format("Yes: {} of {} nodes can place it", fit, nodes);
  } else if (guaranteed == 0) {
    text =
        fmt::format("Perhaps: {} of {} nodes may place it aligned, none is certain to", fit, nodes);
  } else {
    text = fmt::format("Yes: {} of {} nodes can place it, {} more possibly", guaranteed, nodes,
                       fit - guaranteed);
  }
  return text + fmt::format("; best: {}", explanation["best"].get<std::string>());
}

// Under a row: what change of the request would pass there, and what one should know.
void AddRemarks(const json& answer, const Terminal& terminal, Table& table) {
  std::string changes;
  for (const json& change : answer.value("changes", json::array())) {
    changes += (changes.empty() ? "" : "; or ") + change.get<std::string>();
  }
  if (!changes.empty()) {
    table.AddLine(Colored(fmt::format("  would fit there {}", changes), Tone::kFaint, terminal));
  }
  for (const json& note : answer.value("notes", json::array())) {
    table.AddLine(Colored(fmt::format("  {}", note.get<std::string>()), Tone::kFaint, terminal));
  }
}

std::string Render(const json& explanation, bool all, const Terminal& terminal) {
  std::string text = fmt::format("{} {}\n{}\n\n", explanation.value("pod", ""),
                                 explanation.value("wants", ""), Headline(explanation));
  const json answers = explanation.value("answers", json::array());
  const std::vector<json> ids = NumaIds(answers);
  const bool per_numa = ids.size() <= kMostNumaColumns;
  std::vector<std::string> header = {"NODE", "POLICY"};
  for (const json& id : ids) {
    if (per_numa) {
      header.push_back(id.is_null() ? "NO NUMA" : fmt::format("NUMA {}", id.get<int>()));
    }
  }
  const std::vector<std::string> resources = Resources(answers);
  for (const std::string& resource : resources) {
    if (!per_numa) header.push_back(Short(resource) + " by NUMA");
  }
  header.emplace_back("ANSWER");
  Table table(header);
  std::size_t shown = 0;
  std::size_t left_out = 0;
  for (const json& answer : answers) {
    const std::size_t alike = answer.value("alike", json::array()).size();
    if (!all && shown == kMostAnswers) {
      left_out += 1 + alike;
      continue;
    }
    ++shown;
    std::vector<Table::Cell> row = {{answer.value("node", "")},
                                    {answer.value("topologyManagerPolicy", "")}};
    for (const json& id : ids) {
      if (per_numa) row.push_back({NumaCell(answer, id)});
    }
    for (const std::string& resource : resources) {
      if (!per_numa) row.push_back({ResourceCell(answer, resource)});
    }
    row.push_back({answer.value("answer", ""), ToneOf(answer)});
    table.Add(std::move(row));
    AddRemarks(answer, terminal, table);
    if (alike > 0) {
      table.AddLine(Colored(fmt::format("  … {} more like {}", alike, answer.value("node", "")),
                            Tone::kFaint, terminal));
    }
  }
  text += table.Render(terminal);
  if (left_out > 0)
    text += fmt::format("  … {} nodes with other answers; --all shows them\n", left_out);
  const json help = explanation.value("help", json::array());
  if (!help.empty()) {
    text += "\nWhat would help:\n";
    for (const json& each : help) text += fmt::format("  {}\n", each.value("text", ""));
  }
  return text;
}

absl::StatusOr<std::string> ReadInput(const std::string& file) {
  if (file != "-") return api::ReadTextFile(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

int Run(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  if (!arguments.Has("filename")) {
    return Fail("explain: needs -f FILE, a manifest with a Pod; see numafit explain --help");
  }
  const std::string file = arguments.Value("filename");
  const absl::StatusOr<std::string> text = ReadInput(file);
  if (!text.ok()) return Fail(text.status());
  const absl::StatusOr<std::vector<api::Pod>> pods =
      cache::ParsePods(*text, file == "-" ? "standard input" : file);
  if (!pods.ok()) return Fail(pods.status());
  absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(arguments);
  if (!source.ok()) return Fail(source.status());
  const bool all = arguments.Has("all");
  const Terminal terminal = Terminal::OfStandardOutput();
  json documents = json::array();
  std::string output;
  int code = kYes;
  for (const api::Pod& pod : *pods) {
    const absl::StatusOr<json> answer = (*source)->Explain(pod, arguments.Value("node"), !all);
    if (!answer.ok()) return Fail(answer.status());
    if (answer->value("fit", 0) == 0) code = kNo;
    if (as_json) {
      documents.push_back(*answer);
    } else {
      output += (output.empty() ? "" : "\n") + Render(*answer, all, terminal);
    }
  }
  if (as_json) output = (documents.size() == 1 ? documents[0] : documents).dump(2) + "\n";
  std::fwrite(output.data(), 1, output.size(), stdout);
  return code;
}

}  // namespace

const Command kExplainCommand = {
    .name = "explain",
    .summary = "Say where a Pod fits, and what is in the way elsewhere",
    .usage =
        "numafit explain -f FILE [--fleet FILE | --server URL] [--node NAME] [--all] [-o json]",
    .details =
        "Answers 0 when some node can place the Pod, 1 when none can.\n"
        "Nodes that answer the same are folded into one line; free/all per NUMA node is that of "
        "the\nnode named. 3-4/4 means: three or four, depending on what the kubelet has picked.\n"
        "CPUs and memory stand there when the kubelet gives the Pod its own. Changes of the "
        "request were\ntried on that node.\n\n"
        "Examples:\n"
        "  numafit explain -f deploy/examples/train.yaml\n"
        "  numafit explain -f job.yaml --fleet fleet.yaml --node gpu-a-002\n"
        "  kubectl get pod train -o yaml | numafit explain -f - --server http://127.0.0.1:8080\n"
        "  numafit explain -f train.yaml -o json | jq -r .best\n",
    .options = kOptions,
    .run = Run};

}  // namespace numafit::cli
