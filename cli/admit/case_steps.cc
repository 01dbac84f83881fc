#include "cli/admit/case_steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/admit/case_pod.h"
#include "cli/admit/case_resize.h"
#include "policy/feature_gates.h"

namespace numafit::cli {
namespace {

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

void ReadWhatPodHas(const Node& node, bool admitted, CaseObserved& observed) {
  observed.admitted = admitted;
  ReadBooks(node, observed);
  if (node.Has("podCpus")) observed.as_a_whole.cpus = ReadCpus(node, "podCpus");
  if (node.Has("podMemory")) observed.as_a_whole.memory = ReadBlocks(node.At("podMemory"));
  const char* key = admitted ? "containers" : "left";
  if (!node.Has(key)) return;
  for (const Node& container : node.At(key).Items()) {
    (admitted ? observed.containers : observed.left)[container.At("name").String()] =
        ReadHolding(container);
  }
}

CaseObserved ReadObserved(const Node& node) {
  CaseObserved observed;
  ReadWhatPodHas(node, node.At("admitted").Bool(), observed);
  return observed;
}

// --- steps

// Reads steps in order and knows which Pods and resources there are by then.
class StepReader {
 public:
  // `resizes`: there is such a step.
  StepReader(const DevicesByResource& devices, const policy::KubeletSettings& kubelet, bool resizes)
      : kubelet_(kubelet),
        allocates_pods_as_a_whole_(kubelet.policy != policy::TopologyPolicy::kNone &&
                                   kubelet.scope == policy::TopologyScope::kPod &&
                                   policy::PodLevelResourceManagersAreOn(kubelet)),
        resizes_(resizes) {
    for (const auto& [resource, unused] : devices) registered_.insert(resource);
  }

  CaseStep Read(const Node& node) {
    node.CheckKeys({"admit", "observed", "remove", "start", "devices", "disconnect", "prefer",
                    "restart", "resize"});
    const std::size_t keys = node.value().size();
    if (keys != (node.value().contains("observed") ? 2U : 1U)) {
      Fail(node.path(),
           "one of admit, remove, start, devices, disconnect, prefer, restart, resize is wanted");
    }
    CaseStep step;
    if (node.Has("admit")) {
      ReadAdmit(node, step);
    } else if (node.Has("restart")) {
      ReadRestart(node, step);
    } else if (node.Has("resize")) {
      ReadResize(node, step);
    } else if (node.value().contains("observed") && !node.Has("start")) {
      Fail(node.path(), "observed stands only beside admit, start, restart and resize");
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
    step.pod = ReadPod(node.At("admit"), resizes_);
    if (step.pod.pod_level_resources && allocates_pods_as_a_whole_) {
      CheckWhole(step.pod, node.path() + ".admit.resources: ");
    }
    if (!active_.insert(step.pod.name).second) {
      Fail(node.path() + ".admit",
           "Pod " + Quoted(step.pod.name) + " was admitted before and not removed");
    }
    known_.insert(step.pod.name);
    if (resizes_) admitted_[step.pod.name] = step.pod;
    if (node.Has("observed")) step.observed = ReadObserved(node.At("observed"));
  }

  void ReadResize(const Node& node, CaseStep& step) {
    step.kind = CaseStep::Kind::kResize;
    const Node asked = node.At("resize");
    step.pod = ReadPod(asked, /*all=*/true);
    const auto admitted = admitted_.find(step.pod.name);
    if (admitted == admitted_.end()) Fail(asked.path(), "no Pod " + Quoted(step.pod.name));
    CheckResize(kubelet_, admitted->second, step.pod, asked.path());
    if (!node.Has("observed")) return;
    const Node seen = node.At("observed");
    CaseObserved& observed = step.observed.emplace();
    observed.resize = seen.At("resize").String();
    ReadWhatPodHas(seen, observed.resize == "taken", observed);
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

  const policy::KubeletSettings& kubelet_;
  const bool allocates_pods_as_a_whole_;
  const bool resizes_;
  std::set<std::string> registered_;
  std::set<std::string> active_;  // admitted (or refused) and not removed since
  std::set<std::string> known_;
  std::map<std::string, CasePod> admitted_;  // last, whether it was refused or not
};

}  // namespace

std::string Quoted(const std::string& text) {
  return "\"" + text + "\"";
}

std::vector<int> ReadIntegers(const Node& node, std::int64_t most) {
  std::vector<int> out;
  for (const Node& item : node.Items()) out.push_back(static_cast<int>(item.Integer(0, most)));
  return out;
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

std::vector<CaseStep> ReadSteps(const Node& steps, const DevicesByResource& devices,
                                const policy::KubeletSettings& kubelet) {
  const std::vector<Node> nodes = steps.Items();
  const bool resizes = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.value().is_object() && node.value().contains("resize");
  });
  StepReader reader(devices, kubelet, resizes);
  std::vector<CaseStep> out;
  out.reserve(nodes.size());
  for (const Node& node : nodes) out.push_back(reader.Read(node));
  return out;
}

}  // namespace numafit::cli
