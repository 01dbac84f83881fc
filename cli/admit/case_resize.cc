#include "cli/admit/case_resize.h"

#include <cstddef>
#include <string_view>

#include "cli/admit/json_checks.h"
#include "policy/feature_gates.h"

namespace numafit::cli {
namespace {

bool IsResizable(std::string_view resource) {
  return resource == "cpu" || resource == "memory";
}

bool SameButForCpuAndMemory(const policy::ResourceAmounts& a, const policy::ResourceAmounts& b) {
  const auto fixed = [](policy::ResourceAmounts amounts) {
    std::erase_if(amounts, [](const auto& amount) { return IsResizable(amount.first); });
    return amounts;
  };
  return fixed(a) == fixed(b);
}

void CheckAsks(const CaseAsks& has, const CaseAsks& asked, const std::string& place) {
  if (!SameButForCpuAndMemory(has.limits, asked.limits) ||
      !SameButForCpuAndMemory(has.requests, asked.requests)) {
    Fail(place, "only cpu and memory can be resized");
  }
}

[[noreturn]] void CannotJudge(const std::string& place, const std::string& what) {
  throw CaseError{place + ": " + what + ": a resize cannot be judged", /*unimplemented=*/true};
}

void CheckGates(const policy::KubeletSettings& kubelet, const std::string& place) {
  struct Gate {
    const char* name;
    const char* all;
    bool wanted;
  };
  // With the latter two on a kubelet that reads requests from the status sees the old ones.
  constexpr Gate kGates[] = {
      {"InPlacePodVerticalScaling", "AllBeta", true},
      {"InPlacePodVerticalScalingInitContainers", "AllBeta", true},
      {"InPlacePodVerticalScalingExclusiveCPUs", "AllAlpha", false},
      {"InPlacePodVerticalScalingExclusiveMemory", "AllAlpha", false},
  };
  for (const Gate& gate : kGates) {
    if (!gate.wanted && !kubelet.version.ReadsRequestsFromStatus()) continue;
    if (policy::GateIsOn(kubelet.feature_gates, gate.name, gate.all, gate.wanted) != gate.wanted) {
      CannotJudge(place, std::string("the gate ") + gate.name + " is not at its default");
    }
  }
}

void CheckPodLevel(const policy::KubeletSettings& kubelet, const CasePod& admitted,
                   const CasePod& asked, const std::string& path) {
  if (admitted.pod_level_resources != asked.pod_level_resources) {
    Fail(path, "a resize gives a Pod no resources of its own, and takes none away");
  }
  CheckAsks(admitted.asks, asked.asks, path + ".resources");
  if (!asked.pod_level_resources) return;
  const bool can = kubelet.version.ResizesPodLevelResources();
  if (policy::GateIsOn(kubelet.feature_gates, "InPlacePodLevelResourcesVerticalScaling",
                       can ? "AllBeta" : "AllAlpha", can) != can) {
    CannotJudge(path, "the gate InPlacePodLevelResourcesVerticalScaling is not at its default");
  }
  if (!can) Fail(path, "a Pod with resources of its own cannot be resized before 1.36");
  if (policy::PodLevelResourceManagersAreOn(kubelet)) {
    CannotJudge(path, "PodLevelResourceManagers is on, and the Pod has resources of its own");
  }
}

}  // namespace

void CheckResize(const policy::KubeletSettings& kubelet, const CasePod& admitted,
                 const CasePod& asked, const std::string& path) {
  CheckGates(kubelet, path);
  bool same = admitted.containers.size() == asked.containers.size();
  for (std::size_t i = 0; same && i < asked.containers.size(); ++i) {
    same = admitted.containers[i].name == asked.containers[i].name &&
           admitted.containers[i].kind == asked.containers[i].kind;
  }
  if (!same) Fail(path, "a resize changes no containers, nor their names, order and kind");
  for (std::size_t i = 0; i < asked.containers.size(); ++i) {
    const CaseContainer& has = admitted.containers[i];
    const CaseContainer& container = asked.containers[i];
    const std::string place = path + ": container \"" + container.name + "\"";
    CheckAsks(has.asks, container.asks, place);
    if (container.kind == CaseContainer::Kind::kInit && !kubelet.version.ResizesInitContainers() &&
        container.asks != has.asks) {
      Fail(place, "an init container cannot be resized before 1.36");
    }
  }
  CheckPodLevel(kubelet, admitted, asked, path);
  if (admitted.qos != asked.qos) Fail(path, "a resize does not change the QoS class");
}

}  // namespace numafit::cli
