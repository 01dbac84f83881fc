#include "api/kueue_objects.h"

#include <limits>
#include <utility>

#include "api/json_reader.h"
#include "api/pod_json.h"

namespace numafit::api {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxGeneration = std::numeric_limits<std::int64_t>::max();

void ReadFields(const JsonReader& reader, AdmissionCheck& check) {
  check.generation = reader["metadata"]["generation"].Int(0, kMaxGeneration);
  const JsonReader spec = reader["spec"];
  check.controller_name = spec["controllerName"].String();
  check.has_parameters = !spec["parameters"].IsNull();
  reader["status"]["conditions"].ForEach([&](const JsonReader& entry) {
    if (entry["type"].String() != "Active") return;
    check.active = {.status = entry["status"].String(),
                    .reason = entry["reason"].String(),
                    .message = entry["message"].String(),
                    .observed_generation = entry["observedGeneration"].Int(0, kMaxGeneration)};
  });
}

void ReadFields(const JsonReader& reader, ResourceFlavor& flavor) {
  flavor.node_labels = reader["spec"]["nodeLabels"].AsStringMap();
  flavor.topology_name = reader["spec"]["topologyName"].String();
}

void ReadFields(const JsonReader& reader, ClusterQueue& queue) {
  reader["spec"]["resourceGroups"].ForEach([&](const JsonReader& group) {
    group["flavors"].ForEach([&](const JsonReader& flavor) {
      const std::string name = flavor["name"].String();
      flavor["resources"].ForEach([&](const JsonReader& resource) {
        queue.quotas.push_back({.flavor = name,
                                .resource = resource["name"].String(),
                                .nominal = resource["nominalQuota"].AsQuantity()});
      });
    });
  });
}

template <typename T>
absl::StatusOr<T> Read(const json& value) {
  absl::StatusOr<ObjectMeta> metadata = ObjectMetaFromJsonValue(value);
  if (!metadata.ok()) return metadata.status();
  T object;
  absl::Status problem;
  ReadFields(JsonReader(value, problem), object);
  if (!problem.ok()) {
    object = T();
    object.problem = problem;
  }
  object.metadata = *std::move(metadata);
  return object;
}

}  // namespace

absl::StatusOr<AdmissionCheck> ReadAdmissionCheck(const json& value) {
  return Read<AdmissionCheck>(value);
}
absl::StatusOr<ResourceFlavor> ReadResourceFlavor(const json& value) {
  return Read<ResourceFlavor>(value);
}
absl::StatusOr<ClusterQueue> ReadClusterQueue(const json& value) {
  return Read<ClusterQueue>(value);
}

}  // namespace numafit::api
