#include "api/workload.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "api/json_reader.h"
#include "api/pod_json.h"

namespace numafit::api {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

int ReadCount(const JsonReader& reader) {
  return static_cast<int>(reader.Int(0, kMaxCount));
}

PodSet ReadPodSet(const JsonReader& reader) {
  PodSet set;
  set.name = reader["name"].String();
  if (set.name.empty()) set.name = "main";
  // The API's default.
  set.count = reader["count"].IsNull() ? 1 : ReadCount(reader["count"]);
  if (const JsonReader pod_template = reader["template"]; !pod_template.IsNull()) {
    absl::StatusOr<Pod> pod = PodFromJsonValue(pod_template.Raw());
    if (pod.ok()) {
      set.pod = *std::move(pod);
    } else {
      pod_template.Fail(std::string(pod.status().message()));
    }
  }
  return set;
}

// v1beta2: the values of one level of all domains of a slice.
class LevelValues {
 public:
  explicit LevelValues(const JsonReader& reader)
      : universal_(reader["universal"].String()),
        prefix_(reader["individual"]["prefix"].String()),
        suffix_(reader["individual"]["suffix"].String()),
        roots_(reader["individual"]["roots"].Strings()),
        is_universal_(!reader["universal"].IsNull()) {}

  [[nodiscard]] bool Has(int count) const {
    return is_universal_ || roots_.size() == static_cast<std::size_t>(count);
  }
  [[nodiscard]] std::string At(int index) const {
    return is_universal_ ? universal_ : prefix_ + roots_[static_cast<std::size_t>(index)] + suffix_;
  }

 private:
  std::string universal_;
  std::string prefix_;
  std::string suffix_;
  std::vector<std::string> roots_;
  bool is_universal_;
};

void ReadSlice(const JsonReader& slice, std::vector<TopologyDomain>& domains) {
  const int count = ReadCount(slice["domainCount"]);
  if (count > kMaxTopologyDomains - static_cast<int>(domains.size())) {
    slice["domainCount"].Fail(
        fmt::format("is {}: more than {} domains in all", count, kMaxTopologyDomains));
    return;
  }
  std::vector<LevelValues> levels;
  slice["valuesPerLevel"].ForEach([&](const JsonReader& level) { levels.emplace_back(level); });
  for (const LevelValues& level : levels) {
    if (!level.Has(count)) {
      slice["valuesPerLevel"].Fail(fmt::format("expected {} values of each level", count));
      return;
    }
  }
  const JsonReader counts = slice["podCounts"];
  const bool universal = !counts["universal"].IsNull();
  const int same = universal ? ReadCount(counts["universal"]) : 0;
  std::vector<int> each;
  counts["individual"].ForEach([&](const JsonReader& entry) { each.push_back(ReadCount(entry)); });
  if (!universal && each.size() != static_cast<std::size_t>(count)) {
    counts.Fail(fmt::format("expected {} counts", count));
    return;
  }
  for (int i = 0; i < count; ++i) {
    TopologyDomain& domain = domains.emplace_back();
    for (const LevelValues& level : levels) domain.values.push_back(level.At(i));
    domain.count = universal ? same : each[static_cast<std::size_t>(i)];
  }
}

void ReadTopology(const JsonReader& reader, PodSetAssignment& assignment) {
  if (reader.IsNull()) return;
  assignment.has_topology = true;
  assignment.levels = reader["levels"].Strings();
  // v1beta1
  reader["domains"].ForEach([&](const JsonReader& entry) {
    assignment.domains.push_back(
        {.values = entry["values"].Strings(), .count = ReadCount(entry["count"])});
  });
  // v1beta2
  reader["slices"].ForEach([&](const JsonReader& slice) { ReadSlice(slice, assignment.domains); });
}

PodSetAssignment ReadAssignment(const JsonReader& reader) {
  PodSetAssignment assignment;
  assignment.name = reader["name"].String();
  if (assignment.name.empty()) assignment.name = "main";
  reader["flavors"].ForEachMember([&](const std::string& resource, const JsonReader& flavor) {
    assignment.flavors.insert_or_assign(resource, flavor.String());
  });
  if (!reader["count"].IsNull()) assignment.count = ReadCount(reader["count"]);
  ReadTopology(reader["topologyAssignment"], assignment);
  return assignment;
}

WorkloadCondition ReadCondition(const JsonReader& reader) {
  return {.type = reader["type"].String(),
          .is_true = reader["status"].String() == "True",
          .reason = reader["reason"].String(),
          .message = reader["message"].String(),
          .since = reader["lastTransitionTime"].Seconds()};
}

void ReadStatus(const JsonReader& reader, Workload& workload) {
  const JsonReader admission = reader["admission"];
  workload.cluster_queue = admission["clusterQueue"].String();
  admission["podSetAssignments"].ForEach(
      [&](const JsonReader& entry) { workload.assignments.push_back(ReadAssignment(entry)); });
  reader["conditions"].ForEach(
      [&](const JsonReader& entry) { workload.conditions.push_back(ReadCondition(entry)); });
  reader["admissionChecks"].ForEach([&](const JsonReader& entry) {
    workload.checks.push_back({.name = entry["name"].String(),
                               .state = entry["state"].String(),
                               .message = entry["message"].String(),
                               .since = entry["lastTransitionTime"].Seconds()});
  });
  reader["reclaimablePods"].ForEach([&](const JsonReader& entry) {
    workload.reclaimable.insert_or_assign(entry["name"].String(), ReadCount(entry["count"]));
  });
  workload.cluster_name = reader["clusterName"].String();
  workload.has_unhealthy_nodes = reader["unhealthyNodes"].Size() > 0;
}

}  // namespace

const WorkloadCondition* Workload::Find(std::string_view type) const {
  for (const WorkloadCondition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool Workload::Is(std::string_view type) const {
  const WorkloadCondition* const condition = Find(type);
  return condition != nullptr && condition->is_true;
}

absl::StatusOr<Workload> WorkloadFromJsonValue(const json& value) {
  absl::StatusOr<ObjectMeta> metadata = ObjectMetaFromJsonValue(value);
  if (!metadata.ok()) return metadata.status();
  absl::Status status;
  const JsonReader reader(value, status);
  Workload workload;
  workload.metadata = *std::move(metadata);
  const JsonReader spec = reader["spec"];
  workload.queue_name = spec["queueName"].String();
  workload.active = spec["active"].IsNull() || spec["active"].Bool();
  workload.priority = static_cast<std::int32_t>(
      spec["priority"].Int(std::numeric_limits<std::int32_t>::min(), kMaxCount));
  spec["podSets"].ForEach(
      [&](const JsonReader& entry) { workload.pod_sets.push_back(ReadPodSet(entry)); });
  ReadStatus(reader["status"], workload);
  if (!status.ok()) return status;
  return workload;
}

absl::StatusOr<Workload> WorkloadFromJson(std::string_view text) {
  const absl::StatusOr<json> value = ParseJson(text, "Workload");
  if (!value.ok()) return value.status();
  return WorkloadFromJsonValue(*value);
}

absl::StatusOr<Workload> ReadWorkload(const json& value) {
  absl::StatusOr<Workload> workload = WorkloadFromJsonValue(value);
  if (workload.ok()) return workload;
  absl::StatusOr<ObjectMeta> metadata = ObjectMetaFromJsonValue(value);
  if (!metadata.ok()) return metadata.status();
  Workload unusable;
  unusable.metadata = *std::move(metadata);
  unusable.problem = workload.status();
  return unusable;
}

}  // namespace numafit::api
