// A case as docs/case-format.md defines it: one node and what happens to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/topology.h"

namespace numafit::cli {

struct CaseDevice {
  std::string id;
  std::optional<std::vector<int>> numa;
  bool healthy = true;
};
using DevicesByResource = std::map<std::string, std::vector<CaseDevice>>;
using OrderByResource = std::map<std::string, std::vector<std::string>>;

struct CaseContainer {
  enum class Kind { kInit, kSidecar, kApp };
  std::string name;
  Kind kind = Kind::kApp;
  // All limits, of whatever resource, rounded up to integers.
  std::map<std::string, std::int64_t, std::less<>> limits;
};

struct CasePod {
  std::string name;
  std::vector<CaseContainer> containers;  // kubelet order
};

// What a real kubelet did with a Pod: container -> resource -> device ids.
struct CaseObserved {
  bool admitted = false;
  std::map<std::string, OrderByResource> containers;
};

struct CaseStep {
  enum class Kind { kAdmit, kRemove, kStart, kDevices, kDisconnect, kPrefer };
  Kind kind = Kind::kStart;
  CasePod pod;                           // admit
  std::optional<CaseObserved> observed;  // admit
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
