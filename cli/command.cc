#include "cli/command.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>

namespace numafit::cli {

std::span<const Command> Commands() {
  static const std::array commands = {
      kExplainCommand,         kNodesCommand,     kPodsCommand,   kWorkloadsCommand,
      kExplainWorkloadCommand, kDoctorCommand,    kAdmitCommand,  kFleetCheckCommand,
      kFleetExpandCommand,     kPreflightCommand, kVersionCommand};
  return commands;
}

int Fail(std::string_view message) {
  fmt::print(stderr, "numafit: {}\n", message);
  return kCannotTell;
}

int Fail(const absl::Status& status) {
  const absl::string_view message = status.message();
  return Fail(std::string_view(message.data(), message.size()));
}

absl::Status CheckOutput(const Arguments& arguments, bool& json) {
  const std::string output = arguments.Value("output");
  json = output == "json";
  if (output.empty() || output == "text" || json) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--output is \"{}\", expected text or json", output));
}

}  // namespace numafit::cli
