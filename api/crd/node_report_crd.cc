#include "api/crd/node_report_crd.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/crd/report_descriptors.h"
#include "api/node_report_bounds.h"

namespace numafit::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using json = nlohmann::ordered_json;

json MessageSchema(const Descriptor& message);

// The schema of one value: of the field, of an element of a list, of the value of a map.
json ValueSchema(const FieldDescriptor& field, const FieldBounds& bounds) {
  json schema;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      schema["type"] = "string";
      if (bounds.form == TextForm::kTime) {
        schema["format"] = "date-time";
      } else {
        schema["maxLength"] = bounds.max_length;
      }
      if (const std::string_view pattern = PatternOf(bounds.form); !pattern.empty()) {
        schema["pattern"] = pattern;
      }
      return schema;
    case FieldDescriptor::CPPTYPE_INT32:
      return {{"type", "integer"},
              {"format", "int32"},
              {"minimum", bounds.minimum},
              {"maximum", bounds.maximum}};
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", "boolean"}};
    default:
      return MessageSchema(*field.message_type());
  }
}

json FieldSchema(const FieldDescriptor& field) {
  const FieldBounds bounds = BoundsOf(field.containing_type()->name(), field.name());
  json schema;
  if (const std::string text = CommentOf(field); !text.empty()) schema["description"] = text;
  if (field.is_map()) {
    schema["type"] = "object";
    schema["maxProperties"] = bounds.max_items;
    schema["additionalProperties"] = ValueSchema(*field.message_type()->map_value(), bounds);
    return schema;
  }
  if (field.is_repeated()) {
    schema["type"] = "array";
    schema["maxItems"] = bounds.max_items;
    schema["items"] = ValueSchema(field, bounds);
    return schema;
  }
  json value = ValueSchema(field, bounds);
  // The field's own comment before that of its message.
  if (schema.contains("description")) value.erase("description");
  schema.update(value);
  return schema;
}

json MessageSchema(const Descriptor& message) {
  json schema;
  if (const std::string text = CommentOf(message); !text.empty()) schema["description"] = text;
  schema["type"] = "object";
  json properties = json::object();
  for (int i = 0; i < message.field_count(); ++i) {
    properties[message.field(i)->json_name()] = FieldSchema(*message.field(i));
  }
  schema["properties"] = std::move(properties);
  return schema;
}

json Column(const char* name, const char* type, const char* path, const char* description,
            int priority = 0) {
  json column = {{"name", name}, {"type", type}, {"jsonPath", path}, {"description", description}};
  if (priority != 0) column["priority"] = priority;
  return column;
}

// What `kubectl get nodereports` shows beside the name, which is the node's.
json Columns() {
  return {
      Column("Policy", "string", ".status.kubelet.topologyManagerPolicy",
             "The kubelet's topology manager policy."),
      Column("Scope", "string", ".status.kubelet.topologyManagerScope",
             "The kubelet's topology manager scope."),
      Column("Accelerators", "string", ".status.summary.accelerators",
             "Free and all accelerators."),
      Column("Endpoints", "string", ".status.summary.endpoints", "Free and all RDMA endpoints."),
      Column("Misaligned", "integer", ".status.summary.misalignedContainers",
             "Containers whose accelerators and endpoints lie on different NUMA nodes.", 1),
      Column("Kubelet", "string", ".status.kubelet.version", "The kubelet's version.", 1),
      Column("Changed", "date", ".status.observedTime", "When the report last changed."),
      Column("Age", "date", ".metadata.creationTimestamp", "When the node was first reported."),
  };
}

json Definition(const Descriptor& status) {
  json schema = {
      {"description",
       "What numafit-agent sees of one node, whose name it has: NUMA nodes, devices and who holds "
       "them, and the kubelet's configuration. Written by the agent alone."},
      {"type", "object"},
      {"required", {"status"}},
      {"properties",
       {{"apiVersion", {{"type", "string"}}},
        {"kind", {{"type", "string"}}},
        {"metadata", {{"type", "object"}}},
        {"status", MessageSchema(status)}}}};
  const json version = {{"name", "v1alpha1"},
                        {"served", true},
                        {"storage", true},
                        {"additionalPrinterColumns", Columns()},
                        {"schema", {{"openAPIV3Schema", std::move(schema)}}}};
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", "nodereports.numafit.io"}}},
          {"spec",
           {{"group", "numafit.io"},
            {"scope", "Cluster"},
            {"names",
             {{"plural", "nodereports"},
              {"singular", "nodereport"},
              {"kind", "NodeReport"},
              {"listKind", "NodeReportList"}}},
            {"versions", json::array({version})}}}};
}

// YAML. Of its many forms only: block mappings and lists, plain words, quoted text, folded text.

bool IsPlain(std::string_view text) {
  if (text.empty() || text == "true" || text == "false" || text == "null" || text == "y" ||
      text == "n" || text == "yes" || text == "no" || text == "on" || text == "off") {
    return false;
  }
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!is_letter(text.front()) && text.front() != '.') return false;
  for (const char c : text) {
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '.' && c != '/' && c != '-') return false;
  }
  return text != ".";
}

// Folded lines of a text that has single blanks only.
std::string Fold(std::string_view text, const std::string& indent) {
  constexpr std::size_t kWidth = 100;
  std::string folded = ">-";
  std::size_t column = kWidth;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column + 1 + end > kWidth) {
      folded += "\n" + indent;
      column = indent.size();
    } else {
      folded += ' ';
      ++column;
    }
    folded += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return folded;
}

// `value` after "key:" or "-", its further lines behind `indent`.
std::string Yaml(const json& value, const std::string& indent, bool in_list) {
  if (value.is_object() && !value.empty()) {
    std::string text;
    for (const auto& [key, item] : value.items()) {
      text += in_list && text.empty() ? " " : "\n" + indent;
      const bool folds = key == "description" && item.is_string();
      text += key + ":" +
              (folds ? " " + Fold(item.get<std::string>(), indent + "  ")
                     : Yaml(item, item.is_array() ? indent : indent + "  ", false));
    }
    return text;
  }
  if (value.is_array() && !value.empty()) {
    std::string text;
    for (const json& item : value) text += "\n" + indent + "-" + Yaml(item, indent + "  ", true);
    return text;
  }
  if (value.is_string() && IsPlain(value.get<std::string>())) {
    return " " + value.get<std::string>();
  }
  return " " + value.dump();
}

}  // namespace

absl::StatusOr<std::string> NodeReportCrd(std::string_view descriptors) {
  const absl::StatusOr<ReportDescriptors> parsed = ReportDescriptors::Parse(descriptors);
  if (!parsed.ok()) return parsed.status();
  return "# Generated by hack/generate.sh from api/node_report.proto. Do not edit." +
         Yaml(Definition(parsed->status()), "", false) + "\n";
}

}  // namespace numafit::api
