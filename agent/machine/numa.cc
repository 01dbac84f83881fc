#include "agent/machine/numa.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "policy/cpu_set.h"

namespace numafit::agent {
namespace {

using policy::CpuSet;

constexpr std::string_view kNodes = "/devices/system/node";
constexpr std::string_view kCpus = "/devices/system/cpu";

struct Core {
  int socket = 0;
  int uncore = -1;
  std::vector<int> threads;  // ascending
};

// "node12" -> 12 for the prefix "node".
std::optional<int> NumberAfter(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return ParseInt(name.substr(prefix.size()));
}

absl::StatusOr<CpuSet> ReadCpuList(const HostFiles& sys, const std::string& path) {
  const absl::StatusOr<std::string> text = sys.Read(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<CpuSet> cpus = policy::ParseCpuSet(Trim(*text));
  if (cpus.ok()) return cpus;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", sys.Path(path), std::string(cpus.status().message())));
}

// The CPUs in a mask as the kernel writes it: "00000000,000f00ff".
int CountMask(std::string_view mask) {
  int count = 0;
  for (const char c : mask) {
    const std::string_view digits = "0123456789abcdef";
    const std::size_t value = digits.find(c);
    if (value != std::string_view::npos) count += std::popcount(value);
  }
  return count;
}

struct Cache {
  int id = 0;
  int level = 0;
  int cpus = 0;
};

// Nothing where cadvisor would end with an error.
std::optional<std::vector<Cache>> ReadCaches(const HostFiles& sys, int cpu) {
  std::vector<Cache> caches;
  const std::string folder = fmt::format("{}/cpu{}/cache", kCpus, cpu);
  if (!sys.Exists(folder)) return std::nullopt;
  for (const std::string& name : sys.List(folder)) {
    if (!name.starts_with("index")) continue;
    const std::string path = folder + "/" + name;
    const std::optional<int> id = sys.Number(path + "/id");
    const std::optional<int> level = sys.Number(path + "/level");
    const std::optional<std::string> shared = sys.Line(path + "/shared_cpu_map");
    if (!id || !level || !shared || !sys.Exists(path + "/size")) return std::nullopt;
    caches.push_back({*id, *level, CountMask(*shared)});
  }
  return caches;
}

void AddUncoreCaches(const HostFiles& sys, std::vector<Core>& cores) {
  for (Core& core : cores) {
    const std::optional<std::vector<Cache>> caches = ReadCaches(sys, core.threads.front());
    if (!caches.has_value()) return;
    const auto cpus_of_node = cores.size() * core.threads.size();
    for (const Cache& cache : *caches) {
      if (cache.level <= 2 || static_cast<std::size_t>(cache.cpus) == cpus_of_node) continue;
      core.uncore = cache.id;
      break;
    }
  }
}

// In order of their first CPU.
std::vector<Core> ReadCores(const HostFiles& sys, const CpuSet& cpus) {
  std::map<std::pair<int, int>, std::size_t> known;  // (socket, core_id)
  std::vector<Core> cores;
  cpus.ForEach([&](int cpu) {
    const std::string folder = fmt::format("{}/cpu{}/topology", kCpus, cpu);
    const std::optional<int> core_id = sys.Number(folder + "/core_id");
    const std::optional<int> socket = sys.Number(folder + "/physical_package_id");
    // A CPU that tells neither is one that the kubelet does not use.
    if (!core_id.has_value() || !socket.has_value()) return;
    const auto [at, added] = known.try_emplace({*socket, *core_id}, cores.size());
    if (added) cores.push_back({*socket, -1, {}});
    cores[at->second].threads.push_back(cpu);
  });
  AddUncoreCaches(sys, cores);
  return cores;
}

// Folds cores with the same socket and cache into rows, as long as the n-th CPUs of a row ascend,
// so that sets can stand for lists.
void FoldCores(const std::vector<Core>& cores, v1alpha1::NumaNode* node) {
  struct Row {
    Core last;
    std::vector<CpuSet> threads;
  };
  std::vector<Row> rows;
  for (const Core& core : cores) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&core](const Row& candidate) {
      if (candidate.last.socket != core.socket || candidate.last.uncore != core.uncore ||
          candidate.last.threads.size() != core.threads.size()) {
        return false;
      }
      for (std::size_t i = 0; i < core.threads.size(); ++i) {
        if (candidate.last.threads[i] >= core.threads[i]) return false;
      }
      return true;
    });
    Row& target = row != rows.end()
                      ? *row
                      : rows.emplace_back(Row{core, std::vector<CpuSet>(core.threads.size())});
    target.last = core;
    for (std::size_t i = 0; i < core.threads.size(); ++i) target.threads[i].Add(core.threads[i]);
  }
  for (const Row& row : rows) {
    v1alpha1::Cores* out = node->add_cores();
    out->set_socket(row.last.socket);
    out->set_uncore_cache(row.last.uncore);
    for (const CpuSet& set : row.threads) out->add_threads(policy::FormatCpuSet(set));
  }
}

// "Node 0 MemTotal:       16384 kB"
std::int64_t MemoryOf(const HostFiles& sys, const std::string& folder) {
  const absl::StatusOr<std::string> text = sys.Read(folder + "/meminfo");
  if (!text.ok()) return 0;
  const std::size_t at = text->find("MemTotal:");
  if (at == std::string::npos) return 0;
  const std::string_view rest = Trim(std::string_view(*text).substr(at + 9));
  std::int64_t kilobytes = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), kilobytes);
  return kilobytes * 1024;
}

// As in resource names.
std::string HugepageSize(std::int64_t kilobytes) {
  if (kilobytes % (1024 * 1024) == 0) return fmt::format("{}Gi", kilobytes / (1024 * 1024));
  if (kilobytes % 1024 == 0) return fmt::format("{}Mi", kilobytes / 1024);
  return fmt::format("{}Ki", kilobytes);
}

void AddHugepages(const HostFiles& sys, const std::string& folder, v1alpha1::NumaNode* node) {
  std::map<int, int> pages;  // by size in kB
  for (const std::string& name : sys.List(folder + "/hugepages")) {
    if (!name.starts_with("hugepages-") || !name.ends_with("kB")) continue;
    const std::optional<int> size =
        ParseInt(std::string_view(name).substr(10, name.size() - 10 - 2));
    const std::optional<int> count = sys.Number(folder + "/hugepages/" + name + "/nr_hugepages");
    if (size.has_value() && count.has_value()) pages[*size] = *count;
  }
  for (const auto& [size, count] : pages) {
    v1alpha1::Hugepages* out = node->add_hugepages();
    out->set_size(HugepageSize(size));
    out->set_pages(count);
  }
}

// The kernel writes one distance per NUMA node that is online, in the order of their ids.
absl::Status AddDistances(const HostFiles& sys, const std::string& folder,
                          const std::vector<int>& ids, v1alpha1::NumaNode* node) {
  const std::optional<std::string> line = sys.Line(folder + "/distance");
  if (!line.has_value()) return absl::OkStatus();
  for (int id = 0; id <= ids.back(); ++id) node->add_distances(0);
  std::string_view rest = *line;
  for (const int id : ids) {
    rest = Trim(rest);
    const std::string_view word = rest.substr(0, rest.find(' '));
    const std::optional<int> distance = ParseInt(word);
    if (!distance.has_value()) {
      return absl::InvalidArgumentError(fmt::format("{}/distance: \"{}\", expected {} numbers",
                                                    sys.Path(folder), *line, ids.size()));
    }
    node->set_distances(id, *distance);
    rest.remove_prefix(word.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1alpha1::NumaNode>> ReadNumaNodes(const HostFiles& sys) {
  std::vector<int> ids;
  for (const std::string& name : sys.List(kNodes)) {
    const std::optional<int> id = NumberAfter(name, "node");
    if (id.has_value() && *id >= 0 && *id < CpuSet::kMaxIds) ids.push_back(*id);
  }
  if (ids.empty()) {
    return absl::NotFoundError(fmt::format("{}: shows no NUMA nodes", sys.Path(kNodes)));
  }
  std::sort(ids.begin(), ids.end());
  std::vector<v1alpha1::NumaNode> nodes;
  for (const int id : ids) {
    const std::string folder = fmt::format("{}/node{}", kNodes, id);
    v1alpha1::NumaNode& node = nodes.emplace_back();
    node.set_id(id);
    const absl::StatusOr<CpuSet> cpus = ReadCpuList(sys, folder + "/cpulist");
    if (!cpus.ok()) return cpus.status();
    FoldCores(ReadCores(sys, *cpus), &node);
    node.set_memory(std::to_string(MemoryOf(sys, folder)));
    AddHugepages(sys, folder, &node);
    const absl::Status distances = AddDistances(sys, folder, ids, &node);
    if (!distances.ok()) return distances;
  }
  return nodes;
}

}  // namespace numafit::agent
