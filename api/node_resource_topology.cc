#include "api/node_resource_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/numbers.h"
#include "api/json_reader.h"
#include "api/pod_json.h"

namespace numafit::api {
namespace {

using Topology = NodeResourceTopology;

constexpr std::string_view kZonePrefix = "node-";
constexpr std::string_view kCpu = "cpu";
constexpr std::int64_t kMaxCost = 1'000'000;
constexpr std::size_t kMaxNameLength = 317;  // a domain, a slash, a name

// "node-1" is NUMA node 1.
std::optional<int> NumaOf(std::string_view zone) {
  int id = 0;
  if (!zone.starts_with(kZonePrefix)) return std::nullopt;
  const std::string_view digits = zone.substr(kZonePrefix.size());
  const bool plain = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char each) {
    return each >= '0' && each <= '9';
  });
  if (!plain || !absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &id) ||
      id > kMaxZoneId) {
    return std::nullopt;
  }
  return id;
}

// Quantities come as text or as integers (x-kubernetes-int-or-string). Of CPUs only whole ones can
// be somebody's own.
std::int64_t ReadCount(const JsonReader& place, bool may_be_broken) {
  const nlohmann::json& raw = place.Raw();
  std::string text;
  if (raw.is_string()) text = place.String();
  if (raw.is_number_integer()) text = raw.dump();
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  constexpr std::int64_t kMostMilli = kMaxZoneDevices * 1000;
  if (!quantity.ok() || quantity->milli() < 0 || quantity->milli() > kMostMilli ||
      (quantity->milli() % 1000 != 0 && !may_be_broken)) {
    const std::string shown =
        raw.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
    place.Fail(fmt::format("is {:.60}, expected a whole number, 0 to {}", shown, kMaxZoneDevices));
    return 0;
  }
  return quantity->milli() / 1000;
}

void ReadResource(const JsonReader& item, Topology::Zone& zone) {
  const std::string name = item["name"].String();
  if (name != kCpu && name.find('/') == std::string::npos) return;
  if (name.size() > kMaxNameLength) {
    return item["name"].Fail(
        fmt::format("is {} characters long, expected {} at most", name.size(), kMaxNameLength));
  }
  const bool cpus = name == kCpu;
  Topology::Resource resource;
  resource.name = name;
  resource.capacity = ReadCount(item["capacity"], cpus);
  resource.allocatable = ReadCount(item["allocatable"], cpus);
  resource.available = ReadCount(item["available"], cpus);
  if (resource.available > resource.allocatable) {
    item["available"].Fail(fmt::format("is {} of {:.80}, of which {} are allocatable",
                                       resource.available, name, resource.allocatable));
  }
  if (resource.allocatable > resource.capacity) {
    item["allocatable"].Fail(fmt::format("is {} of {:.80}, of which the zone has {}",
                                         resource.allocatable, name, resource.capacity));
  }
  zone.resources.push_back(std::move(resource));
}

Topology::Zone ReadZone(const JsonReader& place, int numa) {
  Topology::Zone zone;
  zone.numa = numa;
  const JsonReader resources = place["resources"];
  if (resources.Size() > kMaxZoneResources) {
    resources.Fail(
        fmt::format("has {} entries, expected {} at most", resources.Size(), kMaxZoneResources));
    return zone;
  }
  resources.ForEach([&](const JsonReader& item) { ReadResource(item, zone); });
  std::sort(zone.resources.begin(), zone.resources.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(zone.resources.begin(), zone.resources.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != zone.resources.end()) {
    resources.Fail(fmt::format("{:.80} is there twice", twice->name));
  }
  place["costs"].ForEach([&](const JsonReader& cost) {
    const std::optional<int> to = NumaOf(cost["name"].String());
    const std::int64_t value = cost["value"].Int(0, kMaxCost);
    if (to) zone.costs.emplace_back(*to, static_cast<int>(value));
  });
  return zone;
}

void ReadZones(const JsonReader& zones, Topology& topology) {
  std::set<int> seen;
  zones.ForEach([&](const JsonReader& place) {
    if (place["type"].String() != "Node") return;
    const std::string name = place["name"].String();
    const std::optional<int> numa = NumaOf(name);
    if (!numa) {
      place["name"].Fail(
          fmt::format("is \"{:.60}\", expected node-0 to node-{}", name, kMaxZoneId));
    } else if (!seen.insert(*numa).second) {
      place["name"].Fail(fmt::format("{} is there twice", name));
    } else {
      topology.zones.push_back(ReadZone(place, *numa));
    }
  });
  if (topology.zones.empty()) zones.Fail("none of type Node");
  std::sort(topology.zones.begin(), topology.zones.end(),
            [](const auto& a, const auto& b) { return a.numa < b.numa; });
}

using Word = std::pair<std::string_view, std::string_view>;
constexpr Word kLevels[] = {{"PodLevel", "pod"}, {"ContainerLevel", "container"}};
constexpr Word kPolicies[] = {{"None", "none"},
                              {"BestEffort", "best-effort"},
                              {"Restricted", "restricted"},
                              {"SingleNUMANode", "single-numa-node"}};

// The deprecated word for policy and scope together: "SingleNUMANodePodLevel".
void ReadWord(const JsonReader& place, Topology& topology) {
  const std::string text = place.String();
  std::string_view word = text;
  std::string_view scope;
  for (const auto& [suffix, name] : kLevels) {
    if (!word.ends_with(suffix)) continue;
    word.remove_suffix(suffix.size());
    scope = name;
  }
  for (const auto& [known, policy] : kPolicies) {
    if (word != known) continue;
    topology.policy = policy;
    topology.scope = scope;
    return;
  }
  place.Fail(fmt::format("is \"{:.60}\", expected a word such as SingleNUMANodePodLevel", text));
}

void ReadPolicy(const JsonReader& root, Topology& topology) {
  root["attributes"].ForEach([&](const JsonReader& attribute) {
    const std::string name = attribute["name"].String();
    if (name == "topologyManagerPolicy") topology.policy = attribute["value"].String();
    if (name == "topologyManagerScope") topology.scope = attribute["value"].String();
  });
  if (!topology.policy.empty()) return;
  const JsonReader words = root["topologyPolicies"];
  if (words.Size() == 0) return;
  if (words.Size() > 1) {
    return words.Fail(fmt::format("has {} entries, expected one", words.Size()));
  }
  words.ForEach([&](const JsonReader& word) { ReadWord(word, topology); });
}

}  // namespace

absl::StatusOr<NodeResourceTopology> ReadNodeResourceTopology(const nlohmann::json& value) {
  absl::StatusOr<ObjectMeta> metadata = ObjectMetaFromJsonValue(value);
  if (!metadata.ok()) return metadata.status();
  NodeResourceTopology topology;
  topology.metadata = *std::move(metadata);
  const JsonReader root(value, topology.problem);
  ReadPolicy(root, topology);
  ReadZones(root["zones"], topology);
  return topology;
}

}  // namespace numafit::api
