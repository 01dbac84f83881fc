// numafit fleet check, numafit fleet expand: fleet files by themselves.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <set>

#include "cache/fleet_file.h"
#include "cli/command.h"

namespace numafit::cli {
namespace {

constexpr Option kFleetOption = {.name = "fleet",
                                 .letter = 0,
                                 .value_name = "FILE",
                                 .help = "the fleet file; the built-in example when not given"};

constexpr std::array<Option, 1> kCheckOptions = {kFleetOption};
constexpr std::array<Option, 2> kExpandOptions = {
    {kFleetOption,
     {.name = "output", .letter = 'o', .value_name = "json", .help = "the form; only json"}}};

absl::StatusOr<cache::FleetFile> Load(const Arguments& arguments) {
  if (!arguments.Has("fleet")) return cache::EmbeddedFleet();
  return cache::LoadFleetFile(arguments.Value("fleet"));
}

int RunCheck(const Arguments& arguments) {
  const absl::StatusOr<cache::FleetFile> file = Load(arguments);
  if (!file.ok()) return Fail(file.status());
  std::set<std::string> shapes;
  for (const cache::FleetNode& node : file->nodes) shapes.insert(node.shape);
  fmt::print("{}: {} nodes of {} shapes, {} running Pods\n",
             arguments.Has("fleet") ? arguments.Value("fleet") : "the built-in fleet",
             file->nodes.size(), shapes.size(), file->pods.size());
  return kYes;
}

int RunExpand(const Arguments& arguments) {
  if (arguments.Has("output") && arguments.Value("output") != "json") {
    return Fail(
        fmt::format("fleet expand: --output is \"{}\", expected json", arguments.Value("output")));
  }
  const absl::StatusOr<cache::FleetFile> file = Load(arguments);
  if (!file.ok()) return Fail(file.status());
  const std::string json = cache::ExpandFleet(*file);
  std::fwrite(json.data(), 1, json.size(), stdout);
  return kYes;
}

}  // namespace

const Command kFleetCheckCommand = {
    .name = "fleet check",
    .summary = "Check a fleet file",
    .usage = "numafit fleet check [--fleet FILE]",
    .details =
        "Says what is in the file, or which line is wrong and what was expected there.\n\n"
        "Example:\n  numafit fleet check --fleet test/fleets/mixed.yaml\n",
    .options = kCheckOptions,
    .run = RunCheck};

const Command kFleetExpandCommand = {
    .name = "fleet expand",
    .summary = "Print a fleet with one entry per node and device, as JSON",
    .usage = "numafit fleet expand [--fleet FILE] [-o json]",
    .details =
        "For tools that make machines from a fleet file, like the local lab.\n\n"
        "Example:\n  numafit fleet expand --fleet test/fleets/lab.yaml -o json | "
        "jq '.nodes[0]'\n",
    .options = kExpandOptions,
    .run = RunExpand};

}  // namespace numafit::cli
