// numafit workloads, numafit explain workload: Kueue's Workloads that cannot be placed, and why.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/command.h"
#include "cli/source.h"
#include "cli/table.h"

namespace numafit::cli {
namespace {

using nlohmann::json;

constexpr std::array<Option, 3> kListOptions = {{
    kSourceServerOption,
    {.name = "all",
     .letter = 0,
     .value_name = "",
     .help = "every Workload, not only those that cannot be placed"},
    kOutputOption,
}};
constexpr std::array<Option, 2> kExplainOptions = {{kSourceServerOption, kOutputOption}};

std::string FullName(const json& workload) {
  return workload.value("namespace", "") + "/" + workload.value("name", "");
}

// "12 min" since an RFC 3339 time.
std::string Since(const std::string& text) {
  absl::Time time;
  if (std::string error; !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return "-";
  return AgeText(std::max<std::int64_t>(0, absl::ToInt64Seconds(absl::Now() - time)));
}

int In(const json& workload, const char* state) {
  return workload.value("pods", json::object()).value(state, 0);
}

// "6/8 run": Pods that have a node, of those that ought to.
std::string Placed(const json& workload) {
  return fmt::format("{}/{} placed", In(workload, "placed"), workload.value("expected", 0));
}

// "2 unschedulable, 1 gated".
std::string States(const json& workload) {
  std::string text;
  const json pods = workload.value("pods", json::object());
  for (const auto& [state, count] : pods.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count.get<int>(), state);
  }
  if (const int missing = workload.value("missing", 0); missing > 0) {
    text += fmt::format("{}{} missing", text.empty() ? "" : ", ", missing);
  }
  return text.empty() ? "none" : text;
}

std::string Headline(const json& answer) {
  const int unplaceable = answer.value("unplaceable", 0);
  if (unplaceable == 0) return "Every admitted Workload can be placed, or is about to be";
  std::set<std::string> queues;
  for (const json& workload : answer.value("workloads", json::array())) {
    if (workload.contains("cause")) queues.insert(workload.value("clusterQueue", ""));
  }
  std::string names;
  for (const std::string& queue : queues) names += (names.empty() ? "" : ", ") + queue;
  return fmt::format("{} admitted Workload{} cannot be placed; {} {} accelerators of {}",
                     unplaceable, unplaceable == 1 ? "" : "s",
                     unplaceable == 1 ? "it holds" : "they hold",
                     answer.value("acceleratorsHeld", 0), names);
}

std::string Render(const json& answer, const Terminal& terminal) {
  std::string text = Headline(answer) + "\n";
  const json workloads = answer.value("workloads", json::array());
  if (workloads.empty()) return text;
  Table table({"WORKLOAD", "QUEUE", "SINCE", "PODS", "CAUSE", "WHY"});
  for (const json& workload : workloads) {
    const bool flagged = workload.contains("cause");
    const std::string since = workload.value(flagged ? "since" : "admittedSince", "");
    table.Add({{FullName(workload)},
               {workload.value("clusterQueue", "-")},
               {since.empty() ? "-" : Since(since)},
               {workload.value("phase", "") == "admitted" ? Placed(workload) : "-"},
               {flagged ? workload.value("cause", "") : workload.value("phase", ""),
                flagged ? Tone::kBad : Tone::kPlain},
               {workload.value("why", "")}});
  }
  return text + "\n" + table.Render(terminal);
}

int RunList(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(arguments);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<json> answer = (*source)->Workloads(arguments.Has("all"), "");
  if (!answer.ok()) return Fail(answer.status());
  const std::string output =
      as_json ? answer->dump(2) + "\n" : Render(*answer, Terminal::OfStandardOutput());
  std::fwrite(output.data(), 1, output.size(), stdout);
  return answer->value("unplaceable", 0) > 0 ? kNo : kYes;
}

// Who holds the resources that the Pods want, on the node that comes nearest.
std::string Holders(const json& pods, const json& workload) {
  std::set<std::string> wanted;
  for (const json& each : workload.value("resources", json::array())) {
    wanted.insert(each.value("resource", ""));
  }
  std::string text;
  for (const json& pod : pods.value("pods", json::array())) {
    std::map<std::string, int> held;
    for (const json& container : pod.value("containers", json::array())) {
      for (const json& device : container.value("devices", json::array())) {
        const std::string resource = device.value("resource", "");
        if (wanted.contains(resource)) held[resource] += device.value("count", 0);
      }
    }
    if (held.empty()) continue;
    std::string devices;
    for (const auto& [resource, count] : held) {
      devices += fmt::format("{}{} {}", devices.empty() ? "" : " + ", count,
                             resource.substr(resource.rfind('/') + 1));
    }
    text += fmt::format("  {} has {}\n", pod.value("pod", ""), devices);
  }
  return text;
}

std::string RenderOne(const json& workload, const json& pods, const Terminal& terminal) {
  const bool flagged = workload.contains("cause");
  std::string text =
      fmt::format("{} {}{}\n", FullName(workload),
                  flagged ? fmt::format("cannot be placed: {}", workload.value("cause", ""))
                          : fmt::format("is {}", workload.value("phase", "")),
                  workload.contains("admittedSince")
                      ? fmt::format("; admitted {} ago", Since(workload.value("admittedSince", "")))
                      : std::string());
  if (flagged) text += fmt::format("{}\n", workload.value("why", ""));
  text += fmt::format("\nPods   {} of {} expected: {}\n", In(workload, "placed"),
                      workload.value("expected", 0), States(workload));
  text += fmt::format("Holds  {} accelerators of ClusterQueue {}\n",
                      workload.value("accelerators", 0), workload.value("clusterQueue", "-"));
  if (workload.contains("podsScheduled")) {
    text += fmt::format("Kueue  PodsScheduled is {}\n",
                        workload.value("podsScheduled", false) ? "True" : "False");
  }
  if (!flagged) return text;
  if (const json resources = workload.value("resources", json::array()); !resources.empty()) {
    Table table({"RESOURCE", "ONE POD WANTS", "FREE IN ALL", "MOST ON ONE NUMA NODE"});
    for (const json& each : resources) {
      const json best = each.value("bestNuma", json());
      std::string place = "none";
      if (best.is_object()) {
        place = fmt::format(
            "{} ({}{})", best.value("free", 0), best.value("node", ""),
            best.contains("numa") ? fmt::format(" NUMA {}", best.value("numa", 0)) : std::string());
      }
      table.Add({{each.value("resource", "")},
                 {fmt::format("{}", each.value("wanted", 0))},
                 {fmt::format("{}", each.value("free", 0))},
                 {place}});
    }
    text += "\n" + table.Render(terminal);
  }
  if (const std::string nearest = workload.value("nearest", ""); !nearest.empty()) {
    text += fmt::format("\nNearest of {} nodes is {}: {}\n", workload.value("nodes", 0), nearest,
                        workload.value("nearestAnswer", ""));
    text += Holders(pods, workload);
  }
  if (workload.contains("message")) {
    text +=
        fmt::format("\nPod {}: {}\n", workload.value("example", ""), workload.value("message", ""));
  }
  return text;
}

int RunExplain(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  const std::string& name = arguments.positional().front();
  if (name.find('/') == std::string::npos) {
    return Fail(fmt::format("\"{}\" is no NAMESPACE/NAME", name));
  }
  absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(arguments);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<json> answer = (*source)->Workloads(true, name);
  if (!answer.ok()) return Fail(answer.status());
  const json workloads = answer->value("workloads", json::array());
  if (workloads.empty()) return Fail(fmt::format("no Workload {}", name));
  const json& workload = workloads.front();
  json pods = json::object();
  if (const std::string nearest = workload.value("nearest", ""); !nearest.empty()) {
    absl::StatusOr<json> there = (*source)->Pods(nearest, false);
    if (there.ok()) pods = *std::move(there);
  }
  const std::string output =
      as_json ? workload.dump(2) + "\n" : RenderOne(workload, pods, Terminal::OfStandardOutput());
  std::fwrite(output.data(), 1, output.size(), stdout);
  return workload.contains("cause") ? kNo : kYes;
}

}  // namespace

const Command kWorkloadsCommand = {
    .name = "workloads",
    .summary = "Show the Workloads that Kueue has admitted and that cannot be placed, and why",
    .usage = "numafit workloads --server URL [--all] [-o json]",
    .details =
        "The exit code is 1 when there is one. CAUSE: see docs/kueue.md.\n\n"
        "Examples:\n"
        "  numafit workloads --server http://127.0.0.1:8889\n"
        "  numafit workloads --server http://127.0.0.1:8889 -o json | jq -r '.workloads[].cause'\n",
    .options = kListOptions,
    .run = RunList};

const Command kExplainWorkloadCommand = {
    .name = "explain workload",
    .summary = "Explain why one Workload cannot be placed, with the numbers and who holds what",
    .usage = "numafit explain workload NAMESPACE/NAME --server URL [-o json]",
    .details =
        "The exit code is 1 when it cannot be placed.\n\n"
        "Example:\n"
        "  numafit explain workload team-a/job-train-1f2e3 --server http://127.0.0.1:8889\n",
    .options = kExplainOptions,
    .run = RunExplain,
    .argument = "NAMESPACE/NAME"};

}  // namespace numafit::cli
