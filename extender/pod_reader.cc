#include "extender/pod_reader.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "simdjson.h"

namespace numafit::extender {
namespace {

using simdjson::dom::element;

// Follows fields and remembers the first one of a wrong type. Paths are made on errors only.
class Reader {
 public:
  [[nodiscard]] const absl::Status& status() const { return status_; }

  void Fail(std::string_view path, std::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(fmt::format("Pod.{}: expected {}", path, expected));
  }

  // The member, or false when it is absent or null.
  static bool Find(const element& object, std::string_view key, element* out) {
    return object.at_key(key).get(*out) == simdjson::SUCCESS && !out->is_null();
  }

  void String(const element& object, std::string_view key, std::string_view path,
              std::string* out) {
    element value;
    if (!Find(object, key, &value)) return;
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) return Fail(path, "a string");
    out->assign(text);
  }

  void Int32(const element& object, std::string_view key, std::string_view path,
             std::int32_t* out) {
    element value;
    if (!Find(object, key, &value)) return;
    std::int64_t number = 0;
    if (value.get(number) != simdjson::SUCCESS || number != static_cast<std::int32_t>(number)) {
      return Fail(path, "a whole number of 32 bits");
    }
    *out = static_cast<std::int32_t>(number);
  }

  void Quantities(const element& object, std::string_view key, const std::string& path,
                  api::ResourceList* out) {
    element value;
    if (!Find(object, key, &value)) return;
    simdjson::dom::object members;
    if (value.get(members) != simdjson::SUCCESS) return Fail(path, "an object");
    for (const auto field : members) {
      absl::StatusOr<api::Quantity> quantity = ReadQuantity(field.value);
      if (!quantity.ok()) {
        return Fail(fmt::format("{}.{}", path, field.key),
                    fmt::format("a quantity ({})", std::string(quantity.status().message())));
      }
      out->insert_or_assign(std::string(field.key), *quantity);
    }
  }

  void Resources(const element& owner, const std::string& path, api::ResourceRequirements* out) {
    element resources;
    if (!Find(owner, "resources", &resources)) return;
    if (!resources.is_object()) return Fail(path, "an object");
    Quantities(resources, "limits", path + ".limits", &out->limits);
    Quantities(resources, "requests", path + ".requests", &out->requests);
    Names(resources, "claims", path + ".claims", &out->claims);
  }

  // The names of an array of objects.
  void Names(const element& owner, std::string_view key, const std::string& path,
             std::vector<std::string>* out) {
    ForEach(owner, key, path, [&](const element& item, const std::string& item_path) {
      String(item, "name", item_path + ".name", &out->emplace_back());
    });
  }

  void Containers(const element& spec, std::string_view key, const std::string& path,
                  std::vector<api::Container>* out) {
    ForEach(spec, key, path, [&](const element& item, const std::string& item_path) {
      api::Container& container = out->emplace_back();
      String(item, "name", item_path + ".name", &container.name);
      std::string restart_policy;
      String(item, "restartPolicy", item_path + ".restartPolicy", &restart_policy);
      container.restart_always = restart_policy == "Always";
      Resources(item, item_path + ".resources", &container.resources);
    });
  }

 private:
  static absl::StatusOr<api::Quantity> ReadQuantity(const element& value) {
    std::string_view text;
    std::int64_t integer = 0;
    double number = 0;
    if (value.get(text) == simdjson::SUCCESS) return api::Quantity::Parse(text);
    if (value.get(integer) == simdjson::SUCCESS) return api::Quantity::FromInt(integer);
    if (value.get(number) == simdjson::SUCCESS && std::abs(number) < 1e15) {
      return api::Quantity::FromMilli(static_cast<std::int64_t>(std::ceil(number * 1000)));
    }
    return absl::InvalidArgumentError("a string or a number");
  }

  template <typename Visit>
  void ForEach(const element& owner, std::string_view key, const std::string& path, Visit visit) {
    element value;
    if (!Find(owner, key, &value)) return;
    simdjson::dom::array items;
    if (value.get(items) != simdjson::SUCCESS) return Fail(path, "an array");
    int i = 0;
    for (const element item : items) {
      std::string item_path = fmt::format("{}[{}]", path, i++);
      if (!item.is_object()) return Fail(item_path, "an object");
      visit(item, item_path);
    }
  }

  absl::Status status_;
};

void ReadMetadata(const element& value, Reader* reader, api::ObjectMeta* metadata) {
  reader->String(value, "name", "metadata.name", &metadata->name);
  reader->String(value, "namespace", "metadata.namespace", &metadata->namespace_);
  reader->String(value, "uid", "metadata.uid", &metadata->uid);
  element annotations;
  if (!Reader::Find(value, "annotations", &annotations)) return;
  simdjson::dom::object members;
  if (annotations.get(members) != simdjson::SUCCESS) {
    return reader->Fail("metadata.annotations", "an object");
  }
  for (const auto field : members) {
    if (!field.key.starts_with("numafit.io/")) continue;
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return reader->Fail(fmt::format("metadata.annotations.{}", field.key), "a string");
    }
    metadata->annotations.insert_or_assign(std::string(field.key), std::string(text));
  }
}

void ReadSpec(const element& value, Reader* reader, api::Pod* pod) {
  reader->String(value, "nodeName", "spec.nodeName", &pod->node_name);
  reader->String(value, "schedulerName", "spec.schedulerName", &pod->scheduler_name);
  reader->Int32(value, "priority", "spec.priority", &pod->priority);
  reader->Containers(value, "initContainers", "spec.initContainers", &pod->init_containers);
  reader->Containers(value, "containers", "spec.containers", &pod->containers);
  reader->Names(value, "resourceClaims", "spec.resourceClaims", &pod->resource_claims);
  element resources;
  if (Reader::Find(value, "resources", &resources)) {
    reader->Resources(value, "spec.resources", &pod->resources.emplace());
  }
}

}  // namespace

absl::Status ReadPod(const element& value, api::Pod* pod) {
  *pod = api::Pod{};
  Reader reader;
  if (!value.is_object()) return absl::InvalidArgumentError("Pod: expected an object");
  element part;
  if (Reader::Find(value, "metadata", &part)) {
    if (!part.is_object()) return absl::InvalidArgumentError("Pod.metadata: expected an object");
    ReadMetadata(part, &reader, &pod->metadata);
  }
  if (Reader::Find(value, "spec", &part)) {
    if (!part.is_object()) return absl::InvalidArgumentError("Pod.spec: expected an object");
    ReadSpec(part, &reader, pod);
  }
  if (Reader::Find(value, "status", &part)) {
    if (!part.is_object()) return absl::InvalidArgumentError("Pod.status: expected an object");
    reader.String(part, "phase", "status.phase", &pod->status.phase);
    reader.String(part, "qosClass", "status.qosClass", &pod->status.qos_class);
    reader.String(part, "nominatedNodeName", "status.nominatedNodeName",
                  &pod->status.nominated_node_name);
  }
  return reader.status();
}

}  // namespace numafit::extender
