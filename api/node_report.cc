#include "api/node_report.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "api/json_reader.h"
#include "api/node_report.pb.h"
#include "api/pod_json.h"

namespace numafit::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

// The first thing that was wrong; its path is gathered on the way out, so that a good report costs
// no paths.
struct Failure {
  std::vector<std::string> steps;  // innermost first
  std::string message;

  bool Expected(std::string_view what, const json& value) {
    message = fmt::format("expected {}, got {}", what,
                          value.is_number() ? value.dump() : value.type_name());
    return false;
  }
  bool Within(std::string step) {
    steps.push_back(std::move(step));
    return false;
  }
  [[nodiscard]] absl::Status ToStatus() const {
    std::string path;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) path += *step;
    return absl::InvalidArgumentError(fmt::format("status{}: {}", path, message));
  }
};

bool ReadMessage(const json& value, Message& message, Failure& failure);

bool ReadInt(const json& value, std::int32_t& number, Failure& failure) {
  if (!value.is_number_integer()) return failure.Expected("an integer", value);
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max()
                        : value.get<std::int64_t>() >= std::numeric_limits<std::int32_t>::min() &&
                              value.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
  if (!fits) {
    failure.message = fmt::format("{} does not fit in 32 bits", value.dump());
    return false;
  }
  number = value.get<std::int32_t>();
  return true;
}

// Sets a field that is one value, or adds to one that is a list.
bool ReadValue(const json& value, Message& message, const FieldDescriptor& field,
               Failure& failure) {
  const Reflection& reflection = *message.GetReflection();
  const bool list = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      if (!value.is_string()) return failure.Expected("a string", value);
      const auto& text = value.get_ref<const std::string&>();
      list ? reflection.AddString(&message, &field, text)
           : reflection.SetString(&message, &field, text);
      return true;
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      std::int32_t number = 0;
      if (!ReadInt(value, number, failure)) return false;
      list ? reflection.AddInt32(&message, &field, number)
           : reflection.SetInt32(&message, &field, number);
      return true;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!value.is_boolean()) return failure.Expected("true or false", value);
      list ? reflection.AddBool(&message, &field, value.get<bool>())
           : reflection.SetBool(&message, &field, value.get<bool>());
      return true;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadMessage(value,
                         list ? *reflection.AddMessage(&message, &field)
                              : *reflection.MutableMessage(&message, &field),
                         failure);
    default:  // node_report.proto has no other type; a test reads every field of it
      failure.message = "a type that this version cannot read";
      return false;
  }
}

bool ReadMap(const json& value, Message& message, const FieldDescriptor& field, Failure& failure) {
  if (!value.is_object()) return failure.Expected("an object", value);
  const Descriptor& entry_type = *field.message_type();
  for (const auto& [key, item] : value.items()) {
    if (item.is_null()) continue;
    Message& entry = *message.GetReflection()->AddMessage(&message, &field);
    entry.GetReflection()->SetString(&entry, entry_type.map_key(), key);
    if (!ReadValue(item, entry, *entry_type.map_value(), failure)) {
      return failure.Within(fmt::format(".{}", key));
    }
  }
  return true;
}

bool ReadField(const json& value, Message& message, const FieldDescriptor& field,
               Failure& failure) {
  if (field.is_map()) return ReadMap(value, message, field, failure);
  if (!field.is_repeated()) return ReadValue(value, message, field, failure);
  if (!value.is_array()) return failure.Expected("a list", value);
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!ReadValue(value[i], message, field, failure)) {
      return failure.Within(fmt::format("[{}]", i));
    }
  }
  return true;
}

bool ReadMessage(const json& value, Message& message, Failure& failure) {
  if (!value.is_object()) return failure.Expected("an object", value);
  const Descriptor& type = *message.GetDescriptor();
  for (const auto& [key, item] : value.items()) {
    const FieldDescriptor* field = type.FindFieldByCamelcaseName(key);
    if (field == nullptr) field = type.FindFieldByName(key);
    if (field == nullptr || item.is_null()) continue;
    if (!ReadField(item, message, *field, failure)) return failure.Within("." + key);
  }
  return true;
}

absl::StatusOr<std::shared_ptr<const v1alpha1::NodeReportStatus>> ReadStatus(const json& object) {
  const auto found = object.find("status");
  if (found == object.end() || found->is_null()) {
    return absl::InvalidArgumentError("status: missing");
  }
  auto status = std::make_shared<v1alpha1::NodeReportStatus>();
  if (Failure failure; !ReadMessage(*found, *status, failure)) return failure.ToStatus();
  return status;
}

absl::StatusOr<ObjectMeta> ReadHead(const json& object) {
  absl::Status status;
  const JsonReader reader(object, status);
  const auto check = [&](const char* key, std::string_view wanted) {
    const std::string got = reader[key].String();
    if (!got.empty() && got != wanted) {
      reader[key].Fail(fmt::format("expected \"{}\", got \"{:.60}\"", wanted, got));
    }
  };
  check("apiVersion", kNodeReportApiVersion);
  check("kind", kNodeReportKind);
  if (!status.ok()) return status;
  return ObjectMetaFromJsonValue(object);
}

// An older agent does not say where it is.
absl::Status CheckName(const std::string& name, const v1alpha1::NodeReportStatus& status) {
  if (status.node_name().empty() || status.node_name() == name) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "status.nodeName: \"{:.253}\" in the report of node \"{}\"", status.node_name(), name));
}

// Writing.

json WriteMessage(const Message& message);

json WriteValue(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool list = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return list ? reflection.GetRepeatedString(message, &field, index)
                  : reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_INT32:
      return list ? reflection.GetRepeatedInt32(message, &field, index)
                  : reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return list ? reflection.GetRepeatedBool(message, &field, index)
                  : reflection.GetBool(message, &field);
    default:
      return WriteMessage(list ? reflection.GetRepeatedMessage(message, &field, index)
                               : reflection.GetMessage(message, &field));
  }
}

json WriteField(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) return WriteValue(message, field, -1);
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (field.is_map()) {
    json object = json::object();
    for (int i = 0; i < size; ++i) {
      const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
      const Descriptor& type = *entry.GetDescriptor();
      object[entry.GetReflection()->GetString(entry, type.map_key())] =
          WriteValue(entry, *type.map_value(), -1);
    }
    return object;
  }
  json list = json::array();
  for (int i = 0; i < size; ++i) list.push_back(WriteValue(message, field, i));
  return list;
}

json WriteMessage(const Message& message) {
  json object = json::object();
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    object[field->json_name()] = WriteField(message, *field);
  }
  return object;
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<NodeReport> NodeReportFromJson(std::string_view text) {
  if (text.size() > kMaxNodeReportBytes) {
    return absl::InvalidArgumentError(
        fmt::format("NodeReport: {} bytes, more than {}", text.size(), kMaxNodeReportBytes));
  }
  const absl::StatusOr<json> value = ParseJson(text, kNodeReportKind);
  if (!value.ok()) return value.status();
  return NodeReportFromJsonValue(*value);
}

absl::StatusOr<NodeReport> NodeReportFromJsonValue(const json& value) {
  absl::StatusOr<ObjectMeta> metadata = ReadHead(value);
  if (!metadata.ok()) return metadata.status();
  if (!value.is_object()) return absl::InvalidArgumentError("status: missing");
  auto status = ReadStatus(value);
  if (!status.ok()) return status.status();
  return NodeReport{.metadata = *std::move(metadata), .status = *std::move(status), .problem = {}};
}

absl::StatusOr<NodeReport> ReadNodeReport(const json& value) {
  absl::StatusOr<ObjectMeta> metadata = ReadHead(value);
  if (!metadata.ok()) return metadata.status();
  if (!value.is_object()) return absl::InvalidArgumentError("NodeReport: expected an object");
  NodeReport report{.metadata = *std::move(metadata), .status = nullptr, .problem = {}};
  auto status = ReadStatus(value);
  report.problem = status.ok() ? CheckNodeReport(**status) : status.status();
  if (report.problem.ok()) report.problem = CheckName(report.metadata.name, **status);
  if (report.problem.ok()) report.status = *std::move(status);
  return report;
}

std::string NodeReportToJson(const NodeReport& report) {
  return Dump(
      {{"apiVersion", kNodeReportApiVersion},
       {"kind", kNodeReportKind},
       {"metadata", ObjectMetaToJsonValue(report.metadata)},
       {"status", report.status == nullptr ? json::object() : WriteMessage(*report.status)}});
}

std::string NodeReportStatusToJson(const v1alpha1::NodeReportStatus& status) {
  return Dump(WriteMessage(status));
}

}  // namespace numafit::api
