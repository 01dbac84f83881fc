#include "kube/decode.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "api/json_reader.h"
#include "api/pod_json.h"
#include "kube/core_v1.pb.h"

namespace numafit::kube {
namespace {

using api::JsonReader;

constexpr std::string_view kNoProtobuf = "protobuf, which custom resources do not have";
constexpr std::string_view kMagic("k8s\0", 4);

template <typename Message>
bool ParseProto(std::string_view bytes, Message& message) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return false;
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

absl::Status Broken(std::string_view what, std::string_view why) {
  return absl::DataLossError(fmt::format("{} from the API server: {}", what, why));
}

absl::Status Broken(std::string_view what, const absl::Status& why) {
  const absl::string_view message = why.message();
  return Broken(what, std::string_view(message.data(), message.size()));
}

std::string TimeText(const k8s::Time& time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

// From protobuf messages to values. Quantities can fail; the first failure is kept in `status`.

template <typename Map>
api::StringMap ConvertMap(Map& map) {
  api::StringMap result;
  for (auto& [key, value] : map) result.insert_or_assign(key, std::move(value));
  return result;
}

template <typename Map>
api::ResourceList ConvertResources(const Map& map, absl::Status& status) {
  api::ResourceList list;
  for (const auto& [name, text] : map) {
    const absl::StatusOr<api::Quantity> quantity = api::Quantity::Parse(text.text());
    if (quantity.ok()) {
      list.insert_or_assign(name, *quantity);
    } else if (status.ok()) {
      status = Broken(name, quantity.status());
    }
  }
  return list;
}

template <typename Repeated>
std::vector<api::OwnerReference> ConvertOwners(Repeated& owners) {
  std::vector<api::OwnerReference> result;
  result.reserve(static_cast<std::size_t>(owners.size()));
  for (auto& owner : owners) {
    result.push_back({.kind = std::move(*owner.mutable_kind()),
                      .name = std::move(*owner.mutable_name()),
                      .uid = std::move(*owner.mutable_uid()),
                      .controller = owner.controller(),
                      .api_version = std::move(*owner.mutable_api_version())});
  }
  return result;
}

api::ObjectMeta Convert(k8s::ObjectMeta& meta) {
  return {.name = std::move(*meta.mutable_name()),
          .namespace_ = std::move(*meta.mutable_namespace_name()),
          .uid = std::move(*meta.mutable_uid()),
          .resource_version = std::move(*meta.mutable_resource_version()),
          .labels = ConvertMap(*meta.mutable_labels()),
          .annotations = ConvertMap(*meta.mutable_annotations()),
          .creation_time = meta.creation_timestamp().seconds(),
          .deletion_time = meta.deletion_timestamp().seconds(),
          .owners = ConvertOwners(*meta.mutable_owner_references())};
}

api::ResourceRequirements Convert(const k8s::ResourceRequirements& message, absl::Status& status) {
  api::ResourceRequirements result{.limits = ConvertResources(message.limits(), status),
                                   .requests = ConvertResources(message.requests(), status),
                                   .claims = {}};
  for (const auto& claim : message.claims()) result.claims.push_back(claim.name());
  return result;
}

template <typename Repeated>
std::vector<api::Container> ConvertContainers(const Repeated& containers, absl::Status& status) {
  std::vector<api::Container> result;
  result.reserve(static_cast<std::size_t>(containers.size()));
  for (const k8s::Container& container : containers) {
    result.push_back({.name = container.name(),
                      .resources = Convert(container.resources(), status),
                      .restart_always = container.restart_policy() == "Always"});
  }
  return result;
}

api::PodStatus Convert(const k8s::PodStatus& message) {
  api::PodStatus status{.phase = message.phase(),
                        .reason = message.reason(),
                        .message = message.message(),
                        .qos_class = message.qos_class(),
                        .nominated_node_name = message.nominated_node_name(),
                        .conditions = {},
                        .container_statuses = message.container_statuses_size() +
                                              message.init_container_statuses_size(),
                        .start_time = {}};
  for (const auto& condition : message.conditions()) {
    status.conditions.push_back({.type = condition.type(),
                                 .status = condition.status(),
                                 .reason = condition.reason(),
                                 .message = condition.message()});
  }
  if (message.has_start_time()) status.start_time = TimeText(message.start_time());
  return status;
}

api::Pod Convert(k8s::Pod& message, absl::Status& status) {
  const k8s::PodSpec& spec = message.spec();
  api::Pod pod{.metadata = Convert(*message.mutable_metadata()),
               .node_name = spec.node_name(),
               .scheduler_name = spec.scheduler_name(),
               .priority = spec.priority(),
               .init_containers = ConvertContainers(spec.init_containers(), status),
               .containers = ConvertContainers(spec.containers(), status),
               .resources = {},
               .resource_claims = {},
               .scheduling_gates = {},
               .node_selector = ConvertMap(*message.mutable_spec()->mutable_node_selector()),
               .status = Convert(message.status())};
  if (spec.has_resources()) pod.resources = Convert(spec.resources(), status);
  for (const auto& claim : spec.resource_claims()) pod.resource_claims.push_back(claim.name());
  for (const auto& gate : spec.scheduling_gates()) pod.scheduling_gates.push_back(gate.name());
  return pod;
}

api::Node Convert(k8s::Node& message, absl::Status& status) {
  api::Node node{.metadata = Convert(*message.mutable_metadata()),
                 .unschedulable = message.spec().unschedulable(),
                 .capacity = ConvertResources(message.status().capacity(), status),
                 .allocatable = ConvertResources(message.status().allocatable(), status),
                 .conditions = {},
                 .kubelet_version = message.status().node_info().kubelet_version()};
  for (const auto& condition : message.status().conditions()) {
    node.conditions.push_back({.type = condition.type(), .status = condition.status()});
  }
  return node;
}

// What differs between the kinds.
template <typename T>
struct Kind;

template <>
struct Kind<api::Pod> {
  using Message = k8s::Pod;
  using ListMessage = k8s::PodList;
  static constexpr std::string_view kName = "Pod";
  static absl::StatusOr<api::Pod> FromJson(const nlohmann::json& value) {
    return api::PodFromJsonValue(value);
  }
};

template <>
struct Kind<api::Node> {
  using Message = k8s::Node;
  using ListMessage = k8s::NodeList;
  static constexpr std::string_view kName = "Node";
  static absl::StatusOr<api::Node> FromJson(const nlohmann::json& value) {
    return api::NodeFromJsonValue(value);
  }
};

template <>
struct Kind<api::NodeReport> {
  static constexpr std::string_view kName = "NodeReport";
  static absl::StatusOr<api::NodeReport> FromJson(const nlohmann::json& value) {
    return api::ReadNodeReport(value);
  }
};

template <>
struct Kind<api::Workload> {
  static constexpr std::string_view kName = "Workload";
  static absl::StatusOr<api::Workload> FromJson(const nlohmann::json& value) {
    return api::ReadWorkload(value);
  }
};

template <>
struct Kind<api::NodeResourceTopology> {
  static constexpr std::string_view kName = api::kNodeResourceTopologyKind;
  static absl::StatusOr<api::NodeResourceTopology> FromJson(const nlohmann::json& value) {
    return api::ReadNodeResourceTopology(value);
  }
};

template <>
struct Kind<api::AdmissionCheck> {
  static constexpr std::string_view kName = "AdmissionCheck";
  static absl::StatusOr<api::AdmissionCheck> FromJson(const nlohmann::json& value) {
    return api::ReadAdmissionCheck(value);
  }
};

template <>
struct Kind<api::ResourceFlavor> {
  static constexpr std::string_view kName = "ResourceFlavor";
  static absl::StatusOr<api::ResourceFlavor> FromJson(const nlohmann::json& value) {
    return api::ReadResourceFlavor(value);
  }
};

template <>
struct Kind<api::ClusterQueue> {
  static constexpr std::string_view kName = "ClusterQueue";
  static absl::StatusOr<api::ClusterQueue> FromJson(const nlohmann::json& value) {
    return api::ReadClusterQueue(value);
  }
};

// Custom resources have none.
template <typename T>
constexpr bool kHasProtobuf = std::is_same_v<T, api::Pod> || std::is_same_v<T, api::Node>;

// The bytes of the object itself, out of its envelope if it has one.
absl::StatusOr<std::string> Unwrap(std::string_view bytes, std::string_view what,
                                   std::string* kind = nullptr) {
  if (!bytes.starts_with(kMagic)) return std::string(bytes);
  k8s::Unknown unknown;
  if (!ParseProto(bytes.substr(kMagic.size()), unknown)) {
    return Broken(what, "malformed protobuf envelope");
  }
  if (!unknown.content_encoding().empty()) {
    return Broken(what, fmt::format("content encoding \"{:.40}\"", unknown.content_encoding()));
  }
  if (kind != nullptr) *kind = unknown.type_meta().kind();
  return std::move(*unknown.mutable_raw());
}

template <typename T>
absl::StatusOr<T> DecodeProtobuf(std::string_view bytes) {
  absl::StatusOr<std::string> raw = Unwrap(bytes, Kind<T>::kName);
  if (!raw.ok()) return raw.status();
  typename Kind<T>::Message message;
  if (!ParseProto(*raw, message)) return Broken(Kind<T>::kName, "malformed protobuf");
  absl::Status status;
  T object = Convert(message, status);
  if (!status.ok()) return status;
  return object;
}

template <typename T>
absl::StatusOr<List<T>> DecodeProtobufList(std::string_view bytes) {
  absl::StatusOr<std::string> raw = Unwrap(bytes, "list");
  if (!raw.ok()) return raw.status();
  typename Kind<T>::ListMessage message;
  if (!ParseProto(*raw, message)) return Broken("list", "malformed protobuf");
  List<T> list;
  list.resource_version = message.metadata().resource_version();
  list.continue_token = message.metadata().continue_token();
  list.items.reserve(static_cast<std::size_t>(message.items_size()));
  absl::Status status;
  for (auto& item : *message.mutable_items()) list.items.push_back(Convert(item, status));
  if (!status.ok()) return status;
  return list;
}

ApiStatus ConvertStatus(const JsonReader& reader) {
  return {.code = static_cast<int>(reader["code"].Int(0, 999)),
          .reason = reader["reason"].String(),
          .message = reader["message"].String()};
}

ApiStatus ConvertStatus(std::string_view raw) {
  k8s::Status message;
  if (!ParseProto(raw, message)) return {};
  return {.code = message.code(),
          .reason = std::move(*message.mutable_reason()),
          .message = std::move(*message.mutable_message())};
}

absl::StatusOr<EventType> ParseEventType(std::string_view type) {
  if (type == "ADDED" || type == "MODIFIED") return EventType::kUpsert;
  if (type == "DELETED") return EventType::kDelete;
  if (type == "BOOKMARK") return EventType::kBookmark;
  if (type == "ERROR") return EventType::kError;
  return Broken("watch event", fmt::format("unknown type \"{}\"", type.substr(0, 40)));
}

template <typename T>
absl::StatusOr<List<T>> DecodeJsonList(std::string_view bytes) {
  const absl::StatusOr<nlohmann::json> value = api::ParseJson(bytes, Kind<T>::kName);
  if (!value.ok()) return Broken("list", value.status());
  absl::Status status;
  const JsonReader reader(*value, status);
  List<T> list;
  list.resource_version = reader["metadata"]["resourceVersion"].String();
  list.continue_token = reader["metadata"]["continue"].String();
  reader["items"].ForEach([&](const JsonReader& item) {
    absl::StatusOr<T> object = Kind<T>::FromJson(item.Raw());
    if (object.ok()) {
      list.items.push_back(*std::move(object));
    } else if (status.ok()) {
      status = object.status();
    }
  });
  if (!status.ok()) return Broken("list", status);
  return list;
}

template <typename T>
absl::StatusOr<Event<T>> DecodeJsonEvent(std::string_view frame) {
  const absl::StatusOr<nlohmann::json> value = api::ParseJson(frame, "watch event");
  if (!value.ok()) return Broken("watch event", value.status());
  absl::Status status;
  const JsonReader reader(*value, status);
  const absl::StatusOr<EventType> type = ParseEventType(reader["type"].String());
  if (!type.ok()) return type.status();
  Event<T> event;
  event.type = *type;
  if (*type == EventType::kError) {
    event.error = ConvertStatus(reader["object"]);
  } else {
    absl::StatusOr<T> object = Kind<T>::FromJson(reader["object"].Raw());
    if (!object.ok()) return Broken("watch event", object.status());
    event.object = *std::move(object);
  }
  if (!status.ok()) return Broken("watch event", status);
  return event;
}

}  // namespace

Encoding EncodingOf(std::string_view content_type) {
  return content_type.starts_with("application/vnd.kubernetes.protobuf") ? Encoding::kProtobuf
                                                                         : Encoding::kJson;
}

template <typename T>
absl::StatusOr<T> DecodeObject(std::string_view bytes, Encoding encoding) {
  if (encoding == Encoding::kProtobuf) {
    if constexpr (kHasProtobuf<T>) {
      return DecodeProtobuf<T>(bytes);
    } else {
      return Broken(Kind<T>::kName, kNoProtobuf);
    }
  }
  const absl::StatusOr<nlohmann::json> value = api::ParseJson(bytes, Kind<T>::kName);
  if (!value.ok()) return Broken("object", value.status());
  absl::StatusOr<T> object = Kind<T>::FromJson(*value);
  if (!object.ok()) return Broken(Kind<T>::kName, object.status());
  return object;
}

template <typename T>
absl::StatusOr<List<T>> DecodeList(std::string_view bytes, Encoding encoding) {
  if (encoding == Encoding::kJson) return DecodeJsonList<T>(bytes);
  if constexpr (!kHasProtobuf<T>) {
    return Broken("list", kNoProtobuf);
  } else {
    return DecodeProtobufList<T>(bytes);
  }
}

// A frame is a bare WatchEvent; the object inside has an envelope (apiserver: the stream
// serializer is the raw one, the embedded encoder is not). Both forms are accepted in both places.
template <typename T>
absl::StatusOr<Event<T>> DecodeEvent(std::string_view frame, Encoding encoding) {
  if (encoding == Encoding::kJson) return DecodeJsonEvent<T>(frame);
  absl::StatusOr<std::string> raw = Unwrap(frame, "watch event");
  if (!raw.ok()) return raw.status();
  k8s::WatchEvent message;
  if (!ParseProto(*raw, message)) return Broken("watch event", "malformed protobuf");
  const absl::StatusOr<EventType> type = ParseEventType(message.type());
  if (!type.ok()) return type.status();
  Event<T> event;
  event.type = *type;
  if (*type == EventType::kError) {
    const absl::StatusOr<std::string> status = Unwrap(message.object().raw(), "watch event");
    if (!status.ok()) return status.status();
    event.error = ConvertStatus(*status);
    return event;
  }
  absl::StatusOr<T> object = DecodeObject<T>(message.object().raw(), Encoding::kProtobuf);
  if (!object.ok()) return object.status();
  event.object = *std::move(object);
  return event;
}

ApiStatus DecodeStatus(std::string_view bytes, Encoding encoding) {
  if (encoding == Encoding::kProtobuf) {
    std::string kind;
    const absl::StatusOr<std::string> raw = Unwrap(bytes, "status", &kind);
    return raw.ok() && kind == "Status" ? ConvertStatus(*raw) : ApiStatus{};
  }
  const absl::StatusOr<nlohmann::json> value = api::ParseJson(bytes, "status");
  if (!value.ok() || !value->is_object()) return {};
  absl::Status ignored;
  return ConvertStatus(JsonReader(*value, ignored));
}

absl::Status ToAbslStatus(int http_status, const ApiStatus& status) {
  const std::string message = status.message.empty() ? fmt::format("HTTP status {}", http_status)
                                                     : status.message.substr(0, 2048);
  switch (http_status) {
    case 400:
    case 422:
      return absl::InvalidArgumentError(message);
    case 401:
      return absl::UnauthenticatedError(message);
    case 403:
      return absl::PermissionDeniedError(message);
    case 404:
      return absl::NotFoundError(message);
    case 409:
      return absl::AbortedError(message);
    case 410:
      return absl::OutOfRangeError(message);
    case 429:
      return absl::ResourceExhaustedError(message);
    case 502:
    case 503:
    case 504:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

template absl::StatusOr<api::Pod> DecodeObject<api::Pod>(std::string_view, Encoding);
template absl::StatusOr<api::Node> DecodeObject<api::Node>(std::string_view, Encoding);
template absl::StatusOr<api::NodeReport> DecodeObject<api::NodeReport>(std::string_view, Encoding);
template absl::StatusOr<List<api::NodeReport>> DecodeList<api::NodeReport>(std::string_view,
                                                                           Encoding);
template absl::StatusOr<Event<api::NodeReport>> DecodeEvent<api::NodeReport>(std::string_view,
                                                                             Encoding);
template absl::StatusOr<List<api::Workload>> DecodeList<api::Workload>(std::string_view, Encoding);
template absl::StatusOr<Event<api::Workload>> DecodeEvent<api::Workload>(std::string_view,
                                                                         Encoding);
template absl::StatusOr<List<api::AdmissionCheck>> DecodeList<api::AdmissionCheck>(std::string_view,
                                                                                   Encoding);
template absl::StatusOr<Event<api::AdmissionCheck>> DecodeEvent<api::AdmissionCheck>(
    std::string_view, Encoding);
template absl::StatusOr<List<api::ResourceFlavor>> DecodeList<api::ResourceFlavor>(std::string_view,
                                                                                   Encoding);
template absl::StatusOr<Event<api::ResourceFlavor>> DecodeEvent<api::ResourceFlavor>(
    std::string_view, Encoding);
template absl::StatusOr<List<api::ClusterQueue>> DecodeList<api::ClusterQueue>(std::string_view,
                                                                               Encoding);
template absl::StatusOr<Event<api::ClusterQueue>> DecodeEvent<api::ClusterQueue>(std::string_view,
                                                                                 Encoding);
template absl::StatusOr<List<api::NodeResourceTopology>> DecodeList<api::NodeResourceTopology>(
    std::string_view, Encoding);
template absl::StatusOr<Event<api::NodeResourceTopology>> DecodeEvent<api::NodeResourceTopology>(
    std::string_view, Encoding);
template absl::StatusOr<List<api::Pod>> DecodeList<api::Pod>(std::string_view, Encoding);
template absl::StatusOr<List<api::Node>> DecodeList<api::Node>(std::string_view, Encoding);
template absl::StatusOr<Event<api::Pod>> DecodeEvent<api::Pod>(std::string_view, Encoding);
template absl::StatusOr<Event<api::Node>> DecodeEvent<api::Node>(std::string_view, Encoding);

}  // namespace numafit::kube
