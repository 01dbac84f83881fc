// A case as docs/case-format.md defines it: one node and what happens to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/cpu_set.h"
#include "policy/demand.h"
#include "policy/qos.h"
#include "policy/topology.h"

namespace numafit::cli {

struct CaseDevice {
  std::string id;
  std::optional<std::vector<int>> numa;
  bool healthy = true;
};
using DevicesByResource = std::map<std::string, std::vector<CaseDevice>>;
using OrderByResource = std::map<std::string, std::vector<std::string>>;

// Everything that a container, or a Pod as a whole, asks for, in thousandths; a missing request is
// the limit. Read only in cases with a resize.
struct CaseAsks {
  policy::ResourceAmounts limits;
  policy::ResourceAmounts requests;

  friend bool operator==(const CaseAsks&, const CaseAsks&) = default;
};

struct CaseContainer {
  enum class Kind { kInit, kSidecar, kApp };
  std::string name;
  Kind kind = Kind::kApp;
  // All limits, of whatever resource, rounded up to integers.
  std::map<std::string, std::int64_t, std::less<>> limits;
  // CPU, memory and hugepages in thousandths; a missing request is the limit.
  policy::ResourceAmounts compute_requests;
  bool requests_equal_limits = false;  // of CPUs and memory, and there are some
  CaseAsks asks;
};

struct CasePod {
  std::string name;
  std::vector<CaseContainer> containers;  // kubelet order
  policy::QosClass qos = policy::QosClass::kBestEffort;
  bool pod_level_resources = false;
  policy::ResourceAmounts pod_requests;  // of the Pod as a whole, as in compute_requests
  CaseAsks asks;                         // of the Pod as a whole
};

// A block of the memory manager; resource names and NUMA ids as the case writes them.
struct CaseMemoryBlock {
  std::string type;
  std::vector<int> numa;
  std::uint64_t size = 0;
};

// What a real kubelet gave a container.
struct CaseHolding {
  OrderByResource devices;
  policy::CpuSet cpus;
  std::vector<CaseMemoryBlock> memory;
};

// The memory manager's book of one NUMA node.
struct CaseMemoryNode {
  int numa = 0;
  std::int32_t assignments = 0;
  std::vector<int> cells;
  std::map<std::string, std::uint64_t> free;
};

struct CaseReadmitted;

// What a real kubelet did with a Pod, or with all of them in a restart, or what its books said
// after a step.
struct CaseObserved {
  bool admitted = false;                          // or the resize is taken
  std::string resize;                             // the verdict on one
  std::map<std::string, CaseHolding> containers;  // of an admitted Pod
  std::map<std::string, CaseHolding> left;        // of a refused one
  CaseHolding as_a_whole;                         // the Pod's own entries, either way
  std::optional<policy::CpuSet> default_cpus;
  std::optional<std::vector<CaseMemoryNode>> memory_state;
  std::vector<CaseReadmitted> readmitted;
};

// A Pod that was admitted again.
struct CaseReadmitted {
  std::string name;
  CaseObserved seen;
};

struct CaseStep {
  enum class Kind { kAdmit, kRemove, kStart, kDevices, kDisconnect, kPrefer, kRestart, kResize };
  Kind kind = Kind::kStart;
  CasePod pod;                           // admit, resize
  std::optional<CaseObserved> observed;  // admit, start, restart, resize
  std::string name;                      // remove, start: the Pod; disconnect: the resource
  DevicesByResource devices;             // devices
  OrderByResource prefer;                // prefer
};

struct Case {
  // Without devices and orders: those change on the way.
  policy::TopologySpec machine;
  DevicesByResource devices;
  OrderByResource prefer;
  std::vector<CaseStep> steps;
};

struct ParsedCase {
  // The case's id as JSON text, empty when it has none; known also where the case is wrong.
  std::string id;
  absl::StatusOr<Case> value;
};

// Reads one line. InvalidArgument says what is malformed, or why a kubelet would not start like
// this; Unimplemented names a key that the mirror cannot judge yet.
[[nodiscard]] ParsedCase ParseCase(const std::string& line);

}  // namespace numafit::cli
