// Strict reading of a JSON object: unknown keys, missing keys and wrong types are errors that name
// the place. Throws CaseError; ParseCase catches it. For .cc files of this folder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace numafit::cli {

struct CaseError {
  std::string message;
  bool unimplemented = false;
};

[[noreturn]] void Fail(const std::string& where, const std::string& what);

// A value and the path to it.
class Node {
 public:
  Node(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return value_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Fails unless this is an object with none but these keys.
  void CheckKeys(std::initializer_list<std::string_view> known) const;
  // Whether the key is there and not null.
  [[nodiscard]] bool Has(const char* key) const;
  [[nodiscard]] Node At(const char* key) const;

  [[nodiscard]] std::string String() const;
  [[nodiscard]] bool Bool() const;
  [[nodiscard]] std::int64_t Integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] std::uint64_t Unsigned() const;
  [[nodiscard]] std::vector<Node> Items() const;                            // of an array
  [[nodiscard]] std::vector<std::pair<std::string, Node>> Members() const;  // of an object
  [[nodiscard]] std::vector<std::string> Strings() const;                   // null is empty

 private:
  const nlohmann::json& value_;
  std::string path_;
};

}  // namespace numafit::cli
