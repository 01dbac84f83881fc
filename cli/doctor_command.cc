// numafit doctor: what is set up wrong, and how to put it right.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/yaml_tree.h"
#include "cli/command.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/fleet_checks.h"
#include "cli/doctor/quota_checks.h"
#include "cli/doctor/scheduler_file.h"
#include "cli/source.h"
#include "cli/table.h"

namespace numafit::cli {
namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Severity;
using nlohmann::json;

constexpr std::size_t kMostNodeNames = 5;

constexpr std::array<Option, 6> kOptions = {{
    {.name = "scheduler-config",
     .letter = 0,
     .value_name = "FILE",
     .help = "check this kube-scheduler configuration"},
    {.name = "extender",
     .letter = 0,
     .value_name = "URL",
     .help = "urlPrefix of numafit in it, where there are several extenders"},
    {.name = "server",
     .letter = 0,
     .value_name = "URL",
     .help = "check the fleet that this numafit-extender sees"},
    {.name = "fleet", .letter = 0, .value_name = "FILE", .help = "check a fleet file instead"},
    {.name = "all", .letter = 0, .value_name = "", .help = "also what is fine, and every node"},
    kOutputOption,
}};

const char* WordOf(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "OK";
    case Severity::kWarn:
      return "WARN";
    case Severity::kFail:
      return "FAIL";
  }
  return "";
}

std::string NodeNames(const Finding& finding, bool all) {
  std::string text;
  std::size_t shown = 0;
  for (const std::string& node : finding.nodes) {
    if (!all && shown == kMostNodeNames) {
      return text + fmt::format(" and {} more", finding.nodes.size() - shown);
    }
    text += (text.empty() ? "" : ", ") + node;
    ++shown;
  }
  return text;
}

std::string Headline(const Findings& findings) {
  const std::size_t fail = findings.Count(Severity::kFail);
  const std::size_t warn = findings.Count(Severity::kWarn);
  if (fail == 0 && warn == 0) return "Nothing is wrong";
  std::string text;
  if (fail > 0) text = fmt::format("{} must be put right", fail);
  if (warn > 0) text += fmt::format("{}{} should be", fail > 0 ? ", " : "", warn);
  return text + (fail == 0 ? " put right" : "");
}

std::string Render(const Findings& findings, bool all, const Terminal& terminal) {
  std::string text = Headline(findings) + "\n\n";
  const auto add = [&](Severity severity, Tone tone) {
    for (const Finding& finding : findings.all()) {
      if (finding.severity != severity) continue;
      text += Colored(fmt::format("{:<6}", WordOf(severity)), tone, terminal) +
              fmt::format("{}  ({})\n", finding.text, finding.code);
      if (!finding.nodes.empty()) {
        text += fmt::format("      on {}\n", NodeNames(finding, all));
      }
      if (!finding.fix.empty()) text += fmt::format("      -> {}\n", finding.fix);
    }
  };
  add(Severity::kFail, Tone::kBad);
  add(Severity::kWarn, Tone::kCaution);
  if (all) {
    add(Severity::kOk, Tone::kGood);
  } else {
    const std::size_t fine = findings.Count(Severity::kOk);
    const bool others = fine < findings.all().size();
    text += Colored(fmt::format("{:<6}", "OK"), Tone::kGood, terminal) +
            fmt::format("{}{} check{}\n", fine, others ? " other" : "", fine == 1 ? "" : "s");
  }
  if (findings.Count(Severity::kOk) < findings.all().size()) {
    text += "\ndocs/doctor.md says more about each word in parentheses.\n";
  }
  return text;
}

std::string ToJson(const Findings& findings, const std::string& error) {
  json list = json::array();
  for (const Finding& finding : findings.all()) {
    list.push_back({{"severity", WordOf(finding.severity)},
                    {"code", finding.code},
                    {"text", finding.text},
                    {"fix", finding.fix},
                    {"nodes", finding.nodes}});
  }
  json answer = {{"findings", std::move(list)},
                 {"FAIL", findings.Count(Severity::kFail)},
                 {"WARN", findings.Count(Severity::kWarn)},
                 {"OK", findings.Count(Severity::kOk)}};
  if (!error.empty()) answer["error"] = error;
  return answer.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// Adds what the fleet shows, and leaves its nodes in `fleet`.
absl::Status CheckFleetOf(const Arguments& arguments, json* fleet, Findings* findings) {
  const absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(arguments);
  if (!source.ok()) return source.status();
  const absl::StatusOr<bool> ready = (*source)->Ready();
  if (!ready.ok()) return ready.status();
  if (!*ready) {
    findings->Fail("extender-not-ready",
                   "the extender has not read the lists of the API server yet: kube-scheduler must "
                   "not ask it, and what it says of the fleet may be incomplete",
                   "see its log for lines api-server; it needs list and watch on pods and "
                   "nodereports (deploy/manifests/extender-rbac.yaml)");
  } else if (arguments.Has("server")) {
    findings->Ok("extender-not-ready", "the extender is ready");
  }
  absl::StatusOr<json> nodes = (*source)->Nodes();
  if (!nodes.ok()) return nodes.status();
  const absl::StatusOr<json> pods = (*source)->Pods("", /*misaligned_only=*/false);
  if (!pods.ok()) return pods.status();
  *fleet = *std::move(nodes);
  doctor::CheckFleet(*fleet, *pods, findings);
  const absl::StatusOr<json> queues = (*source)->ClusterQueues();
  if (absl::IsNotFound(queues.status())) return absl::OkStatus();
  if (!queues.ok()) return queues.status();
  doctor::CheckQuotas(*queues, findings);
  return absl::OkStatus();
}

absl::Status CheckSchedulerOf(const Arguments& arguments, const json& fleet, Findings* findings) {
  const std::string file = arguments.Value("scheduler-config");
  const absl::StatusOr<std::string> text = api::ReadTextFile(file);
  if (!text.ok()) return text.status();
  return doctor::CheckSchedulerFile(*text,
                                    {.file = file,
                                     .extender_url = arguments.Value("extender"),
                                     .fleet = fleet.is_null() ? nullptr : &fleet},
                                    findings);
}

int Run(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  const bool has_fleet = arguments.Has("server") || arguments.Has("fleet");
  if (!has_fleet && !arguments.Has("scheduler-config")) {
    return Fail(
        "doctor: needs something to look at: --scheduler-config FILE, --server URL or both; see "
        "numafit doctor --help");
  }
  Findings findings;
  std::vector<std::string> errors;
  const auto note = [&errors](const absl::Status& status) {
    if (!status.ok()) errors.emplace_back(status.message());
  };
  json fleet;
  if (has_fleet) note(CheckFleetOf(arguments, &fleet, &findings));
  if (arguments.Has("scheduler-config")) note(CheckSchedulerOf(arguments, fleet, &findings));
  // What could be looked at is worth showing, also when something else could not.
  const std::string error = fmt::format("{}", fmt::join(errors, "; "));
  if (as_json || !findings.all().empty()) {
    const std::string output =
        as_json ? ToJson(findings, error)
                : Render(findings, arguments.Has("all"), Terminal::OfStandardOutput());
    std::fwrite(output.data(), 1, output.size(), stdout);
    std::fflush(stdout);
  }
  if (!errors.empty()) return Fail("doctor: could not look at everything: " + error);
  return findings.Count(Severity::kFail) > 0 ? kNo : kYes;
}

}  // namespace

const Command kDoctorCommand = {
    .name = "doctor",
    .summary = "Check how numafit is set up, and say how to put right what is wrong",
    .usage =
        "numafit doctor [--scheduler-config FILE [--extender URL]] [--server URL | --fleet FILE] "
        "[--all] [-o json]",
    .details =
        "Needs no rights of its own: what it says of the cluster the extender has told it\n"
        "(its readListen port). Answers 0 when nothing fails (warnings are no failure), 1 when\n"
        "something does, 2 when something could not be looked at. docs/doctor.md has every\n"
        "finding, with its meaning and what to do.\n\n"
        "Examples:\n"
        "  numafit doctor --scheduler-config /etc/kubernetes/scheduler-config.yaml\n"
        "  numafit doctor --server http://127.0.0.1:8889 --all\n"
        "  numafit doctor --server http://127.0.0.1:8889 -o json | jq '.findings[] | "
        "select(.severity == \"FAIL\")'\n",
    .options = kOptions,
    .run = Run};

}  // namespace numafit::cli
