#include "agent/kubelet/memory_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "agent/host_files.h"
#include "agent/kubelet/go_dump.h"
#include "agent/kubelet/state_file.h"

namespace numafit::agent {
namespace {

using api::JsonReader;

std::string DumpMap(const std::vector<std::string>& parts) {
  return fmt::format("map[{}]", fmt::join(parts, " "));
}

std::string DumpIds(const JsonReader& place, const std::vector<int>& ids) {
  return place.IsNull() ? "<nil>" : DumpInts(ids);
}

std::string ReadTable(const JsonReader& place, const std::string& type,
                      v1alpha1::MemoryBook* book) {
  if (place.IsNull()) return "<nil>";
  const std::uint64_t reserved = ReadUint64(place["reserved"]);
  const std::uint64_t free = ReadUint64(place["free"]);
  (*book->mutable_reserved())[type] = std::to_string(reserved);
  (*book->mutable_free())[type] = std::to_string(free);
  return fmt::format(
      "<*>{{TotalMemSize:(uint64){} SystemReserved:(uint64){} Allocatable:(uint64){} "
      "Reserved:(uint64){} Free:(uint64){}}}",
      ReadUint64(place["total"]), ReadUint64(place["systemReserved"]),
      ReadUint64(place["allocatable"]), reserved, free);
}

std::string ReadBook(const JsonReader& place, v1alpha1::MemoryBook* book) {
  book->set_assignments(static_cast<int>(place["numberOfAssignments"].Int(0, 1'000'000'000)));
  std::vector<std::string> tables;
  place["memoryMap"].ForEachMember([&](const std::string& type, const JsonReader& table) {
    tables.push_back(fmt::format("{}:{}", type, ReadTable(table, type, book)));
  });
  std::vector<int> cells = ReadNumaIds(place["cells"]);
  const std::string dump = fmt::format(
      "<*>{{NumberOfAssignments:(int){} MemoryMap:(map[v1.ResourceName]*state.MemoryTable){} "
      "Cells:([]int){}}}",
      book->assignments(), place["memoryMap"].IsNull() ? std::string("<nil>") : DumpMap(tables),
      DumpIds(place["cells"], cells));
  std::sort(cells.begin(), cells.end());
  for (const int cell : cells) book->add_cells(cell);
  return dump;
}

std::string ReadBooks(const JsonReader& place, MemoryState* state) {
  std::map<int, std::string> dumps;  // Go sorts the keys as numbers
  place.ForEachMember([&](const std::string& key, const JsonReader& item) {
    const std::optional<int> numa = ParseInt(key);
    if (!numa.has_value() || *numa < 0) {
      item.Fail("the key is no NUMA node");
      return;
    }
    if (item.IsNull()) {
      dumps[*numa] = fmt::format("{}:<nil>", *numa);
      return;
    }
    v1alpha1::MemoryBook& book = state->books.emplace_back();
    book.set_numa_node(*numa);
    dumps[*numa] = fmt::format("{}:{}", *numa, ReadBook(item, &book));
  });
  std::sort(state->books.begin(), state->books.end(),
            [](const v1alpha1::MemoryBook& a, const v1alpha1::MemoryBook& b) {
              return a.numa_node() < b.numa_node();
            });
  std::vector<std::string> parts;
  for (const auto& [numa, dump] : dumps) parts.push_back(dump);
  return DumpMap(parts);
}

std::string ReadBlocks(const JsonReader& place, std::vector<MemoryBlock>* blocks) {
  if (place.IsNull()) return "<nil>";
  std::vector<std::string> parts;
  place.ForEach([&](const JsonReader& item) {
    MemoryBlock block;
    block.numa_nodes = ReadNumaIds(item["numaAffinity"]);
    block.type = item["type"].String();
    block.bytes = ReadUint64(item["size"]);
    parts.push_back(
        fmt::format("{{NUMAAffinity:([]int){} Type:(v1.ResourceName){} Size:(uint64){}}}",
                    DumpIds(item["numaAffinity"], block.numa_nodes), block.type, block.bytes));
    std::sort(block.numa_nodes.begin(), block.numa_nodes.end());
    blocks->push_back(std::move(block));
  });
  return fmt::format("[{}]", fmt::join(parts, " "));
}

std::string ReadContainers(const JsonReader& place, MemoryState* state) {
  std::vector<std::string> pods;
  place.ForEachMember([&](const std::string& uid, const JsonReader& containers) {
    std::vector<std::string> parts;
    containers.ForEachMember([&](const std::string& name, const JsonReader& blocks) {
      parts.push_back(
          fmt::format("{}:{}", name, ReadBlocks(blocks, &state->containers[uid][name])));
    });
    pods.push_back(
        fmt::format("{}:{}", uid, containers.IsNull() ? std::string("<nil>") : DumpMap(parts)));
  });
  return DumpMap(pods);
}

std::string ReadPods(const JsonReader& place, MemoryState* state) {
  std::vector<std::string> pods;
  place.ForEachMember([&](const std::string& uid, const JsonReader& entry) {
    pods.push_back(fmt::format("{}:{{MemoryBlocks:([]state.Block){}}}", uid,
                               ReadBlocks(entry["memoryBlocks"], &state->pods[uid])));
  });
  return DumpMap(pods);
}

}  // namespace

absl::StatusOr<MemoryState> ParseMemoryState(std::string_view text) {
  absl::StatusOr<StateFile> file = OpenStateFile(text);
  if (!file.ok()) return file.status();
  absl::Status status;
  const JsonReader root(file->fields, status);
  MemoryState state;
  state.policy = root["policyName"].String();
  if (state.policy.empty()) root["policyName"].Fail("is missing");
  const std::string books = ReadBooks(root["machineState"], &state);
  const std::string containers = ReadContainers(root["entries"], &state);
  const std::string pods = ReadPods(root["podEntries"], &state);
  const std::uint64_t checksum = ReadUint64(root["checksum"]);
  if (!status.ok()) return status;
  if (file->verified || checksum == 0) return state;
  const std::string head = fmt::format(
      "(*state.MemoryManagerCheckpoint){{PolicyName:(string){} MachineState:(state.NUMANodeMap){} "
      "Entries:(state.ContainerMemoryAssignments){}",
      state.policy, books, containers);
  // Without Pod-level entries the two versions of the file look alike.
  status = VerifyChecksum(checksum,
                          {head + fmt::format(" PodEntries:(state.PodMemoryAssignments){}", pods) +
                               " Checksum:(checksum.Checksum)0}",
                           head + " Checksum:(checksum.Checksum)0}"});
  if (!status.ok()) return status;
  return state;
}

}  // namespace numafit::agent
