#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"

namespace numafit::cli {
namespace {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

const Option* FindLong(std::span<const Option> options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

const Option* FindShort(std::span<const Option> options, char letter) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& option) { return option.letter == letter; });
  return found == options.end() ? nullptr : &*found;
}

absl::Status UnknownOption(std::string_view word, std::span<const Option> options) {
  std::vector<std::string_view> names;
  for (const Option& option : options) names.push_back(option.name);
  const std::string nearest =
      Nearest(word.substr(std::min(word.size(), word.find_first_not_of('-'))), names);
  return absl::InvalidArgumentError(
      nearest.empty() ? fmt::format("unknown option {}", word)
                      : fmt::format("unknown option {}, did you mean --{}?", word, nearest));
}

}  // namespace

absl::StatusOr<Arguments> Arguments::Parse(std::span<const std::string> words,
                                           std::span<const Option> options) {
  Arguments arguments;
  bool only_positional = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (only_positional || word.size() < 2 || word[0] != '-') {
      arguments.positional_.push_back(word);
      continue;
    }
    if (word == "--") {
      only_positional = true;
      continue;
    }
    const bool is_long = word[1] == '-';
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    const Option* option =
        is_long
            ? FindLong(options, word.substr(2, equals == std::string::npos ? equals : equals - 2))
            : FindShort(options, word[1]);
    if (option == nullptr) return UnknownOption(word.substr(0, equals), options);
    std::string value;
    const bool attached = is_long ? equals != std::string::npos : word.size() > 2;
    if (option->value_name.empty()) {
      if (attached) {
        return absl::InvalidArgumentError(fmt::format("--{} takes no value", option->name));
      }
    } else if (attached) {
      value = is_long ? word.substr(equals + 1) : word.substr(2);
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      return absl::InvalidArgumentError(
          fmt::format("--{} needs a value: {}", option->name, option->value_name));
    }
    if (!arguments.values_.emplace(std::string(option->name), std::move(value)).second) {
      return absl::InvalidArgumentError(fmt::format("--{} is given twice", option->name));
    }
  }
  return arguments;
}

std::string Arguments::Value(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

std::string OptionsHelp(std::span<const Option> options) {
  std::vector<std::string> left;
  std::size_t width = 0;
  for (const Option& option : options) {
    std::string text = option.letter != 0 ? fmt::format("-{}, ", option.letter) : "    ";
    text += fmt::format("--{}", option.name);
    if (!option.value_name.empty()) text += fmt::format(" {}", option.value_name);
    width = std::max(width, text.size());
    left.push_back(std::move(text));
  }
  std::string help;
  for (std::size_t i = 0; i < left.size(); ++i) {
    help += fmt::format("  {:<{}}  {}\n", left[i], width, options[i].help);
  }
  return help;
}

std::string Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string nearest;
  std::size_t best = 3;
  for (const std::string_view candidate : candidates) {
    if (const std::size_t distance = EditDistance(word, candidate); distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace numafit::cli
