// What people, reports and files say of a machine and its kubelet. Plain values, unchecked:
// Topology::Create checks them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/kubelet_version.h"

namespace numafit::policy {

enum class TopologyPolicy { kNone, kBestEffort, kRestricted, kSingleNumaNode };
enum class TopologyScope { kContainer, kPod };

// "none", "best-effort", … as in KubeletConfiguration.
[[nodiscard]] std::string_view TopologyPolicyName(TopologyPolicy policy);
[[nodiscard]] std::optional<TopologyPolicy> ParseTopologyPolicy(std::string_view name);
[[nodiscard]] std::string_view TopologyScopeName(TopologyScope scope);
[[nodiscard]] std::optional<TopologyScope> ParseTopologyScope(std::string_view name);

// restricted and single-numa-node refuse what they cannot align; the others do not.
[[nodiscard]] constexpr bool Enforces(TopologyPolicy policy) {
  return policy == TopologyPolicy::kRestricted || policy == TopologyPolicy::kSingleNumaNode;
}

enum class CpuPolicy { kNone, kStatic };
enum class MemoryPolicy { kNone, kStatic };

// One entry of the kubelet's reservedMemory: bytes by "memory" and "hugepages-<size>".
struct MemoryReservation {
  int numa = 0;
  std::map<std::string, std::int64_t> limits;

  friend bool operator==(const MemoryReservation&, const MemoryReservation&) = default;
};

struct KubeletSettings {
  KubeletVersion version;
  TopologyPolicy policy = TopologyPolicy::kNone;
  TopologyScope scope = TopologyScope::kContainer;
  bool prefer_closest_numa_nodes = false;
  // More NUMA nodes than this and the kubelet does not start (policy other than none).
  int max_allowable_numa_nodes = 8;

  CpuPolicy cpu_policy = CpuPolicy::kNone;
  std::map<std::string, std::string> cpu_options;
  // reservedSystemCPUs; empty: the kubelet picks as many as reserved_cpu_milli, rounded up, needs.
  std::vector<int> reserved_cpus;
  // kubeReserved and systemReserved in thousandths of a CPU; 0: as many as reserved_cpus.
  std::int64_t reserved_cpu_milli = 0;
  MemoryPolicy memory_policy = MemoryPolicy::kNone;
  std::vector<MemoryReservation> reserved_memory;
  // Those that are set; the others have the default of the version.
  std::map<std::string, bool> feature_gates;

  friend bool operator==(const KubeletSettings&, const KubeletSettings&) = default;
};

// A physical core and its logical CPUs.
struct CoreSpec {
  std::vector<int> threads;
  int socket = 0;
  // The last-level cache that it shares with others; nullopt: not known.
  std::optional<int> uncore;

  friend bool operator==(const CoreSpec&, const CoreSpec&) = default;
};

// Hugepages of one size.
struct HugepagePool {
  std::string size;  // as in the resource name: "2Mi"
  std::int64_t page_bytes = 0;
  std::int64_t pages = 0;

  friend bool operator==(const HugepagePool&, const HugepagePool&) = default;
};

struct NumaNodeSpec {
  int id = 0;
  std::vector<CoreSpec> cores;          // empty on a CPU-less NUMA node
  std::int64_t memory = 0;              // bytes, hugepages included
  std::vector<HugepagePool> hugepages;  // no size twice
  // SLIT distances, indexed by NUMA id as the kubelet does (numa_info.go). Empty: 10 to itself, 20
  // to the others. Looked at with prefer_closest_numa_nodes only; it must then reach the largest
  // NUMA id.
  std::vector<int> distances;
};

// A boolean as Go's strconv.ParseBool reads it, which is how kubelets read the values of policy
// options; nullopt: it is none.
[[nodiscard]] std::optional<bool> ParseGoBool(std::string_view text);

// Cores of so many threads each, in the order of the list; the last may have fewer.
[[nodiscard]] std::vector<CoreSpec> CoresOf(const std::vector<int>& cpus, int threads_per_core,
                                            int socket);

struct DeviceSpec {
  std::string id;
  // nullopt: the plugin publishes no topology ("don't care"); empty: a topology without NUMA
  // nodes. The kubelet tells the two apart. Ids outside 0..63 (a plugin that
  // publishes -1) are in no mask and kept here as they came.
  std::optional<std::vector<int>> numa;
  // Where the hardware of a device without topology is, as far as somebody else knows. No business
  // of the kubelet: alignment goes by it. Empty: not known.
  std::vector<int> actual_numa;
  // Devices with the same endpoint share hardware (tokens of one shared endpoint). Empty: the id.
  std::string endpoint;
  bool healthy = true;
  // Devices of different cohorts are never one class, although the kubelet cannot tell them apart
  // now: a replay knows which of them will differ later. Empty everywhere else.
  std::string cohort;
};

struct TopologySpec {
  KubeletSettings kubelet;
  std::vector<NumaNodeSpec> numa;
  // Registered resources. A name with an empty list is registered with no device.
  std::map<std::string, std::vector<DeviceSpec>> devices;
  // Resources whose plugin answers GetPreferredAllocation in this order (then by id). Only known
  // in tests and bug reports; elsewhere the kubelet's pick counts as free.
  std::map<std::string, std::vector<std::string>> preferred_allocation;
  // Resources whose plugin gives every token of a container another endpoint (another card), and
  // fails where there are too few in what the kubelet has picked from.
  std::set<std::string> one_token_per_endpoint;
};

}  // namespace numafit::policy
