// YAML text as a plain tree with line numbers. The one place that calls yaml-cpp: its exceptions
// end here, and its headers stay out of everybody else's.
//
// JSON is read by the same function (it is YAML, but for tabs and a few escapes).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace numafit::api {

struct YamlTree {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  // kScalar: the text, and whether it was quoted (then it is a string, whatever it looks like).
  std::string scalar;
  bool quoted = false;
  int line = 0;                 // counted from 1; 0 when the source has no lines
  std::vector<YamlTree> items;  // kSequence
  // Not a std::pair: clang wants its parts complete here.
  struct Field;
  std::vector<Field> fields;  // kMap, in file order, keys unique

  // Null when absent.
  [[nodiscard]] const YamlTree* Find(std::string_view key) const;
};

struct YamlTree::Field {
  std::string first;
  YamlTree second;
};

// "a map", "a list", "text", "nothing": for messages.
[[nodiscard]] std::string_view KindName(YamlTree::Kind kind);

// Every document of the text. InvalidArgument reads "FILE:LINE: what is wrong"; aliases that blow
// the text up, keys given twice and nesting past 100 levels are errors.
absl::StatusOr<std::vector<YamlTree>> ParseYaml(std::string_view text, const std::string& file);

// The tree as JSON, with YAML's own reading of plain scalars (true, 12, 1.5, null).
nlohmann::json YamlToJson(const YamlTree& tree);

// The whole file. NotFound or the reason why it cannot be read, with the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace numafit::api
