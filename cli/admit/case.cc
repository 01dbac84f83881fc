#include "cli/admit/case.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "api/quantity.h"
#include "cli/admit/json_checks.h"

namespace numafit::cli {
namespace {

constexpr std::int64_t kMaxNumaId = policy::NumaMask::kMaxIds - 1;
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;
// topologymanager/policy_options.go.
constexpr int kDefaultMaxNumaNodes = 8;

std::string Quoted(const std::string& text) {
  return "\"" + text + "\"";
}

[[noreturn]] void FailUnimplemented(const std::string& key, const std::string& value) {
  throw CaseError{key + ": " + Quoted(value) + " cannot be judged yet: only devices are",
                  /*unimplemented=*/true};
}

// --- machine and kubelet

policy::NumaNodeSpec ReadNumaNode(const Node& node) {
  node.CheckKeys({"id", "cpus", "cores", "threadsPerCore", "socket", "reservedCpus", "memory",
                  "hugepages", "distances"});
  policy::NumaNodeSpec out;
  out.id = static_cast<int>(node.At("id").Integer(0, kMaxNumaId));
  if (node.Has("distances")) {
    for (const Node& distance : node.At("distances").Items()) {
      out.distances.push_back(static_cast<int>(distance.Integer(0, 1 << 20)));
    }
  }
  return out;
}

// strconv.ParseBool.
std::optional<bool> ParseGoBool(const std::string& text) {
  static const std::set<std::string> kTrue = {"1", "t", "T", "TRUE", "true", "True"};
  static const std::set<std::string> kFalse = {"0", "f", "F", "FALSE", "false", "False"};
  if (kTrue.contains(text)) return true;
  if (kFalse.contains(text)) return false;
  return std::nullopt;
}

void ReadOptions(const Node& options, policy::TopologySpec& machine) {
  for (const auto& [name, node] : options.Members()) {
    const std::string value = node.String();
    if (name == "prefer-closest-numa-nodes") {
      const std::optional<bool> closest = ParseGoBool(value);
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

// CPU and memory managers are named by the form; here they may only be off.
void CheckOtherManagers(const Node& root) {
  const std::string cpu = root.Has("cpuPolicy") ? root.At("cpuPolicy").String() : "";
  if (cpu == "static") FailUnimplemented("cpuPolicy", cpu);
  if (!cpu.empty() && cpu != "none") Fail("cpuPolicy", "a kubelet has no policy " + Quoted(cpu));
  if (root.Has("cpuOptions") && !root.At("cpuOptions").Members().empty()) {
    Fail("cpuOptions", "a kubelet takes none with policy none");
  }
  const std::string memory = root.Has("memoryPolicy") ? root.At("memoryPolicy").String() : "";
  if (memory == "Static") FailUnimplemented("memoryPolicy", memory);
  if (!memory.empty() && memory != "None") {
    Fail("memoryPolicy", "a kubelet has no policy " + Quoted(memory));
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

// --- Pods

std::map<std::string, std::int64_t, std::less<>> ReadQuantities(const Node& node) {
  std::map<std::string, std::int64_t, std::less<>> out;
  for (const auto& [resource, quantity] : node.Members()) {
    const auto parsed = api::Quantity::Parse(quantity.String());
    if (!parsed.ok()) Fail(quantity.path(), std::string(parsed.status().message()));
    if (parsed->milli() < 0) Fail(quantity.path(), "a quantity below zero");
    out[resource] = parsed->value();
  }
  return out;
}

// The limits; requests are checked and dropped, devices have none of their own.
std::map<std::string, std::int64_t, std::less<>> ReadResources(const Node& node) {
  node.CheckKeys({"requests", "limits"});
  if (node.Has("requests")) (void)ReadQuantities(node.At("requests"));
  if (!node.Has("limits")) return {};
  return ReadQuantities(node.At("limits"));
}

CaseContainer ReadContainer(const Node& node, bool init) {
  node.CheckKeys({"name", "restartPolicy", "resources"});
  CaseContainer container;
  container.name = node.At("name").String();
  container.kind = init ? CaseContainer::Kind::kInit : CaseContainer::Kind::kApp;
  if (node.Has("restartPolicy") && node.At("restartPolicy").String() == "Always" && init) {
    container.kind = CaseContainer::Kind::kSidecar;
  }
  if (node.Has("resources")) container.limits = ReadResources(node.At("resources"));
  return container;
}

CasePod ReadPod(const Node& node) {
  node.CheckKeys({"name", "initContainers", "containers", "resources"});
  CasePod pod;
  pod.name = node.At("name").String();
  if (pod.name.empty()) Fail(node.path(), "a Pod needs a name");
  std::set<std::string> names;
  for (const char* key : {"initContainers", "containers"}) {
    if (!node.Has(key)) continue;
    for (const Node& item : node.At(key).Items()) {
      CaseContainer container = ReadContainer(item, std::string_view(key) == "initContainers");
      if (container.name.empty() || !names.insert(container.name).second) {
        Fail(item.path(), "name " + Quoted(container.name) + " is empty or there twice");
      }
      pod.containers.push_back(std::move(container));
    }
  }
  if (node.Has("resources")) (void)ReadResources(node.At("resources"));
  return pod;
}

CaseObserved ReadObserved(const Node& node) {
  CaseObserved observed;
  observed.admitted = node.At("admitted").Bool();
  if (!observed.admitted || !node.Has("containers")) return observed;
  for (const Node& container : node.At("containers").Items()) {
    OrderByResource& devices = observed.containers[container.At("name").String()];
    if (container.Has("devices")) devices = ReadOrders(container.At("devices"));
  }
  return observed;
}

// --- steps

// Reads steps in order and knows which Pods and resources there are by then.
class StepReader {
 public:
  explicit StepReader(const DevicesByResource& devices) {
    for (const auto& [resource, unused] : devices) registered_.insert(resource);
  }

  CaseStep Read(const Node& node) {
    node.CheckKeys({"admit", "observed", "remove", "start", "devices", "disconnect", "prefer"});
    const std::size_t keys = node.value().size();
    if (keys != (node.value().contains("observed") ? 2U : 1U)) {
      Fail(node.path(), "one of admit, remove, start, devices, disconnect, prefer is wanted");
    }
    CaseStep step;
    if (node.Has("admit")) {
      ReadAdmit(node, step);
    } else if (node.value().contains("observed")) {
      Fail(node.path(), "observed stands only beside admit");
    } else if (node.Has("remove")) {
      step.kind = CaseStep::Kind::kRemove;
      step.name = KnownPod(node.At("remove"));
      active_.erase(step.name);
    } else if (node.Has("start")) {
      step.kind = CaseStep::Kind::kStart;
      step.name = KnownPod(node.At("start"));
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
  void ReadAdmit(const Node& node, CaseStep& step) {
    step.kind = CaseStep::Kind::kAdmit;
    step.pod = ReadPod(node.At("admit"));
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

  std::set<std::string> registered_;
  std::set<std::string> active_;  // admitted (or refused) and not removed since
  std::set<std::string> known_;
};

Case ReadCase(const Node& root) {
  root.CheckKeys({"id", "kubeletVersion", "numa", "topologyPolicy", "scope", "options", "cpuPolicy",
                  "cpuOptions", "reservedCpuMilli", "memoryPolicy", "reservedMemory", "devices",
                  "preferredAllocation", "steps", "repeat", "brief"});
  Case out;
  for (const Node& node : root.At("numa").Items()) out.machine.numa.push_back(ReadNumaNode(node));
  ReadKubelet(root, out.machine);
  CheckOtherManagers(root);
  if (root.Has("reservedCpuMilli")) (void)root.At("reservedCpuMilli").Integer(0, kMaxInteger);
  if (root.Has("repeat")) (void)root.At("repeat").Integer(0, kMaxInteger);
  if (root.Has("brief")) (void)root.At("brief").Bool();
  if (root.Has("devices")) out.devices = ReadDevices(root.At("devices"));
  if (root.Has("preferredAllocation")) out.prefer = ReadOrders(root.At("preferredAllocation"));
  StepReader steps(out.devices);
  for (const Node& node : root.At("steps").Items()) out.steps.push_back(steps.Read(node));
  return out;
}

}  // namespace

ParsedCase ParseCase(const std::string& line) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& error) {
    return {.id = "", .value = absl::InvalidArgumentError(error.what())};
  }
  std::string id;
  if (json.is_object() && json.contains("id")) id = json["id"].dump();
  try {
    return {.id = id, .value = ReadCase(Node(json, ""))};
  } catch (const CaseError& error) {
    return {.id = id,
            .value = error.unimplemented ? absl::UnimplementedError(error.message)
                                         : absl::InvalidArgumentError(error.message)};
  }
}

}  // namespace numafit::cli
