// The fleet file: a whole fleet in YAML, for demos, tests, benchmarks, bug reports and for an
// extender whose inventory does not come from agents. Documented in docs/fleet-file.md.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/objects.h"
#include "policy/topology.h"

namespace numafit::cache {

// A running Pod of the file. What it holds is given per container by device ids, by NUMA node, or
// left to what the kubelet would have picked.
struct FleetPod {
  api::Pod pod;  // node_name set, phase Running
  // container name -> resource -> device ids; empty where the file does not say.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> devices;
  int line = 0;  // where the file describes it
};

// What a kubelet's configuration keeps from Pods, amounts as written; empty maps are absent keys.
// policy::KubeletSettings has what the managers make of it.
struct KubeletReservations {
  api::StringMap kube;
  api::StringMap system;
  api::StringMap eviction_hard;
};

struct FleetNode {
  std::string name;
  std::string shape;
  api::StringMap labels;
  std::string kubelet_version;  // as written, "v1.36.3"
  KubeletReservations reservations = {};
  // Nodes of one shape share one object.
  std::shared_ptr<const policy::Topology> topology;
};

struct FleetFile {
  std::vector<FleetNode> nodes;  // in file order
  std::vector<FleetPod> pods;
};

// Every error is InvalidArgument (NotFound for a missing file) and reads
// "FILE:LINE: PATH: what is wrong and what was expected"; unknown keys are errors.
absl::StatusOr<FleetFile> ParseFleetFile(std::string_view yaml, const std::string& file_name);
absl::StatusOr<FleetFile> LoadFleetFile(const std::string& path);
// The fleet of deploy/examples/fleet.yaml, compiled in.
const FleetFile& EmbeddedFleet();

// The fleet as JSON with one entry per node and per device (`numafit fleet expand`): what the lab
// and other tools read.
std::string ExpandFleet(const FleetFile& fleet);

}  // namespace numafit::cache
