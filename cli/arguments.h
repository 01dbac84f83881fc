// The arguments of one command: a small table of options, and what was given.
//
// "--name value", "--name=value", "-n value" and switches without a value; "--" ends options; "-"
// is a positional argument (standard input).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numafit::cli {

struct Option {
  std::string_view name;        // without dashes
  char letter = 0;              // 0: none
  std::string_view value_name;  // empty: a switch
  std::string_view help;
};

class Arguments {
 public:
  // InvalidArgument names an option that is unknown (and the nearest known one), given twice, or
  // lacks its value.
  static absl::StatusOr<Arguments> Parse(std::span<const std::string> words,
                                         std::span<const Option> options);

  [[nodiscard]] bool Has(std::string_view name) const { return values_.count(name) != 0; }
  // Empty when not given.
  [[nodiscard]] std::string Value(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> positional_;
};

// The options as lines of a --help text.
[[nodiscard]] std::string OptionsHelp(std::span<const Option> options);

// The candidate that differs from `word` in at most two letters, or empty.
[[nodiscard]] std::string Nearest(std::string_view word,
                                  std::span<const std::string_view> candidates);

}  // namespace numafit::cli
