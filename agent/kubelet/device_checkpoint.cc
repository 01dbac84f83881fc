#include "agent/kubelet/device_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "absl/strings/escaping.h"
#include "agent/host_files.h"
#include "agent/kubelet/go_dump.h"
#include "agent/kubelet/state_file.h"

namespace numafit::agent {
namespace {

using api::JsonReader;

std::vector<std::string> ReadTexts(const JsonReader& place) {
  std::vector<std::string> texts;
  place.ForEach([&texts](const JsonReader& text) { texts.push_back(text.String()); });
  return texts;
}

std::string DumpList(const JsonReader& place, const std::vector<std::string>& texts) {
  return place.IsNull() ? "<nil>" : DumpStrings(texts);
}

// AllocResp is base64 in JSON and numbers in the dump.
std::string DumpBytes(const JsonReader& place) {
  if (place.IsNull()) return "<nil>";
  std::string bytes;
  const std::string text = place.String();
  if (!absl::Base64Unescape(text, &bytes)) place.Fail("is no base64");
  std::vector<int> numbers;
  numbers.reserve(bytes.size());
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return DumpInts(numbers);
}

// NUMA node to ids; -1 stands for no topology.
std::string ReadDeviceIds(const JsonReader& place, DeviceCheckpoint::Entry* entry) {
  if (place.IsNull()) return "<nil>";
  std::map<int, std::string> dumps;  // Go sorts the keys as numbers
  place.ForEachMember([&](const std::string& key, const JsonReader& list) {
    const std::optional<int> numa = ParseInt(key);
    if (!numa.has_value()) {
      list.Fail("the key is no NUMA node");
      return;
    }
    const std::vector<std::string> ids = ReadTexts(list);
    dumps[*numa] = fmt::format("{}:{}", *numa, DumpList(list, ids));
    for (const std::string& id : ids) {
      std::vector<int>& nodes = entry->devices[id];
      if (*numa >= 0) nodes.push_back(*numa);
    }
  });
  for (auto& [id, nodes] : entry->devices) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }
  std::vector<std::string> parts;
  for (const auto& [numa, dump] : dumps) parts.push_back(dump);
  return fmt::format("map[{}]", fmt::join(parts, " "));
}

std::string ReadEntries(const JsonReader& place, DeviceCheckpoint* checkpoint) {
  if (place.IsNull()) return "<nil>";
  std::vector<std::string> parts;
  place.ForEach([&](const JsonReader& item) {
    DeviceCheckpoint::Entry entry;
    entry.pod_uid = item["PodUID"].String();
    entry.container = item["ContainerName"].String();
    entry.resource = item["ResourceName"].String();
    if (entry.pod_uid.empty()) item["PodUID"].Fail("is empty");
    if (entry.resource.empty()) item["ResourceName"].Fail("is empty");
    const std::string ids = ReadDeviceIds(item["DeviceIDs"], &entry);
    parts.push_back(fmt::format(
        "{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} "
        "DeviceIDs:(checkpoint.DevicesPerNUMA){} AllocResp:([]uint8){}}}",
        entry.pod_uid, entry.container, entry.resource, ids, DumpBytes(item["AllocResp"])));
    checkpoint->entries.push_back(std::move(entry));
  });
  return fmt::format("[{}]", fmt::join(parts, " "));
}

std::string ReadRegistered(const JsonReader& place, DeviceCheckpoint* checkpoint) {
  if (place.IsNull()) return "<nil>";
  std::map<std::string, std::string> dumps;  // sorted as Go sorts strings: by bytes
  place.ForEachMember([&](const std::string& resource, const JsonReader& list) {
    const std::vector<std::string> ids = ReadTexts(list);
    dumps[resource] = fmt::format("{}:{}", resource, DumpList(list, ids));
    checkpoint->registered[resource].insert(ids.begin(), ids.end());
  });
  std::vector<std::string> parts;
  for (const auto& [resource, dump] : dumps) parts.push_back(dump);
  return fmt::format("map[{}]", fmt::join(parts, " "));
}

}  // namespace

absl::StatusOr<DeviceCheckpoint> ParseDeviceCheckpoint(std::string_view text) {
  const absl::StatusOr<nlohmann::json> document = ParseObject(text);
  if (!document.ok()) return document.status();
  absl::Status status;
  const JsonReader root(*document, status);
  if (root["Data"].IsNull()) root["Data"].Fail("is missing");
  DeviceCheckpoint checkpoint;
  const std::string entries = ReadEntries(root["Data"]["PodDeviceEntries"], &checkpoint);
  const std::string registered = ReadRegistered(root["Data"]["RegisteredDevices"], &checkpoint);
  const std::uint64_t checksum = ReadUint64(root["Checksum"]);
  if (!status.ok()) return status;
  status = VerifyChecksum(
      checksum,
      {fmt::format("(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){} "
                   "RegisteredDevices:(map[string][]string){}}}",
                   entries, registered)});
  if (!status.ok()) return status;
  std::sort(checkpoint.entries.begin(), checkpoint.entries.end(),
            [](const DeviceCheckpoint::Entry& a, const DeviceCheckpoint::Entry& b) {
              return std::tie(a.pod_uid, a.container, a.resource) <
                     std::tie(b.pod_uid, b.container, b.resource);
            });
  return checkpoint;
}

}  // namespace numafit::agent
