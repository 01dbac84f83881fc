#include "cli/admit/json_checks.h"

#include <algorithm>

namespace numafit::cli {

void Fail(const std::string& where, const std::string& what) {
  throw CaseError{where.empty() ? what : where + ": " + what};
}

void Node::CheckKeys(std::initializer_list<std::string_view> known) const {
  if (!value_.is_object()) Fail(path_, "an object is wanted");
  for (const auto& [key, unused] : value_.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      Fail(path_, "unknown key \"" + key + "\"");
    }
  }
}

bool Node::Has(const char* key) const {
  const auto at = value_.find(key);
  return at != value_.end() && !at->is_null();
}

Node Node::At(const char* key) const {
  const auto at = value_.find(key);
  if (at == value_.end()) Fail(path_, std::string("key \"") + key + "\" is missing");
  return {*at, path_.empty() ? key : path_ + "." + key};
}

std::string Node::String() const {
  if (!value_.is_string()) Fail(path_, "a string is wanted");
  return value_.get<std::string>();
}

bool Node::Bool() const {
  if (!value_.is_boolean()) Fail(path_, "true or false is wanted");
  return value_.get<bool>();
}

std::int64_t Node::Integer(std::int64_t least, std::int64_t most) const {
  if (!value_.is_number_integer()) Fail(path_, "an integer is wanted");
  const bool too_large =
      value_.is_number_unsigned() && value_.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  const auto number = value_.get<std::int64_t>();
  if (too_large || number < least || number > most) {
    Fail(path_,
         value_.dump() + " is not in " + std::to_string(least) + ".." + std::to_string(most));
  }
  return number;
}

std::uint64_t Node::Unsigned() const {
  if (!value_.is_number_unsigned()) Fail(path_, "an integer of 0 or more is wanted");
  return value_.get<std::uint64_t>();
}

std::vector<Node> Node::Items() const {
  if (!value_.is_array()) Fail(path_, "a list is wanted");
  std::vector<Node> items;
  for (std::size_t i = 0; i < value_.size(); ++i) {
    items.emplace_back(value_[i], path_ + "[" + std::to_string(i) + "]");
  }
  return items;
}

std::vector<std::pair<std::string, Node>> Node::Members() const {
  if (!value_.is_object()) Fail(path_, "an object is wanted");
  std::vector<std::pair<std::string, Node>> members;
  for (const auto& [key, member] : value_.items()) {
    members.emplace_back(key, Node(member, path_ + "[\"" + key + "\"]"));
  }
  return members;
}

std::vector<std::string> Node::Strings() const {
  std::vector<std::string> strings;
  if (value_.is_null()) return strings;
  for (const Node& item : Items()) strings.push_back(item.String());
  return strings;
}

}  // namespace numafit::cli
