#include "api/tree_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "api/quantity.h"

namespace numafit::api {
namespace {

bool ParseInt(std::string_view text, std::int64_t& value) {
  const char* end = text.data() + text.size();
  const auto [p, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && p == end && !text.empty();
}

}  // namespace

TreeReader TreeReader::operator[](std::string_view key) const {
  TreeReader child;
  child.file_ = file_;
  child.status_ = status_;
  child.line_ = line_;
  child.path_ = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  if (tree_ != nullptr && tree_->kind == YamlTree::Kind::kMap) child.tree_ = tree_->Find(key);
  if (child.tree_ != nullptr) child.line_ = child.tree_->line;
  return child;
}

TreeReader TreeReader::Item(std::size_t index) const {
  TreeReader child;
  child.file_ = file_;
  child.status_ = status_;
  child.tree_ = &tree_->items[index];
  child.line_ = child.tree_->line;
  child.path_ = fmt::format("{}[{}]", path_, index);
  return child;
}

void TreeReader::Fail(std::string_view message) const {
  if (!status_->ok()) return;
  const std::string place = line_ > 0 ? fmt::format("{}:{}", *file_, line_) : *file_;
  *status_ =
      absl::InvalidArgumentError(path_.empty() ? fmt::format("{}: {}", place, message)
                                               : fmt::format("{}: {}: {}", place, path_, message));
}

bool TreeReader::Expect(YamlTree::Kind kind) const {
  if (IsNull()) return false;
  if (tree_->kind == kind) return true;
  const std::string shown =
      tree_->kind == YamlTree::Kind::kScalar ? fmt::format(" \"{}\"", tree_->scalar) : "";
  Fail(fmt::format("is {}{}, expected {}", KindName(tree_->kind), shown, KindName(kind)));
  return false;
}

void TreeReader::AllowOnly(std::initializer_list<std::string_view> keys) const {
  if (!Expect(YamlTree::Kind::kMap)) return;
  for (const auto& [key, value] : tree_->fields) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      (*this)[key].Fail(fmt::format("unknown key, expected one of {}", fmt::join(keys, ", ")));
      return;
    }
  }
}

bool TreeReader::Require() const {
  if (IsNull()) Fail("is missing");
  return !IsNull();
}

std::string TreeReader::Text(std::string_view fallback) const {
  if (!Expect(YamlTree::Kind::kScalar)) return std::string(fallback);
  return tree_->scalar;
}

bool TreeReader::Bool(bool fallback) const {
  if (!Expect(YamlTree::Kind::kScalar)) return fallback;
  if (tree_->scalar == "true") return true;
  if (tree_->scalar == "false") return false;
  Fail(fmt::format("is \"{}\", expected true or false", tree_->scalar));
  return fallback;
}

std::int64_t TreeReader::Int(std::int64_t min, std::int64_t max, std::int64_t fallback) const {
  if (!Expect(YamlTree::Kind::kScalar)) return fallback;
  std::int64_t value = 0;
  if (ParseInt(tree_->scalar, value) && value >= min && value <= max) return value;
  Fail(fmt::format("is \"{}\", expected a whole number from {} to {}", tree_->scalar, min, max));
  return fallback;
}

std::int64_t TreeReader::Units(std::int64_t fallback) const {
  if (!Expect(YamlTree::Kind::kScalar)) return fallback;
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(tree_->scalar);
  if (quantity.ok() && quantity->milli() > 0) return quantity->value();
  Fail(fmt::format("is \"{}\", expected an amount like 512Gi", tree_->scalar));
  return fallback;
}

std::vector<int> TreeReader::Ints(int min, int max) const {
  std::vector<int> values;
  const auto read = [&](const TreeReader& item) {
    values.push_back(static_cast<int>(item.Int(min, max, min)));
  };
  if (!IsNull() && !IsList()) {
    read(*this);
  } else {
    ForEach(read);
  }
  return values;
}

std::vector<std::string> TreeReader::Texts() const {
  std::vector<std::string> values;
  ForEach([&](const TreeReader& item) { values.push_back(item.Text()); });
  return values;
}

StringMap TreeReader::TextMap() const {
  StringMap map;
  ForEachField([&](const std::string& key, const TreeReader& value) { map[key] = value.Text(); });
  return map;
}

}  // namespace numafit::api
