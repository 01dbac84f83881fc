#include "cli/admit/case.h"

#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "api/quantity.h"
#include "cli/admit/case_pod.h"
#include "cli/admit/case_steps.h"
#include "cli/admit/json_checks.h"
#include "policy/feature_gates.h"

namespace numafit::cli {
namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;
// topologymanager/policy_options.go.
constexpr int kDefaultMaxNumaNodes = 8;

// --- machine and kubelet

std::vector<policy::CoreSpec> ReadCores(const Node& node) {
  if (node.Has("cores") && !node.At("cores").Items().empty()) {
    std::vector<policy::CoreSpec> cores;
    for (const Node& item : node.At("cores").Items()) {
      item.CheckKeys({"threads", "socket", "uncore"});
      policy::CoreSpec& core = cores.emplace_back();
      core.threads = ReadIntegers(item.At("threads"), policy::CpuSet::kMaxIds - 1);
      if (item.Has("socket")) {
        core.socket = static_cast<int>(item.At("socket").Integer(0, kMaxGroupId));
      }
      if (item.Has("uncore")) {
        core.uncore = static_cast<int>(item.At("uncore").Integer(0, kMaxGroupId));
      }
    }
    return cores;
  }
  if (!node.Has("cpus")) return {};
  const auto per_core = static_cast<int>(
      node.Has("threadsPerCore") ? node.At("threadsPerCore").Integer(0, kMaxGroupId) : 1);
  const auto socket =
      static_cast<int>(node.Has("socket") ? node.At("socket").Integer(0, kMaxGroupId) : 0);
  return policy::CoresOf(ReadIntegers(node.At("cpus"), policy::CpuSet::kMaxIds - 1), per_core,
                         socket);
}

policy::NumaNodeSpec ReadNumaNode(const Node& node, policy::KubeletSettings& kubelet) {
  node.CheckKeys({"id", "cpus", "cores", "threadsPerCore", "socket", "reservedCpus", "memory",
                  "hugepages", "distances"});
  policy::NumaNodeSpec out;
  out.id = static_cast<int>(node.At("id").Integer(0, kMaxNumaId));
  if (node.Has("distances")) {
    for (const Node& distance : node.At("distances").Items()) {
      out.distances.push_back(static_cast<int>(distance.Integer(0, 1 << 20)));
    }
  }
  out.cores = ReadCores(node);
  if (node.Has("reservedCpus")) {
    for (const int cpu : ReadIntegers(node.At("reservedCpus"), policy::CpuSet::kMaxIds - 1)) {
      kubelet.reserved_cpus.push_back(cpu);
    }
  }
  if (node.Has("memory")) out.memory = node.At("memory").Integer(0, kMaxInteger);
  if (node.Has("hugepages")) {
    for (const auto& [size, pages] : node.At("hugepages").Members()) {
      const auto bytes = api::Quantity::Parse(size);
      if (!bytes.ok()) Fail(pages.path(), std::string(bytes.status().message()));
      if (bytes->value() <= 0) Fail(pages.path(), Quoted(size) + " is no page size");
      out.hugepages.push_back({.size = size,
                               .page_bytes = bytes->value(),
                               .pages = pages.Integer(0, kMaxInteger / bytes->value())});
    }
  }
  return out;
}

void ReadOptions(const Node& options, policy::TopologySpec& machine) {
  for (const auto& [name, node] : options.Members()) {
    const std::string value = node.String();
    if (name == "prefer-closest-numa-nodes") {
      const std::optional<bool> closest = policy::ParseGoBool(value);
      if (!closest) Fail(node.path(), Quoted(value) + " is neither true nor false");
      machine.kubelet.prefer_closest_numa_nodes = *closest;
    } else if (name == "max-allowable-numa-nodes") {
      int most = 0;
      const char* end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, most);
      if (error != std::errc() || stop != end || most < kDefaultMaxNumaNodes) {
        Fail(node.path(), Quoted(value) + " is no integer of " +
                              std::to_string(kDefaultMaxNumaNodes) + " or more");
      }
      machine.kubelet.max_allowable_numa_nodes = most;
    } else {
      Fail(node.path(), "a kubelet has no such option");
    }
  }
}

void ReadKubelet(const Node& root, policy::TopologySpec& machine) {
  policy::KubeletSettings& kubelet = machine.kubelet;
  if (root.Has("kubeletVersion")) {
    const std::string version = root.At("kubeletVersion").String();
    kubelet.version = policy::KubeletVersion::Parse(version);
    if (!kubelet.version.IsKnown()) {
      Fail("kubeletVersion", Quoted(version) + ": no rules are known for it");
    }
  }
  if (root.Has("topologyPolicy")) {
    const std::string name = root.At("topologyPolicy").String();
    const auto policy = policy::ParseTopologyPolicy(name.empty() ? "none" : name);
    if (!policy) Fail("topologyPolicy", "a kubelet has no policy " + Quoted(name));
    kubelet.policy = *policy;
  }
  // With policy none the kubelet looks at neither.
  const bool none = kubelet.policy == policy::TopologyPolicy::kNone;
  if (root.Has("scope")) {
    const std::string name = root.At("scope").String();
    const auto scope = policy::ParseTopologyScope(name.empty() ? "container" : name);
    if (!scope && !none) Fail("scope", "a kubelet has no scope " + Quoted(name));
    kubelet.scope = scope.value_or(policy::TopologyScope::kContainer);
  }
  if (!root.Has("options")) return;
  if (none) {
    for (const auto& [name, node] : root.At("options").Members()) (void)node.String();
    return;
  }
  ReadOptions(root.At("options"), machine);
  if (!kubelet.prefer_closest_numa_nodes) return;
  for (const policy::NumaNodeSpec& node : machine.numa) {
    if (node.distances.empty()) {
      Fail("numa", "id " + std::to_string(node.id) +
                       ": prefer-closest-numa-nodes needs distances, there are none");
    }
  }
}

void ReadCpuManager(const Node& root, policy::KubeletSettings& kubelet) {
  const std::string policy = root.Has("cpuPolicy") ? root.At("cpuPolicy").String() : "";
  if (policy == "static") {
    kubelet.cpu_policy = policy::CpuPolicy::kStatic;
  } else if (!policy.empty() && policy != "none") {
    Fail("cpuPolicy", "a kubelet has no policy " + Quoted(policy));
  }
  if (root.Has("cpuOptions")) {
    for (const auto& [name, value] : root.At("cpuOptions").Members()) {
      kubelet.cpu_options[name] = value.String();
    }
  }
  if (root.Has("reservedCpuMilli")) {
    kubelet.reserved_cpu_milli = root.At("reservedCpuMilli").Integer(0, kMaxInteger);
  }
}

void ReadMemoryManager(const Node& root, policy::KubeletSettings& kubelet) {
  const std::string policy = root.Has("memoryPolicy") ? root.At("memoryPolicy").String() : "";
  if (policy == "Static") {
    kubelet.memory_policy = policy::MemoryPolicy::kStatic;
  } else if (!policy.empty() && policy != "None") {
    Fail("memoryPolicy", "a kubelet has no policy " + Quoted(policy));
  }
  if (!root.Has("reservedMemory")) return;
  for (const Node& entry : root.At("reservedMemory").Items()) {
    entry.CheckKeys({"numa", "limits"});
    policy::MemoryReservation& reservation = kubelet.reserved_memory.emplace_back();
    reservation.numa = static_cast<int>(entry.At("numa").Integer(0, kMaxInteger >> 24));
    for (const auto& [type, amount] : entry.At("limits").Members()) {
      reservation.limits[type] = ReadQuantity(amount).value();
    }
  }
}

constexpr char kPodLevelManagers[] = "PodLevelResourceManagers";

void ReadGates(const Node& root, policy::KubeletSettings& kubelet) {
  if (!root.Has("featureGates")) return;
  for (const auto& [gate, on] : root.At("featureGates").Members()) {
    kubelet.feature_gates[gate] = on.Bool();
    if (gate == kPodLevelManagers && !kubelet.version.HasPodLevelResourceManagers()) {
      Fail(on.path(), "a kubelet of this version has no such gate");
    }
  }
  if (policy::PodLevelResourceManagersAreOn(kubelet) &&
      !policy::GateIsOn(kubelet.feature_gates, "PodLevelResources", "AllBeta", true)) {
    Fail("featureGates", "PodLevelResourceManagers without PodLevelResources");
  }
  if (!kubelet.version.MaxAllowableNumaNodesIsStable() && root.Has("options") &&
      kubelet.policy != policy::TopologyPolicy::kNone &&
      root.At("options").Has("max-allowable-numa-nodes") &&
      !policy::GateIsOn(kubelet.feature_gates, "TopologyManagerPolicyBetaOptions", "AllBeta",
                        true)) {
    Fail("options.max-allowable-numa-nodes", "needs the gate TopologyManagerPolicyBetaOptions");
  }
}

Case ReadCase(const Node& root) {
  root.CheckKeys({"id", "kubeletVersion", "numa", "topologyPolicy", "scope", "options", "cpuPolicy",
                  "cpuOptions", "reservedCpuMilli", "memoryPolicy", "reservedMemory",
                  "featureGates", "devices", "preferredAllocation", "steps", "repeat", "brief"});
  Case out;
  for (const Node& node : root.At("numa").Items()) {
    out.machine.numa.push_back(ReadNumaNode(node, out.machine.kubelet));
  }
  ReadKubelet(root, out.machine);
  ReadCpuManager(root, out.machine.kubelet);
  ReadMemoryManager(root, out.machine.kubelet);
  ReadGates(root, out.machine.kubelet);
  if (root.Has("repeat")) (void)root.At("repeat").Integer(0, kMaxInteger);
  if (root.Has("brief")) (void)root.At("brief").Bool();
  if (root.Has("devices")) out.devices = ReadDevices(root.At("devices"));
  if (root.Has("preferredAllocation")) out.prefer = ReadOrders(root.At("preferredAllocation"));
  out.steps = ReadSteps(root.At("steps"), out.devices, out.machine.kubelet);
  return out;
}

}  // namespace

ParsedCase ParseCase(const std::string& line) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    // Malformed, or a number that no double can be.
    return {.id = "", .value = absl::InvalidArgumentError(error.what())};
  }
  std::string id;
  if (json.is_object() && json.contains("id")) {
    id = json["id"].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  try {
    return {.id = id, .value = ReadCase(Node(json, ""))};
  } catch (const CaseError& error) {
    return {.id = id,
            .value = error.unimplemented ? absl::UnimplementedError(error.message)
                                         : absl::InvalidArgumentError(error.message)};
  }
}

}  // namespace numafit::cli
