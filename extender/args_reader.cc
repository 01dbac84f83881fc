#include "extender/args_reader.h"

#include <cctype>
#include <string>

#include "extender/http/parked_server.h"
#include "extender/json_error.h"
#include "extender/pod_reader.h"
#include "fmt/format.h"
#include "simdjson.h"

namespace numafit::extender {
namespace {

using simdjson::dom::element;

static_assert(http::kBodyPadding >= simdjson::SIMDJSON_PADDING);

bool Matches(std::string_view key, std::string_view lower) {
  if (key.size() != lower.size()) return false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(key[i])) != lower[i]) return false;
  }
  return true;
}

absl::Status Malformed(std::string_view body, simdjson::error_code error) {
  std::string message = DescribeJsonError(body);
  if (message.empty()) message = fmt::format("malformed JSON: {}", simdjson::error_message(error));
  return absl::InvalidArgumentError(message);
}

}  // namespace

struct ArgsReader::Parsers {
  simdjson::dom::parser document;
  simdjson::ondemand::parser nodes;
  element node_names;
  element node_list;
};

ArgsReader::ArgsReader() : parsers_(std::make_unique<Parsers>()) {}
ArgsReader::~ArgsReader() = default;

absl::Status ArgsReader::Read(std::string_view body, Args* args) {
  args->has_pod = false;
  args->form = Args::Form::kNone;
  args->names.clear();
  args->nodes.clear();

  element root;
  // No copy: the padding is there.
  const simdjson::error_code error =
      parsers_->document.parse(body.data(), body.size(), false).get(root);
  if (error != simdjson::SUCCESS) return Malformed(body, error);
  if (root.is_null()) return absl::OkStatus();
  simdjson::dom::object members;
  if (root.get(members) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("expected a JSON object with Pod and NodeNames or Nodes");
  }
  element pod;
  bool has_names = false;
  bool has_nodes = false;
  for (const auto field : members) {
    const bool given = !field.value.is_null();
    if (Matches(field.key, "pod")) {
      args->has_pod = given;
      pod = field.value;
    } else if (Matches(field.key, "nodenames")) {
      has_names = given;
      parsers_->node_names = field.value;
    } else if (Matches(field.key, "nodes")) {
      has_nodes = given;
      parsers_->node_list = field.value;
    }
  }
  if (args->has_pod) {
    if (absl::Status status = ReadPod(pod, &args->pod); !status.ok()) return status;
  }
  if (has_names) return ReadNames(args);
  if (has_nodes) return ReadNodes(body, args);
  return absl::OkStatus();
}

absl::Status ArgsReader::ReadNames(Args* args) {
  args->form = Args::Form::kNodeNames;
  simdjson::dom::array names;
  if (parsers_->node_names.get(names) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("NodeNames: expected an array");
  }
  for (const element item : names) {
    std::string_view name;
    if (item.get(name) != simdjson::SUCCESS) {
      return absl::InvalidArgumentError(
          fmt::format("NodeNames[{}]: expected a string", args->names.size()));
    }
    args->names.push_back(name);
  }
  return absl::OkStatus();
}

absl::Status ArgsReader::ReadNodes(std::string_view body, Args* args) {
  args->form = Args::Form::kNodes;
  element items;
  if (!parsers_->node_list.is_object()) {
    return absl::InvalidArgumentError("Nodes: expected a NodeList");
  }
  if (parsers_->node_list.at_key("items").get(items) != simdjson::SUCCESS || items.is_null()) {
    return absl::OkStatus();
  }
  simdjson::dom::array nodes;
  if (items.get(nodes) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("Nodes.items: expected an array");
  }
  for (const element node : nodes) {
    std::string_view name;
    if (node.at_key("metadata").at_key("name").get(name) != simdjson::SUCCESS) {
      return absl::InvalidArgumentError(
          fmt::format("Nodes.items[{}].metadata.name: expected a string", args->names.size()));
    }
    args->names.push_back(name);
  }
  // The document is valid JSON by now; the second pass only finds where each node's text lies.
  simdjson::ondemand::document document;
  const std::size_t readable = body.size() + http::kBodyPadding;
  if (parsers_->nodes.iterate(body.data(), body.size(), readable).get(document) !=
      simdjson::SUCCESS) {
    return absl::InternalError("the second pass over Nodes failed");
  }
  simdjson::ondemand::object members;
  if (document.get_object().get(members) != simdjson::SUCCESS) return absl::OkStatus();
  for (auto field : members) {
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS || !Matches(key, "nodes")) continue;
    args->nodes.clear();  // the last of equal keys wins
    simdjson::ondemand::array texts;
    if (field.value().find_field_unordered("items").get_array().get(texts) != simdjson::SUCCESS) {
      continue;
    }
    for (auto item : texts) {
      simdjson::ondemand::object node;
      std::string_view text;
      if (item.get_object().get(node) != simdjson::SUCCESS ||
          node.raw_json().get(text) != simdjson::SUCCESS) {
        return absl::InternalError("the second pass over Nodes failed");
      }
      args->nodes.push_back(text);
    }
  }
  if (args->nodes.size() != args->names.size()) {
    return absl::InternalError("the second pass over Nodes found another number of them");
  }
  return absl::OkStatus();
}

}  // namespace numafit::extender
