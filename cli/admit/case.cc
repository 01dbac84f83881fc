#include "cli/admit/case.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "api/quantity.h"
#include "cli/admit/case_pod.h"
#include "cli/admit/json_checks.h"
#include "policy/feature_gates.h"

namespace numafit::cli {
namespace {

constexpr std::int64_t kMaxNumaId = policy::NumaMask::kMaxIds - 1;
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;
constexpr std::int64_t kMaxGroupId = 1 << 20;
// topologymanager/policy_options.go.
constexpr int kDefaultMaxNumaNodes = 8;

std::string Quoted(const std::string& text) {
  return "\"" + text + "\"";
}

std::vector<int> ReadIntegers(const Node& node, std::int64_t most) {
  std::vector<int> out;
  for (const Node& item : node.Items()) out.push_back(static_cast<int>(item.Integer(0, most)));
  return out;
}

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

// --- devices

CaseDevice ReadDevice(const Node& node) {
  node.CheckKeys({"id", "numa", "healthy"});
  CaseDevice device;
  device.id = node.At("id").String();
  if (node.Has("numa")) {
    std::vector<int>& numa = device.numa.emplace();
    for (const Node& id : node.At("numa").Items()) {
      numa.push_back(static_cast<int>(id.Integer(0, kMaxNumaId)));
    }
  }
  if (node.Has("healthy")) device.healthy = node.At("healthy").Bool();
  return device;
}

DevicesByResource ReadDevices(const Node& node) {
  DevicesByResource devices;
  for (const auto& [resource, list] : node.Members()) {
    std::vector<CaseDevice>& out = devices[resource];
    std::set<std::string> ids;
    if (list.value().is_null()) continue;
    for (const Node& item : list.Items()) {
      CaseDevice device = ReadDevice(item);
      if (device.id.empty() || !ids.insert(device.id).second) {
        Fail(item.path(), "id " + Quoted(device.id) + " is empty or there twice");
      }
      out.push_back(std::move(device));
    }
  }
  return devices;
}

OrderByResource ReadOrders(const Node& node) {
  OrderByResource orders;
  for (const auto& [resource, list] : node.Members()) orders[resource] = list.Strings();
  return orders;
}

// --- observed

policy::CpuSet ReadCpus(const Node& node, const char* key) {
  auto cpus = policy::ParseCpuSet(node.At(key).String());
  if (!cpus.ok()) Fail(node.path() + "." + key, std::string(cpus.status().message()));
  return *std::move(cpus);
}

std::vector<CaseMemoryBlock> ReadBlocks(const Node& node) {
  std::vector<CaseMemoryBlock> blocks;
  for (const Node& item : node.Items()) {
    blocks.push_back({.type = item.At("type").String(),
                      .numa = ReadIntegers(item.At("numa"), kMaxNumaId),
                      .size = item.At("size").Unsigned()});
  }
  return blocks;
}

CaseHolding ReadHolding(const Node& node) {
  CaseHolding holding;
  if (node.Has("devices")) holding.devices = ReadOrders(node.At("devices"));
  if (node.Has("cpus")) holding.cpus = ReadCpus(node, "cpus");
  if (node.Has("memory")) holding.memory = ReadBlocks(node.At("memory"));
  return holding;
}

std::vector<CaseMemoryNode> ReadMemoryState(const Node& node) {
  std::vector<CaseMemoryNode> out;
  for (const Node& item : node.Items()) {
    CaseMemoryNode& entry = out.emplace_back();
    entry.numa = static_cast<int>(item.At("numa").Integer(0, kMaxNumaId));
    entry.assignments =
        static_cast<std::int32_t>(item.At("assignments").Integer(-kMaxGroupId, kMaxGroupId));
    entry.cells = ReadIntegers(item.At("cells"), kMaxNumaId);
    for (const auto& [type, free] : item.At("free").Members()) entry.free[type] = free.Unsigned();
  }
  return out;
}

void ReadBooks(const Node& node, CaseObserved& observed) {
  if (node.Has("defaultCpus")) observed.default_cpus = ReadCpus(node, "defaultCpus");
  if (node.Has("memoryState")) observed.memory_state = ReadMemoryState(node.At("memoryState"));
}

CaseObserved ReadObserved(const Node& node) {
  CaseObserved observed;
  observed.admitted = node.At("admitted").Bool();
  ReadBooks(node, observed);
  if (node.Has("podCpus")) observed.as_a_whole.cpus = ReadCpus(node, "podCpus");
  if (node.Has("podMemory")) observed.as_a_whole.memory = ReadBlocks(node.At("podMemory"));
  const char* key = observed.admitted ? "containers" : "left";
  if (!node.Has(key)) return observed;
  for (const Node& container : node.At(key).Items()) {
    (observed.admitted ? observed.containers : observed.left)[container.At("name").String()] =
        ReadHolding(container);
  }
  return observed;
}

// --- steps

// Reads steps in order and knows which Pods and resources there are by then.
class StepReader {
 public:
  StepReader(const DevicesByResource& devices, const policy::KubeletSettings& kubelet)
      : allocates_pods_as_a_whole_(kubelet.policy != policy::TopologyPolicy::kNone &&
                                   kubelet.scope == policy::TopologyScope::kPod &&
                                   policy::PodLevelResourceManagersAreOn(kubelet)) {
    for (const auto& [resource, unused] : devices) registered_.insert(resource);
  }

  CaseStep Read(const Node& node) {
    node.CheckKeys(
        {"admit", "observed", "remove", "start", "devices", "disconnect", "prefer", "restart"});
    const std::size_t keys = node.value().size();
    if (keys != (node.value().contains("observed") ? 2U : 1U)) {
      Fail(node.path(),
           "one of admit, remove, start, devices, disconnect, prefer, restart is wanted");
    }
    CaseStep step;
    if (node.Has("admit")) {
      ReadAdmit(node, step);
    } else if (node.Has("restart")) {
      ReadRestart(node, step);
    } else if (node.value().contains("observed") && !node.Has("start")) {
      Fail(node.path(), "observed stands only beside admit, start and restart");
    } else if (node.Has("remove")) {
      step.kind = CaseStep::Kind::kRemove;
      step.name = KnownPod(node.At("remove"));
      active_.erase(step.name);
    } else if (node.Has("start")) {
      step.kind = CaseStep::Kind::kStart;
      step.name = KnownPod(node.At("start"));
      if (node.Has("observed")) ReadBooks(node.At("observed"), step.observed.emplace());
    } else if (node.Has("devices")) {
      step.kind = CaseStep::Kind::kDevices;
      step.devices = ReadDevices(node.At("devices"));
      for (const auto& [resource, unused] : step.devices) registered_.insert(resource);
    } else if (node.Has("disconnect")) {
      step.kind = CaseStep::Kind::kDisconnect;
      step.name = node.At("disconnect").String();
      if (!registered_.contains(step.name)) {
        Fail(node.path() + ".disconnect", "no resource " + Quoted(step.name));
      }
    } else if (node.Has("prefer")) {
      step.kind = CaseStep::Kind::kPrefer;
      step.prefer = ReadOrders(node.At("prefer"));
    } else {
      Fail(node.path(), "the step is null");
    }
    return step;
  }

 private:
  void ReadRestart(const Node& node, CaseStep& step) const {
    step.kind = CaseStep::Kind::kRestart;
    if (!node.At("restart").Bool()) Fail(node.path() + ".restart", "true is wanted");
    if (!node.Has("observed")) return;
    const Node seen = node.At("observed");
    CaseObserved& observed = step.observed.emplace();
    ReadBooks(seen, observed);
    if (!seen.Has("readmitted")) return;
    for (const Node& item : seen.At("readmitted").Items()) {
      observed.readmitted.push_back({KnownPod(item.At("pod")), ReadObserved(item)});
    }
  }

  void ReadAdmit(const Node& node, CaseStep& step) {
    step.kind = CaseStep::Kind::kAdmit;
    step.pod = ReadPod(node.At("admit"));
    if (step.pod.pod_level_resources && allocates_pods_as_a_whole_) {
      CheckWhole(step.pod, node.path() + ".admit.resources: ");
    }
    if (!active_.insert(step.pod.name).second) {
      Fail(node.path() + ".admit",
           "Pod " + Quoted(step.pod.name) + " was admitted before and not removed");
    }
    known_.insert(step.pod.name);
    if (node.Has("observed")) step.observed = ReadObserved(node.At("observed"));
  }

  std::string KnownPod(const Node& node) const {
    std::string name = node.String();
    if (!known_.contains(name)) Fail(node.path(), "no Pod " + Quoted(name));
    return name;
  }

  // What the mirror does not follow in Pods that are allocated as a whole.
  void CheckWhole(const CasePod& pod, const std::string& place) const {
    if (AsksForDevices(pod)) {
      throw CaseError{place +
                          "with the gate PodLevelResourceManagers, in pod scope, a Pod with "
                          "Pod-level resources gets its devices only when its containers start: "
                          "it cannot be judged",
                      /*unimplemented=*/true};
    }
    for (const CaseContainer& container : pod.containers) {
      for (const auto& [name, amount] : container.compute_requests) {
        if (!name.starts_with("hugepages-") || amount <= 0) continue;
        const auto own = pod.pod_requests.find(name);
        if (own != pod.pod_requests.end() && own->second > 0) continue;
        throw CaseError{place + "container " + Quoted(container.name) + " asks for " + name +
                            ", of which the Pod as a whole has none: no API server lets that "
                            "pass, and it cannot be judged",
                        /*unimplemented=*/true};
      }
    }
  }

  [[nodiscard]] bool AsksForDevices(const CasePod& pod) const {
    return std::any_of(
        pod.containers.begin(), pod.containers.end(), [&](const CaseContainer& container) {
          return std::any_of(container.limits.begin(), container.limits.end(), [&](auto& limit) {
            return limit.second > 0 && registered_.contains(limit.first);
          });
        });
  }

  const bool allocates_pods_as_a_whole_;
  std::set<std::string> registered_;
  std::set<std::string> active_;  // admitted (or refused) and not removed since
  std::set<std::string> known_;
};

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
  StepReader steps(out.devices, out.machine.kubelet);
  for (const Node& node : root.At("steps").Items()) out.steps.push_back(steps.Read(node));
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
