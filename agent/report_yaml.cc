#include "agent/report_yaml.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace numafit::agent {
namespace {

using Json = nlohmann::ordered_json;

// Plain only where no reader could take it for a number, a boolean or null.
bool IsPlain(const std::string& text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "null", "yes", "no",
                                                      "on",   "off",   "y",    "n"};
  if (text.empty() || text.size() > 120) return false;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!is_letter(text.front())) return false;
  for (const char c : text) {
    const bool fine =
        is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '/' || c == '_';
    if (!fine) return false;
  }
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlain(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsFlat(const Json& value) {
  return !value.is_structured() || value.empty() ||
         (value.is_array() && std::none_of(value.begin(), value.end(),
                                           [](const Json& item) { return item.is_structured(); }));
}

std::string Flat(const Json& value) {
  if (!value.is_array()) return Scalar(value);
  std::string text = "[";
  for (const Json& item : value) text += (text.size() > 1 ? ", " : "") + Scalar(item);
  return text + "]";
}

void Write(const Json& value, std::size_t indent, std::string* out);

// `first` is what stands before the first line instead of the indentation ("- " of a list).
void WriteMap(const Json& map, std::size_t indent, std::string first, std::string* out) {
  for (const auto& [key, value] : map.items()) {
    *out += first.empty() ? std::string(indent, ' ') : first;
    first.clear();
    *out += Scalar(Json(key)) + ":";
    if (IsFlat(value)) {
      *out += " " + Flat(value) + "\n";
    } else {
      *out += "\n";
      Write(value, value.is_array() ? indent : indent + 2, out);
    }
  }
}

void Write(const Json& value, std::size_t indent, std::string* out) {
  if (value.is_object()) {
    WriteMap(value, indent, "", out);
    return;
  }
  for (const Json& item : value) {
    const std::string dash = std::string(indent, ' ') + "- ";
    if (item.is_object() && !item.empty()) {
      WriteMap(item, indent + 2, dash, out);
    } else {
      *out += dash + Flat(item) + "\n";
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReportYaml(const std::string& node,
                                       const v1alpha1::NodeReportStatus& status) {
  std::string text;
  const auto result = google::protobuf::util::MessageToJsonString(status, &text);
  if (!result.ok()) return absl::InternalError(result.ToString());
  Json object;
  object["apiVersion"] = "numafit.io/v1alpha1";
  object["kind"] = "NodeReport";
  object["metadata"]["name"] = node;
  object["status"] = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object["status"].is_object()) return absl::InternalError("protobuf wrote no JSON object");
  std::string yaml;
  Write(object, 0, &yaml);
  return yaml;
}

}  // namespace numafit::agent
