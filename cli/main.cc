#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/command.h"

namespace numafit::cli {
namespace {

constexpr std::string_view kIntroduction =
    "numafit answers whether a Pod's accelerators and RDMA endpoints fit on one NUMA node, where,\n"
    "and what is in the way.\n";

constexpr std::string_view kEnding =
    "Exit codes: 0 yes, 1 a clean no, 2 cannot tell or bad input.\n"
    "numafit COMMAND --help says more about a command, with examples.\n";

constexpr std::array<Option, 1> kHelpOption = {
    {{.name = "help", .letter = 'h', .value_name = "", .help = "this text"}}};

std::string ProgramHelp() {
  std::size_t width = 0;
  for (const Command& command : Commands()) width = std::max(width, command.name.size());
  std::string text = fmt::format("{}\nUsage: numafit COMMAND [OPTIONS]\n\n", kIntroduction);
  for (const Command& command : Commands()) {
    text += fmt::format("  {:<{}}  {}\n", command.name, width, command.summary);
  }
  return text + "\n" + std::string(kEnding);
}

std::string CommandHelp(const Command& command, std::span<const Option> options) {
  return fmt::format("{}\n\nUsage: {}\n\n{}\n{}", command.summary, command.usage,
                     OptionsHelp(options), command.details);
}

// The command that the first one or two words name; `words` loses them.
const Command* TakeCommand(std::vector<std::string>& words) {
  for (const std::size_t length : {std::size_t{2}, std::size_t{1}}) {
    if (words.size() < length) continue;
    const std::string name = length == 2 ? words[0] + " " + words[1] : words[0];
    for (const Command& command : Commands()) {
      if (command.name != name) continue;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(length));
      return &command;
    }
  }
  return nullptr;
}

int UnknownCommand(const std::vector<std::string>& words) {
  const std::string& first = words[0];
  std::vector<std::string_view> names;
  std::string below;
  for (const Command& command : Commands()) {
    names.push_back(command.name);
    if (command.name.starts_with(first + " ")) below += fmt::format(" {}", command.name);
  }
  if (!below.empty()) return Fail(fmt::format("{} needs a second word, one of:{}", first, below));
  const std::string nearest = Nearest(first, names);
  return Fail(nearest.empty()
                  ? fmt::format("unknown command \"{}\"; numafit --help lists them", first)
                  : fmt::format("unknown command \"{}\", did you mean {}?", first, nearest));
}

int Main(std::vector<std::string> words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::fputs(ProgramHelp().c_str(), words.empty() ? stderr : stdout);
    return words.empty() ? kCannotTell : kYes;
  }
  if (words[0] == "--version") words[0] = "version";
  const Command* command = TakeCommand(words);
  if (command == nullptr) return UnknownCommand(words);
  std::vector<Option> options(command->options.begin(), command->options.end());
  options.insert(options.end(), kHelpOption.begin(), kHelpOption.end());
  const absl::StatusOr<Arguments> arguments = Arguments::Parse(words, options);
  if (!arguments.ok()) {
    return Fail(fmt::format("{}: {}; see numafit {} --help", command->name,
                            std::string(arguments.status().message()), command->name));
  }
  if (arguments->Has("help")) {
    std::fputs(CommandHelp(*command, options).c_str(), stdout);
    return kYes;
  }
  const std::vector<std::string>& positional = arguments->positional();
  const std::size_t expected = command->argument.empty() ? 0 : 1;
  if (positional.size() < expected) {
    return Fail(fmt::format("{} needs {}; see numafit {} --help", command->name, command->argument,
                            command->name));
  }
  if (positional.size() > expected) {
    return Fail(fmt::format("{}: unexpected argument \"{}\"; see numafit {} --help", command->name,
                            positional[expected], command->name));
  }
  return command->run(*arguments);
}

}  // namespace
}  // namespace numafit::cli

int main(int argc, char** argv) {
  return numafit::cli::Main(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}
