#include "api/pod_json.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "absl/time/time.h"
#include "api/json_reader.h"

namespace numafit::api {
namespace {

using nlohmann::json;

ResourceList ReadResourceList(const JsonReader& reader) {
  ResourceList list;
  reader.ForEachMember([&](const std::string& name, const JsonReader& value) {
    list.insert_or_assign(name, value.AsQuantity());
  });
  return list;
}

std::vector<std::string> ReadNames(const JsonReader& reader) {
  std::vector<std::string> names;
  reader.ForEach([&](const JsonReader& entry) { names.push_back(entry["name"].String()); });
  return names;
}

ResourceRequirements ReadRequirements(const JsonReader& reader) {
  return {.limits = ReadResourceList(reader["limits"]),
          .requests = ReadResourceList(reader["requests"]),
          .claims = ReadNames(reader["claims"])};
}

std::vector<OwnerReference> ReadOwners(const JsonReader& reader) {
  std::vector<OwnerReference> owners;
  reader.ForEach([&](const JsonReader& entry) {
    owners.push_back({.kind = entry["kind"].String(),
                      .name = entry["name"].String(),
                      .uid = entry["uid"].String(),
                      .controller = entry["controller"].Bool(),
                      .api_version = entry["apiVersion"].String()});
  });
  return owners;
}

ObjectMeta ReadMeta(const JsonReader& reader) {
  return {.name = reader["name"].String(),
          .namespace_ = reader["namespace"].String(),
          .uid = reader["uid"].String(),
          .resource_version = reader["resourceVersion"].String(),
          .labels = reader["labels"].AsStringMap(),
          .annotations = reader["annotations"].AsStringMap(),
          .creation_time = reader["creationTimestamp"].Seconds(),
          .deletion_time = reader["deletionTimestamp"].Seconds(),
          .owners = ReadOwners(reader["ownerReferences"])};
}

std::vector<Container> ReadContainers(const JsonReader& reader) {
  std::vector<Container> containers;
  containers.reserve(reader.Size());
  reader.ForEach([&](const JsonReader& entry) {
    containers.push_back({.name = entry["name"].String(),
                          .resources = ReadRequirements(entry["resources"]),
                          .restart_always = entry["restartPolicy"].String() == "Always"});
  });
  return containers;
}

PodStatus ReadPodStatus(const JsonReader& reader) {
  PodStatus status;
  status.phase = reader["phase"].String();
  status.reason = reader["reason"].String();
  status.message = reader["message"].String();
  status.qos_class = reader["qosClass"].String();
  status.nominated_node_name = reader["nominatedNodeName"].String();
  reader["conditions"].ForEach([&](const JsonReader& entry) {
    status.conditions.push_back({.type = entry["type"].String(),
                                 .status = entry["status"].String(),
                                 .reason = entry["reason"].String(),
                                 .message = entry["message"].String()});
  });
  status.container_statuses =
      static_cast<int>(reader["containerStatuses"].Size() + reader["initContainerStatuses"].Size());
  status.start_time = reader["startTime"].String();
  return status;
}

Pod ReadPod(const JsonReader& reader) {
  Pod pod;
  pod.metadata = ReadMeta(reader["metadata"]);
  const JsonReader spec = reader["spec"];
  pod.node_name = spec["nodeName"].String();
  pod.scheduler_name = spec["schedulerName"].String();
  pod.priority = static_cast<std::int32_t>(spec["priority"].Int(
      std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  pod.init_containers = ReadContainers(spec["initContainers"]);
  pod.containers = ReadContainers(spec["containers"]);
  if (const JsonReader resources = spec["resources"]; !resources.IsNull()) {
    pod.resources = ReadRequirements(resources);
  }
  pod.resource_claims = ReadNames(spec["resourceClaims"]);
  pod.scheduling_gates = ReadNames(spec["schedulingGates"]);
  pod.node_selector = spec["nodeSelector"].AsStringMap();
  pod.status = ReadPodStatus(reader["status"]);
  return pod;
}

Node ReadNode(const JsonReader& reader) {
  Node node;
  node.metadata = ReadMeta(reader["metadata"]);
  node.unschedulable = reader["spec"]["unschedulable"].Bool();
  const JsonReader status = reader["status"];
  node.capacity = ReadResourceList(status["capacity"]);
  node.allocatable = ReadResourceList(status["allocatable"]);
  status["conditions"].ForEach([&](const JsonReader& entry) {
    node.conditions.push_back({.type = entry["type"].String(), .status = entry["status"].String()});
  });
  node.kubelet_version = status["nodeInfo"]["kubeletVersion"].String();
  return node;
}

template <typename T>
absl::StatusOr<T> Read(const json& value, T (*read)(const JsonReader&)) {
  absl::Status status;
  T object = read(JsonReader(value, status));
  if (!status.ok()) return status;
  return object;
}

template <typename T>
absl::StatusOr<T> ReadText(std::string_view text, std::string_view what,
                           T (*read)(const JsonReader&)) {
  const absl::StatusOr<json> value = ParseJson(text, what);
  if (!value.ok()) return value.status();
  return Read<T>(*value, read);
}

// Accepts everything and remembers where parsing stopped.
struct ErrorFinder : json::json_sax_t {
  std::size_t position = 0;
  std::string message;

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(json::number_integer_t /*value*/) override { return true; }
  bool number_unsigned(json::number_unsigned_t /*value*/) override { return true; }
  bool number_float(json::number_float_t /*value*/, const json::string_t& /*text*/) override {
    return true;
  }
  bool string(json::string_t& /*value*/) override { return true; }
  bool binary(json::binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*size*/) override { return true; }
  bool key(json::string_t& /*value*/) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t /*size*/) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string& /*last_token*/,
                   const json::exception& error) override {
    position = at;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …" without
    // its code; the text may quote the whole last token.
    const std::string_view text = error.what();
    const std::size_t start = std::min(text.find("] "), text.size());
    message = text.substr(std::min(start + 2, text.size()), 200);
    return false;
  }
};

// Writing.

void Put(json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void Put(json& object, const char* key, json value) {
  if (!value.empty()) object[key] = std::move(value);
}

json WriteResourceList(const ResourceList& list) {
  json object = json::object();
  for (const auto& [name, quantity] : list) object[name] = quantity.ToString();
  return object;
}

json WriteNames(const std::vector<std::string>& names) {
  json list = json::array();
  for (const std::string& name : names) list.push_back({{"name", name}});
  return list;
}

json WriteRequirements(const ResourceRequirements& requirements) {
  json object = json::object();
  Put(object, "limits", WriteResourceList(requirements.limits));
  Put(object, "requests", WriteResourceList(requirements.requests));
  Put(object, "claims", WriteNames(requirements.claims));
  return object;
}

std::string WriteTime(std::int64_t seconds) {
  if (seconds == 0) return "";
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

json WriteMeta(const ObjectMeta& meta) {
  json object = json::object();
  Put(object, "name", meta.name);
  Put(object, "namespace", meta.namespace_);
  Put(object, "uid", meta.uid);
  Put(object, "resourceVersion", meta.resource_version);
  Put(object, "labels", json(meta.labels));
  Put(object, "annotations", json(meta.annotations));
  Put(object, "creationTimestamp", WriteTime(meta.creation_time));
  Put(object, "deletionTimestamp", WriteTime(meta.deletion_time));
  json owners = json::array();
  for (const OwnerReference& owner : meta.owners) {
    json entry = {{"kind", owner.kind}, {"name", owner.name}, {"uid", owner.uid}};
    Put(entry, "apiVersion", owner.api_version);
    if (owner.controller) entry["controller"] = true;
    owners.push_back(std::move(entry));
  }
  Put(object, "ownerReferences", std::move(owners));
  return object;
}

json WriteContainers(const std::vector<Container>& containers) {
  json list = json::array();
  for (const Container& container : containers) {
    json object = {{"name", container.name}};
    Put(object, "resources", WriteRequirements(container.resources));
    if (container.restart_always) object["restartPolicy"] = "Always";
    list.push_back(std::move(object));
  }
  return list;
}

json WritePodStatus(const PodStatus& status) {
  json object = json::object();
  Put(object, "phase", status.phase);
  Put(object, "reason", status.reason);
  Put(object, "message", status.message);
  Put(object, "qosClass", status.qos_class);
  Put(object, "nominatedNodeName", status.nominated_node_name);
  Put(object, "startTime", status.start_time);
  json conditions = json::array();
  for (const PodCondition& condition : status.conditions) {
    json entry = {{"type", condition.type}, {"status", condition.status}};
    Put(entry, "reason", condition.reason);
    Put(entry, "message", condition.message);
    conditions.push_back(std::move(entry));
  }
  Put(object, "conditions", std::move(conditions));
  Put(object, "containerStatuses",
      json(static_cast<std::size_t>(status.container_statuses), json::object()));
  return object;
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, std::string_view what) {
  try {
    return json::parse(text.begin(), text.end());
  } catch (const std::exception&) {
    // Parsed once more for the position, which not every exception of nlohmann's carries.
    ErrorFinder finder;
    json::sax_parse(text.begin(), text.end(), &finder);
    return absl::InvalidArgumentError(
        fmt::format("{}: malformed JSON at byte {}: {}", what, finder.position, finder.message));
  }
}

absl::StatusOr<Pod> PodFromJson(std::string_view text) {
  return ReadText<Pod>(text, "Pod", ReadPod);
}
absl::StatusOr<Node> NodeFromJson(std::string_view text) {
  return ReadText<Node>(text, "Node", ReadNode);
}
absl::StatusOr<Pod> PodFromJsonValue(const json& value) {
  return Read<Pod>(value, ReadPod);
}
absl::StatusOr<Node> NodeFromJsonValue(const json& value) {
  return Read<Node>(value, ReadNode);
}

absl::StatusOr<ObjectMeta> ObjectMetaFromJsonValue(const json& object) {
  return Read<ObjectMeta>(object,
                          [](const JsonReader& reader) { return ReadMeta(reader["metadata"]); });
}
json ObjectMetaToJsonValue(const ObjectMeta& metadata) {
  return WriteMeta(metadata);
}

std::string PodToJson(const Pod& pod) {
  json spec = json::object();
  Put(spec, "nodeName", pod.node_name);
  Put(spec, "schedulerName", pod.scheduler_name);
  if (pod.priority != 0) spec["priority"] = pod.priority;
  Put(spec, "initContainers", WriteContainers(pod.init_containers));
  spec["containers"] = WriteContainers(pod.containers);
  if (pod.resources.has_value()) spec["resources"] = WriteRequirements(*pod.resources);
  Put(spec, "resourceClaims", WriteNames(pod.resource_claims));
  Put(spec, "schedulingGates", WriteNames(pod.scheduling_gates));
  Put(spec, "nodeSelector", json(pod.node_selector));
  json object = {{"metadata", WriteMeta(pod.metadata)}, {"spec", std::move(spec)}};
  Put(object, "status", WritePodStatus(pod.status));
  return Dump(object);
}

std::string NodeToJson(const Node& node) {
  json status = json::object();
  Put(status, "capacity", WriteResourceList(node.capacity));
  Put(status, "allocatable", WriteResourceList(node.allocatable));
  json conditions = json::array();
  for (const NodeCondition& condition : node.conditions) {
    conditions.push_back({{"type", condition.type}, {"status", condition.status}});
  }
  Put(status, "conditions", std::move(conditions));
  if (!node.kubelet_version.empty()) {
    status["nodeInfo"] = {{"kubeletVersion", node.kubelet_version}};
  }
  json object = {{"metadata", WriteMeta(node.metadata)}, {"status", std::move(status)}};
  if (node.unschedulable) object["spec"] = {{"unschedulable", true}};
  return Dump(object);
}

}  // namespace numafit::api
