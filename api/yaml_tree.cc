#include "api/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"

namespace numafit::api {
namespace {

constexpr int kMaxDepth = 100;
// A fleet of tens of thousands of nodes stays far below; an alias bomb does not.
constexpr int kMaxNodes = 2'000'000;

class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  absl::StatusOr<YamlTree> Convert(const YAML::Node& document) {
    YamlTree tree;
    if (absl::Status status = Fill(document, 0, tree); !status.ok()) return status;
    return tree;
  }

 private:
  absl::Status Error(int line, const std::string& message) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file_, line, message));
  }

  absl::Status Fill(const YAML::Node& node, int depth, YamlTree& tree) {
    tree.line = node.Mark().line + 1;
    if (depth > kMaxDepth) {
      return Error(tree.line, fmt::format("nested more than {} levels deep", kMaxDepth));
    }
    if (++nodes_ > kMaxNodes) {
      return Error(tree.line, fmt::format("more than {} values, aliases counted", kMaxNodes));
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        tree.kind = YamlTree::Kind::kScalar;
        tree.scalar = node.Scalar();
        tree.quoted = node.Tag() == "!";
        return absl::OkStatus();
      case YAML::NodeType::Sequence:
        tree.kind = YamlTree::Kind::kSequence;
        tree.items.resize(node.size());
        for (std::size_t i = 0; i < tree.items.size(); ++i) {
          if (auto status = Fill(node[i], depth + 1, tree.items[i]); !status.ok()) return status;
        }
        return absl::OkStatus();
      case YAML::NodeType::Map:
        tree.kind = YamlTree::Kind::kMap;
        return FillMap(node, depth, tree);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status FillMap(const YAML::Node& node, int depth, YamlTree& tree) {
    std::set<std::string> seen;
    tree.fields.reserve(node.size());
    for (const auto& field : node) {
      const int line = field.first.Mark().line + 1;
      if (!field.first.IsScalar()) return Error(line, "a key is not plain text");
      const std::string& key = field.first.Scalar();
      if (!seen.insert(key).second)
        return Error(line, fmt::format("key \"{}\" is given twice", key));
      auto& entry = tree.fields.emplace_back(YamlTree::Field{key, YamlTree{}});
      if (auto status = Fill(field.second, depth + 1, entry.second); !status.ok()) return status;
      // An empty value has no place of its own.
      if (entry.second.kind == YamlTree::Kind::kNull) entry.second.line = line;
    }
    return absl::OkStatus();
  }

  const std::string& file_;
  int nodes_ = 0;
};

YamlTree FromJson(const nlohmann::json& value) {
  YamlTree tree;
  if (value.is_object()) {
    tree.kind = YamlTree::Kind::kMap;
    for (const auto& [key, member] : value.items())
      tree.fields.push_back(YamlTree::Field{key, FromJson(member)});
  } else if (value.is_array()) {
    tree.kind = YamlTree::Kind::kSequence;
    for (const nlohmann::json& item : value) tree.items.push_back(FromJson(item));
  } else if (!value.is_null()) {
    tree.kind = YamlTree::Kind::kScalar;
    tree.quoted = value.is_string();
    tree.scalar = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return tree;
}

bool NestsTooDeep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return true;
  }
  return false;
}

nlohmann::json ScalarToJson(const YamlTree& tree) {
  const std::string& text = tree.scalar;
  if (tree.quoted) return text;
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (auto [p, e] = std::from_chars(text.data(), end, integer); e == std::errc{} && p == end) {
    return integer;
  }
  double number = 0;
  if (auto [p, e] = std::from_chars(text.data(), end, number); e == std::errc{} && p == end) {
    return number;
  }
  return text;
}

}  // namespace

const YamlTree* YamlTree::Find(std::string_view key) const {
  for (const auto& [name, value] : fields) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string_view KindName(YamlTree::Kind kind) {
  switch (kind) {
    case YamlTree::Kind::kNull:
      return "nothing";
    case YamlTree::Kind::kScalar:
      return "text";
    case YamlTree::Kind::kSequence:
      return "a list";
    case YamlTree::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

absl::StatusOr<std::vector<YamlTree>> ParseYaml(std::string_view text, const std::string& file) {
  std::vector<YamlTree> documents;
  absl::Status failure;
  try {
    Converter converter(file);
    for (const YAML::Node& document : YAML::LoadAll(std::string(text))) {
      absl::StatusOr<YamlTree> tree = converter.Convert(document);
      if (!tree.ok()) return tree.status();
      documents.push_back(*std::move(tree));
    }
    return documents;
  } catch (const YAML::Exception& error) {
    failure =
        absl::InvalidArgumentError(fmt::format("{}:{}: {}", file, error.mark.line + 1, error.msg));
  }
  // JSON that is not YAML: tabs, surrogate pairs.
  if (const std::size_t first = text.find_first_not_of(" \t\r\n");
      first != std::string_view::npos && text[first] == '{' && !NestsTooDeep(text)) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_discarded()) return std::vector<YamlTree>{FromJson(json)};
  }
  return failure;
}

nlohmann::json YamlToJson(const YamlTree& tree) {
  switch (tree.kind) {
    case YamlTree::Kind::kNull:
      return nullptr;
    case YamlTree::Kind::kScalar:
      return ScalarToJson(tree);
    case YamlTree::Kind::kSequence: {
      nlohmann::json list = nlohmann::json::array();
      for (const YamlTree& item : tree.items) list.push_back(YamlToJson(item));
      return list;
    }
    case YamlTree::Kind::kMap: {
      nlohmann::json map = nlohmann::json::object();
      for (const auto& [key, value] : tree.fields) map[key] = YamlToJson(value);
      return map;
    }
  }
  return nullptr;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    const std::string message = fmt::format("{}: {}", path, std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.bad() || !file.good()) {
    // An empty file sets failbit on the target only; a directory cannot be read at all.
    if (file.bad() || file.peek() != std::ifstream::traits_type::eof()) {
      return absl::InvalidArgumentError(fmt::format("{}: cannot be read", path));
    }
  }
  return std::move(text).str();
}

}  // namespace numafit::api
