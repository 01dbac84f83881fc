#include "policy/pod_level.h"

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "policy/mutation.h"

namespace numafit::policy {
namespace {

using Kind = ContainerDemand::Kind;
using BytesByType = std::map<int, std::uint64_t>;

// The most that long-running containers have for themselves leaves nothing of some type.
bool IsUsedUp(const MemoryRequests& pod, const BytesByType& used) {
  for (const MemoryRequests::Item& item : pod.items) {
    const auto at = used.find(item.type);
    if ((at == used.end() ? 0 : at->second) >= item.bytes) return true;
  }
  return false;
}

void Add(const MemoryRequests& requests, BytesByType& sums) {
  for (const MemoryRequests::Item& item : requests.items) sums[item.type] += item.bytes;
}

// Without blocks of nothing. Hugepages of a size that no NUMA node has can be asked for only by a
// container whose Pod has none, which no API server lets pass: no book has a place for them.
MemoryBlocks BlocksOf(const BytesByType& bytes, NumaMask numa) {
  MemoryBlocks blocks;
  for (const auto& [type, size] : bytes) {
    if (size == 0 || type == kUnknownMemoryType) continue;
    blocks.push_back({.numa = numa, .type = type, .size = size});
  }
  return blocks;
}

BytesByType BytesOf(const MemoryRequests& requests) {
  BytesByType bytes;
  Add(requests, bytes);
  return bytes;
}

BytesByType Without(const BytesByType& pod, const BytesByType& sidecars) {
  BytesByType left = pod;
  for (auto& [type, size] : left) {
    if (const auto at = sidecars.find(type); at != sidecars.end()) size -= at->second;
  }
  return left;
}

}  // namespace

bool LeavesNoCpusToShare(std::int64_t pod, const Demand& demand,
                         const RequestsOfContainers& containers) {
  if (Mutated(Mutation::kPodLevelEmptyPool)) return false;
  bool shared = false;
  std::int64_t used = 0;  // by sidecars and app containers so far
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const std::int64_t own = containers[i].cpus;
    if (demand.containers[i].kind == Kind::kInit) {
      if (own == 0 && used >= pod) return true;
      continue;
    }
    shared = shared || own == 0;
    used += own;
  }
  return shared && used >= pod;
}

bool LeavesNoMemoryToShare(const MemoryRequests& pod, const Demand& demand,
                           const RequestsOfContainers& containers) {
  if (Mutated(Mutation::kPodLevelEmptyPool)) return false;
  bool shared = false;
  BytesByType used;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const MemoryRequests& own = containers[i].memory;
    if (own.unreadable) return true;
    if (demand.containers[i].kind == Kind::kInit) {
      if (own.items.empty() && IsUsedUp(pod, used)) return true;
      continue;
    }
    shared = shared || own.items.empty();
    Add(own, used);
  }
  return shared && IsUsedUp(pod, used);
}

CpuParts PartCpus(const CpuManager& manager, const CpuSet& pod, const Demand& demand,
                  const RequestsOfContainers& containers) {
  CpuParts parts;
  std::vector<std::optional<CpuSet>> own(containers.size());
  CpuSet left = pod;  // by sidecars, and then by app containers
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const Kind kind = demand.containers[i].kind;
    const std::int64_t count = containers[i].cpus;
    if (count == 0) {
      if (kind == Kind::kInit) own[i] = left;
      continue;
    }
    Taken taken = manager.TakeFrom(left, count);
    if (taken.failure != TakeFailure::kNone) {
      parts.failure = taken.failure;
      return parts;
    }
    const bool stays = kind == Kind::kApp ||
                       (kind == Kind::kSidecar && !Mutated(Mutation::kPodLevelSidecarLeaves));
    if (stays) left -= taken.cpus;
    own[i] = std::move(taken.cpus);
  }
  for (std::optional<CpuSet>& cpus : own) parts.containers.push_back(cpus ? *cpus : left);
  return parts;
}

std::vector<MemoryBlocks> PartMemory(const MemoryBlocks& pod, const Demand& demand,
                                     const RequestsOfContainers& containers) {
  const NumaMask numa = pod.empty() ? NumaMask() : pod.front().numa;
  BytesByType all;
  for (const MemoryBlock& block : pod) all[block.type] = block.size;
  BytesByType sidecars;
  std::vector<std::optional<MemoryBlocks>> own(containers.size());
  std::size_t i = 0;
  for (; i < containers.size() && demand.containers[i].kind != Kind::kApp; ++i) {
    const MemoryRequests& requests = containers[i].memory;
    const bool sidecar = demand.containers[i].kind == Kind::kSidecar;
    if (!requests.items.empty()) {
      own[i] = BlocksOf(BytesOf(requests), numa);
      if (sidecar) Add(requests, sidecars);
    } else if (!sidecar) {
      own[i] = BlocksOf(Without(all, sidecars), numa);
    }
  }
  BytesByType left = Without(all, sidecars);
  for (; i < containers.size(); ++i) {
    const MemoryRequests& requests = containers[i].memory;
    if (requests.items.empty()) continue;
    own[i] = BlocksOf(BytesOf(requests), numa);
    for (const MemoryRequests::Item& item : requests.items) {
      if (item.bytes > 0) left[item.type] -= item.bytes;
    }
  }
  const MemoryBlocks shared = BlocksOf(left, numa);
  std::vector<MemoryBlocks> parts;
  for (std::optional<MemoryBlocks>& blocks : own) parts.push_back(blocks ? *blocks : shared);
  return parts;
}

}  // namespace numafit::policy
