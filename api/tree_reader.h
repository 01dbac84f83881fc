// Typed fields out of a YamlTree, with errors that name file, line, path and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "api/objects.h"
#include "api/yaml_tree.h"

namespace numafit::api {

// A place in a document. Getters return the fallback for what is absent and record the first wrong
// type or value of the whole document in the shared status; so a reader is a straight list of
// fields with one check at its end. A plain view: tree, file name and status must outlive it.
class TreeReader {
 public:
  TreeReader(const YamlTree& tree, const std::string& file, absl::Status& status)
      : tree_(&tree), file_(&file), status_(&status), line_(tree.line) {}

  // A field of a map; of anything else an absent place.
  [[nodiscard]] TreeReader operator[](std::string_view key) const;
  // Records an error for the first key that is none of these, or when this is no map.
  void AllowOnly(std::initializer_list<std::string_view> keys) const;
  // Records an error when the place is absent or empty; false then.
  bool Require() const;

  // Absent and empty (null) alike.
  [[nodiscard]] bool IsNull() const {
    return tree_ == nullptr || tree_->kind == YamlTree::Kind::kNull;
  }
  [[nodiscard]] bool IsList() const {
    return tree_ != nullptr && tree_->kind == YamlTree::Kind::kSequence;
  }
  [[nodiscard]] bool IsPresent() const { return tree_ != nullptr; }
  [[nodiscard]] std::string Text(std::string_view fallback = {}) const;
  [[nodiscard]] bool Bool(bool fallback) const;
  [[nodiscard]] std::int64_t Int(std::int64_t min, std::int64_t max, std::int64_t fallback) const;
  // A Kubernetes quantity in whole units, 1..max.
  [[nodiscard]] std::int64_t Units(std::int64_t fallback) const;
  // A list, or one value in its place.
  [[nodiscard]] std::vector<int> Ints(int min, int max) const;
  [[nodiscard]] std::vector<std::string> Texts() const;
  // A map of text to text; numbers and booleans count as text.
  [[nodiscard]] StringMap TextMap() const;

  template <typename Visit>
  void ForEach(Visit visit) const {
    if (!Expect(YamlTree::Kind::kSequence)) return;
    for (std::size_t i = 0; i < tree_->items.size(); ++i) visit(Item(i));
  }
  // visit(const std::string& key, TreeReader value)
  template <typename Visit>
  void ForEachField(Visit visit) const {
    if (!Expect(YamlTree::Kind::kMap)) return;
    for (const auto& [key, value] : tree_->fields) visit(key, (*this)[key]);
  }

  // Records "FILE:LINE: PATH: message" unless an earlier error is recorded.
  void Fail(std::string_view message) const;
  [[nodiscard]] bool ok() const { return status_->ok(); }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const YamlTree* tree() const { return tree_; }

 private:
  TreeReader() = default;
  [[nodiscard]] TreeReader Item(std::size_t index) const;
  // False for absent; records an error for another kind.
  bool Expect(YamlTree::Kind kind) const;

  const YamlTree* tree_ = nullptr;
  const std::string* file_ = nullptr;
  absl::Status* status_ = nullptr;
  int line_ = 0;  // of the nearest place that exists
  std::string path_;
};

}  // namespace numafit::api
