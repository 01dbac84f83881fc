// One command of the numafit program, and what all commands share.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/arguments.h"

namespace numafit::cli {

// What scripts see.
enum ExitCode : int {
  kYes = 0,
  kNo = 1,          // a clean no
  kCannotTell = 2,  // or bad input
};

struct Command {
  std::string_view name;     // "fleet expand": one or two words
  std::string_view summary;  // one line
  std::string_view usage;    // "numafit fleet expand --fleet FILE [-o json]"
  std::string_view details;  // what it answers, examples
  std::span<const Option> options;
  int (*run)(const Arguments& arguments);
  // What its one argument without an option's name is, "NAMESPACE/NAME"; empty: it takes none.
  std::string_view argument = {};
};

// In the order of the --help text.
std::span<const Command> Commands();

// "numafit: MESSAGE" on standard error; returns kCannotTell.
int Fail(std::string_view message);
int Fail(const absl::Status& status);

// Checks -o; the only other form than text is json.
[[nodiscard]] absl::Status CheckOutput(const Arguments& arguments, bool& json);

extern const Command kAdmitCommand;
extern const Command kDoctorCommand;
extern const Command kExplainCommand;
extern const Command kExplainWorkloadCommand;
extern const Command kFleetCheckCommand;
extern const Command kFleetExpandCommand;
extern const Command kNodesCommand;
extern const Command kPodsCommand;
extern const Command kPreflightCommand;
extern const Command kVersionCommand;
extern const Command kWorkloadsCommand;

}  // namespace numafit::cli
