#include "cache/fleet_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/resource_class.h"
#include "api/tree_reader.h"
#include "api/yaml_tree.h"
#include "cache/device_ids.h"
#include "cache/embedded_fleet.h"
#include "cache/fleet_file_reader.h"

namespace numafit::cache {
namespace {

constexpr std::string_view kApiVersion = "numafit.io/v1alpha1";
constexpr int kMaxNumaId = 63;
constexpr int kMaxPerEntry = 100'000;

struct Shape {
  std::string kubelet_version;
  KubeletReservations reservations;
  policy::TopologySpec spec;
  std::shared_ptr<const policy::Topology> topology;
};

std::optional<std::vector<int>> ReadDeviceNuma(const api::TreeReader& entry,
                                               const policy::TopologySpec& spec) {
  if (entry["numa"].IsNull()) return std::nullopt;
  // -1 is what some plugins publish for "unknown"; the kubelet finds it in no mask.
  std::vector<int> ids = entry["numa"].Ints(-1, kMaxNumaId);
  for (const int id : ids) {
    const bool known = id == -1 || std::any_of(spec.numa.begin(), spec.numa.end(),
                                               [id](const auto& numa) { return numa.id == id; });
    if (!known) entry["numa"].Fail(fmt::format("names NUMA {}, which this shape has not", id));
  }
  return ids;
}

// One entry of `devices`; `numbers` counts the devices of each resource over the entries.
void ReadDevices(const api::TreeReader& entry, std::map<std::string, int>& numbers,
                 policy::TopologySpec& spec) {
  entry.AllowOnly({"resource", "numa", "count", "tokens", "ids", "idPrefix", "unhealthy"});
  entry["resource"].Require();
  const std::string resource = entry["resource"].Text();
  const std::optional<std::vector<int>> numa = ReadDeviceNuma(entry, spec);
  std::vector<policy::DeviceSpec>& devices = spec.devices[resource];
  const auto add = [&](std::string id, bool healthy) {
    policy::DeviceSpec& device = devices.emplace_back();
    device.endpoint = std::string(api::EndpointKey(id));
    device.id = std::move(id);
    device.numa = numa;
    device.healthy = healthy;
  };
  if (entry["ids"].IsPresent()) {
    for (const std::string_view key : {"count", "tokens", "idPrefix"}) {
      if (entry[key].IsPresent()) entry[key].Fail("cannot be given beside ids");
    }
    const std::vector<std::string> ids = entry["ids"].Texts();
    const auto size = static_cast<std::int64_t>(ids.size());
    const std::int64_t unhealthy = entry["unhealthy"].Int(0, size, 0);
    for (std::int64_t i = 0; i < size; ++i) {
      add(ids[static_cast<std::size_t>(i)], i < size - unhealthy);
    }
    numbers[resource] += static_cast<int>(size);
    return;
  }
  if (!entry["count"].IsPresent()) entry.Fail("needs count or ids");
  const std::int64_t count = entry["count"].Int(0, kMaxPerEntry, 0);
  const auto tokens = static_cast<int>(entry["tokens"].Int(1, kMaxPerEntry, 1));
  const std::int64_t unhealthy = entry["unhealthy"].Int(0, count, 0);
  const std::string prefix = entry["idPrefix"].Text();
  if (count * tokens > kMaxPerEntry) {
    entry.Fail(
        fmt::format("describes {} devices, expected at most {}", count * tokens, kMaxPerEntry));
    return;
  }
  int& number = numbers[resource];
  for (std::int64_t i = 0; i < count; ++i, ++number) {
    for (int token = 0; token < tokens; ++token) {
      add(MakeDeviceId(resource, {number, token, tokens}, prefix), i < count - unhealthy);
    }
  }
}

// Records a message of Topology::Create where it belongs: it begins with the key that it is about.
void FailOfTopology(const api::TreeReader& shape, std::string_view message) {
  const api::TreeReader kubelet = shape["kubelet"];
  const std::pair<std::string_view, api::TreeReader> places[] = {
      {"numa: ", shape["numa"]},
      {"devices: ", shape["devices"]},
      {"cpuManagerPolicy static: ", kubelet["cpuManagerPolicy"]},
      {"cpuManagerPolicyOptions: ", kubelet["cpuManagerPolicyOptions"]},
      {"reservedMemory: ", kubelet["reservedMemory"]}};
  for (const auto& [prefix, place] : places) {
    if (!message.starts_with(prefix) || !place.IsPresent()) continue;
    place.Fail(message.substr(prefix.size()));
    return;
  }
  shape.Fail(message);
}

void CheckReservedCpus(const api::TreeReader& place, const policy::TopologySpec& spec) {
  std::set<int> rest(spec.kubelet.reserved_cpus.begin(), spec.kubelet.reserved_cpus.end());
  for (const policy::NumaNodeSpec& numa : spec.numa) {
    for (const policy::CoreSpec& core : numa.cores) {
      for (const int cpu : core.threads) rest.erase(cpu);
    }
  }
  if (!rest.empty()) {
    place.Fail(fmt::format("names CPU {}, which this shape has not", *rest.begin()));
  }
}

Shape ReadShape(const api::TreeReader& place) {
  place.AllowOnly({"name", "kubelet", "numa", "devices"});
  Shape shape;
  KubeletEntry kubelet;
  ReadKubelet(place["kubelet"], kubelet);
  shape.kubelet_version = std::move(kubelet.version);
  shape.reservations = std::move(kubelet.reservations);
  shape.spec.kubelet = std::move(kubelet.settings);
  ReadMachine(place["numa"], shape.spec.numa);
  CheckReservedCpus(place["kubelet"]["reservedSystemCPUs"], shape.spec);
  std::map<std::string, int> numbers;
  place["devices"].ForEach(
      [&](const api::TreeReader& entry) { ReadDevices(entry, numbers, shape.spec); });
  if (!place.ok()) return shape;
  absl::StatusOr<std::shared_ptr<const policy::Topology>> topology =
      policy::Topology::Create(shape.spec);
  if (topology.ok()) {
    shape.topology = *std::move(topology);
  } else {
    FailOfTopology(place, std::string(topology.status().message()));
  }
  return shape;
}

std::vector<std::string> ReadNodeNames(const api::TreeReader& entry) {
  const std::int64_t count = entry["count"].Int(0, kMaxPerEntry, 1);
  if (entry["name"].IsPresent()) {
    if (entry["namePrefix"].IsPresent()) entry["namePrefix"].Fail("cannot be given beside name");
    if (count != 1) entry["count"].Fail("goes with namePrefix; one name is one node");
    return {entry["name"].Text()};
  }
  if (!entry["namePrefix"].IsPresent()) entry.Fail("needs name or namePrefix");
  const std::string prefix = entry["namePrefix"].Text();
  const auto width = std::max<std::size_t>(3, std::to_string(count).size());
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= count; ++i) {
    names.push_back(fmt::format("{}{:0{}}", prefix, i, width));
  }
  return names;
}

}  // namespace

void ReadNodes(const api::TreeReader& root, FleetFile& fleet) {
  std::map<std::string, Shape, std::less<>> shapes;
  root["shapes"].Require();
  root["shapes"].ForEach([&](const api::TreeReader& place) {
    place["name"].Require();
    const std::string name = place["name"].Text();
    if (shapes.count(name) != 0) place["name"].Fail(fmt::format("\"{}\" is taken", name));
    if (place.ok()) shapes.emplace(name, ReadShape(place));
  });
  std::set<std::string> taken;
  root["nodes"].Require();
  root["nodes"].ForEach([&](const api::TreeReader& entry) {
    entry.AllowOnly({"shape", "count", "name", "namePrefix", "labels"});
    entry["shape"].Require();
    const auto shape = shapes.find(entry["shape"].Text());
    if (shape == shapes.end()) {
      entry["shape"].Fail(fmt::format("\"{}\" is no shape of this file", entry["shape"].Text()));
    }
    const api::StringMap labels = entry["labels"].TextMap();
    const std::vector<std::string> names = ReadNodeNames(entry);
    if (!entry.ok()) return;
    for (const std::string& name : names) {
      if (name.empty()) entry.Fail("a node needs a name");
      if (!taken.insert(name).second) entry.Fail(fmt::format("node \"{}\" is there twice", name));
      fleet.nodes.push_back({name, shape->first, labels, shape->second.kubelet_version,
                             shape->second.reservations, shape->second.topology});
    }
  });
}

absl::StatusOr<FleetFile> ParseFleetFile(std::string_view yaml, const std::string& file_name) {
  absl::StatusOr<std::vector<api::YamlTree>> documents = api::ParseYaml(yaml, file_name);
  if (!documents.ok()) return documents.status();
  if (documents->size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}:1: has {} documents, expected one", file_name, documents->size()));
  }
  absl::Status status;
  FleetFile fleet;
  const api::TreeReader root(documents->front(), file_name, status);
  if (root.Require()) {
    root.AllowOnly({"apiVersion", "kind", "shapes", "nodes", "pods"});
    if (root["apiVersion"].Text() != kApiVersion) {
      root["apiVersion"].Fail(
          fmt::format("is \"{}\", expected {}", root["apiVersion"].Text(), kApiVersion));
    }
    if (root["kind"].Text() != "Fleet") {
      root["kind"].Fail(fmt::format("is \"{}\", expected Fleet", root["kind"].Text()));
    }
  }
  if (status.ok()) ReadNodes(root, fleet);
  if (status.ok()) ReadPods(root, fleet);
  if (!status.ok()) return status;
  return fleet;
}

absl::StatusOr<FleetFile> LoadFleetFile(const std::string& path) {
  absl::StatusOr<std::string> text = api::ReadTextFile(path);
  if (!text.ok()) return text.status();
  return ParseFleetFile(*text, path);
}

const FleetFile& EmbeddedFleet() {
  // A file of ours that does not parse is a broken build: value() aborts with the message, and
  // test/cache parses it.
  static const FleetFile* const fleet =
      new FleetFile(ParseFleetFile(kEmbeddedFleetYaml, "embedded fleet").value());
  return *fleet;
}

}  // namespace numafit::cache
