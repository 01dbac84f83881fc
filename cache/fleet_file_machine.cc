// The fleet file's `numa`: CPUs, memory and distances of a shape.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "api/quantity.h"
#include "cache/fleet_file_reader.h"
#include "policy/cpu_set.h"

namespace numafit::cache {
namespace {

constexpr int kMaxNumaId = 63;
constexpr int kMaxSocket = 255;
constexpr int kMaxUncore = 4095;
// Between NUMA ids of which one is not there (the kernel writes 255 for unreachable).
constexpr int kUnknownDistance = 255;
constexpr std::int64_t kKernelUnit = 1024;  // /proc and /sys give memory in KiB

// A list as the kernel writes it, ascending.
std::vector<int> ReadCpus(const api::TreeReader& place) {
  std::vector<int> cpus;
  if (place.IsNull()) return cpus;
  const absl::StatusOr<policy::CpuSet> set = policy::ParseCpuSet(place.Text());
  if (!set.ok()) {
    place.Fail(fmt::format("is \"{}\": {}", place.Text(), std::string(set.status().message())));
    return cpus;
  }
  set->ForEach([&](int id) { cpus.push_back(id); });
  return cpus;
}

// The further threads of the cores in `cores`: the k-th CPU of each list belongs to the k-th core.
void AddSiblings(const api::TreeReader& place, std::vector<policy::CoreSpec>& cores) {
  const auto add = [&](const api::TreeReader& list) {
    const std::vector<int> cpus = ReadCpus(list);
    if (cpus.size() != cores.size()) {
      list.Fail(fmt::format("names {} CPUs, expected one for each of the {} in cpus", cpus.size(),
                            cores.size()));
      return;
    }
    for (std::size_t k = 0; k < cpus.size(); ++k) cores[k].threads.push_back(cpus[k]);
  };
  if (place.IsList()) {
    place.ForEach(add);
  } else if (!place.IsNull()) {
    add(place);
  }
}

std::vector<policy::CoreSpec> ReadCores(const api::TreeReader& place) {
  std::vector<policy::CoreSpec> cores;
  place.ForEach([&](const api::TreeReader& entry) {
    entry.AllowOnly({"threads", "socket", "uncore"});
    entry["threads"].Require();
    policy::CoreSpec& core = cores.emplace_back();
    core.threads = entry["threads"].IsList() ? entry["threads"].Ints(0, policy::CpuSet::kMaxIds - 1)
                                             : ReadCpus(entry["threads"]);
    core.socket = static_cast<int>(entry["socket"].Int(0, kMaxSocket, 0));
    if (!entry["uncore"].IsNull()) {
      core.uncore = static_cast<int>(entry["uncore"].Int(0, kMaxUncore, 0));
    }
  });
  return cores;
}

std::vector<policy::CoreSpec> ReadNumaCores(const api::TreeReader& numa) {
  if (numa["cores"].IsPresent()) {
    for (const std::string_view key : {"cpus", "siblings", "threadsPerCore", "socket"}) {
      if (numa[key].IsPresent()) numa[key].Fail("cannot be given beside cores");
    }
    return ReadCores(numa["cores"]);
  }
  const auto threads = static_cast<int>(numa["threadsPerCore"].Int(1, 8, 1));
  const auto socket = static_cast<int>(numa["socket"].Int(0, kMaxSocket, 0));
  if (numa["siblings"].IsPresent() && numa["threadsPerCore"].IsPresent()) {
    numa["threadsPerCore"].Fail("cannot be given beside siblings");
  }
  std::vector<policy::CoreSpec> cores = policy::CoresOf(ReadCpus(numa["cpus"]), threads, socket);
  AddSiblings(numa["siblings"], cores);
  return cores;
}

std::vector<policy::HugepagePool> ReadHugepages(const api::TreeReader& place) {
  std::vector<policy::HugepagePool> pools;
  place.ForEachField([&](const std::string& size, const api::TreeReader& value) {
    const absl::StatusOr<api::Quantity> bytes = api::Quantity::Parse(size);
    // Resource names go by the one spelling that Kubernetes has for a size.
    if (!bytes.ok() || bytes->value() < kKernelUnit || FormatBytes(bytes->value()) != size) {
      value.Fail("is no page size, expected one like 2Mi or 1Gi");
      return;
    }
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / bytes->value();
    pools.push_back({size, bytes->value(), value.Int(0, most, 0)});
  });
  return pools;
}

policy::NumaNodeSpec ReadNuma(const api::TreeReader& numa) {
  numa.AllowOnly({"id", "cpus", "siblings", "threadsPerCore", "socket", "cores", "memory",
                  "hugepages", "distances"});
  policy::NumaNodeSpec spec;
  numa["id"].Require();
  spec.id = static_cast<int>(numa["id"].Int(0, kMaxNumaId, 0));
  spec.cores = ReadNumaCores(numa);
  spec.memory = numa["memory"].Units(0);
  if (spec.memory % kKernelUnit != 0) {
    numa["memory"].Fail(fmt::format("is {} bytes, expected whole KiB", spec.memory));
  }
  spec.hugepages = ReadHugepages(numa["hugepages"]);
  std::int64_t rest = spec.memory;
  for (const policy::HugepagePool& pool : spec.hugepages) {
    if (pool.pages > rest / pool.page_bytes) {
      numa["hugepages"].Fail(fmt::format("is more than the {} of memory that NUMA {} has",
                                         FormatBytes(spec.memory), spec.id));
      break;
    }
    rest -= pool.pages * pool.page_bytes;
  }
  spec.distances = numa["distances"].Ints(1, 255);
  return spec;
}

// The file gives distances by position, as sysfs does; the kubelet and TopologySpec go by NUMA id.
// Ids that the machine has not are never asked for.
void DistancesById(const api::TreeReader& place, std::vector<policy::NumaNodeSpec>& numa) {
  int last = 0;
  for (const policy::NumaNodeSpec& node : numa) last = std::max(last, node.id);
  for (policy::NumaNodeSpec& node : numa) {
    if (node.distances.empty()) continue;
    if (node.distances.size() != numa.size()) {
      place.Fail(fmt::format("NUMA {} has {} distances, expected one for each of {} NUMA nodes",
                             node.id, node.distances.size(), numa.size()));
      return;
    }
    std::vector<int> by_id(static_cast<std::size_t>(last) + 1, kUnknownDistance);
    for (std::size_t i = 0; i < numa.size(); ++i) {
      by_id[static_cast<std::size_t>(numa[i].id)] = node.distances[i];
    }
    node.distances = std::move(by_id);
  }
}

// A kernel has its page sizes on every NUMA node, if with no page.
void SpreadPageSizes(std::vector<policy::NumaNodeSpec>& numa) {
  std::map<std::int64_t, std::string> sizes;
  for (const policy::NumaNodeSpec& node : numa) {
    for (const policy::HugepagePool& pool : node.hugepages) sizes[pool.page_bytes] = pool.size;
  }
  for (policy::NumaNodeSpec& node : numa) {
    std::vector<policy::HugepagePool> all;
    for (const auto& [bytes, size] : sizes) {
      const auto own = std::find_if(node.hugepages.begin(), node.hugepages.end(),
                                    [&](const auto& pool) { return pool.size == size; });
      all.push_back({size, bytes, own == node.hugepages.end() ? 0 : own->pages});
    }
    node.hugepages = std::move(all);
  }
}

void CheckCpus(const api::TreeReader& place, const std::vector<policy::NumaNodeSpec>& numa) {
  std::set<int> taken;
  for (const policy::NumaNodeSpec& node : numa) {
    for (const policy::CoreSpec& core : node.cores) {
      if (core.threads.empty()) place.Fail(fmt::format("NUMA {} has a core without CPUs", node.id));
      for (const int cpu : core.threads) {
        if (!taken.insert(cpu).second) place.Fail(fmt::format("CPU {} is there twice", cpu));
      }
    }
  }
}

}  // namespace

void ReadMachine(const api::TreeReader& place, std::vector<policy::NumaNodeSpec>& numa) {
  place.Require();
  place.ForEach([&](const api::TreeReader& entry) { numa.push_back(ReadNuma(entry)); });
  DistancesById(place, numa);
  SpreadPageSizes(numa);
  CheckCpus(place, numa);
}

}  // namespace numafit::cache
