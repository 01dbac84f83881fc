#include "cli/doctor/fleet_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/fields.h"
#include "policy/kubelet_version.h"

namespace numafit::cli::doctor {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

// A clock further off than this is reported. Behind: what a report may take when the API server is
// slow is no fault of a clock.
constexpr char kUnseenDevices[] = "node: unseen devices";
constexpr std::int64_t kMostAheadSeconds = 5;
constexpr std::int64_t kMostBehindSeconds = 30;
constexpr std::size_t kMostErrorText = 160;

std::string Count(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string VerbS(std::size_t count) {
  return count == 1 ? "s" : "";
}

Names NodesWhere(const json& nodes, const std::function<bool(const json&)>& is_so) {
  Names names;
  for (const json& node : nodes) {
    if (is_so(node)) names.push_back(Text(node, "name"));
  }
  return names;
}

bool HasBothKinds(const json& node) {
  const auto has = [&](const char* kind) {
    const json& resources = List(node, kind);
    return std::any_of(resources.begin(), resources.end(),
                       [](const json& each) { return Int(At(each, "total"), "all") > 0; });
  };
  return has("accelerators") && has("endpoints");
}

class FleetChecks {
 public:
  FleetChecks(const json& nodes, const json& pods, Findings* findings)
      : nodes_(List(nodes, "nodes")), pods_(List(pods, "pods")), findings_(*findings) {}

  void Check() {
    if (nodes_.empty()) {
      findings_.Fail("agent-missing", "numafit knows no node: it refuses every Pod with devices",
                     "install the agents (deploy/manifests/agent.yaml) and set inventory: reports, "
                     "or name a fleet file");
      return;
    }
    CheckReports();
    CheckLostAgents();
    CheckCountsOnly();
    CheckSources();
    CheckUnknownNuma();
    CheckPolicies();
    CheckMixedPolicies();
    CheckVersions();
    CheckClocks();
    CheckCoolingDown();
    CheckUnhealthy();
    CheckMisaligned();
  }

 private:
  void CheckReports() {
    std::set<std::string> holding;
    for (const json& pod : pods_) holding.insert(Text(pod, "node"));
    Names refused;
    Names missing;
    Names idle;
    std::string error;
    for (const json& node : nodes_) {
      const std::string name = Text(node, "name");
      const std::string why = Text(node, "reportError");
      if (!why.empty()) {
        if (refused.empty()) error = why.substr(0, kMostErrorText);
        refused.push_back(name);
      } else if (Text(node, "report") == "none") {
        (holding.count(name) != 0 ? missing : idle).push_back(name);
      }
    }
    if (!refused.empty()) {
      findings_.Fail("report-refused",
                     fmt::format("{}: the report cannot be used, so the last good one counts, or "
                                 "none: {}",
                                 Count(refused.size(), "node"), error),
                     error.find("topologyManager") != std::string::npos
                         ? "let the agent get nodes/configz (deploy/manifests/agent-rbac.yaml): it "
                           "does not know the kubelet's configuration"
                         : "compare the versions of agent, extender and "
                           "deploy/manifests/crd-nodereports.yaml",
                     refused);
    }
    if (!missing.empty()) {
      findings_.Fail("agent-missing",
                     fmt::format("{} with accelerators or endpoints in use sent no report: no "
                                 "further Pod with devices goes there",
                                 Count(missing.size(), "node")),
                     "see why the agent's DaemonSet has no running Pod there: kubectl -n "
                     "numafit-system get pods -o wide",
                     missing);
    }
    if (!idle.empty()) {
      findings_.Warn("agent-missing",
                     fmt::format("{} sent no report: fine for nodes without accelerators and "
                                 "endpoints, others get no Pod with devices",
                                 Count(idle.size(), "node")),
                     "let the agent's nodeSelector reach every node that has some", idle);
    }
    if (refused.empty() && missing.empty() && idle.empty()) {
      findings_.Ok("agent-missing", fmt::format("all {} are known", Count(nodes_.size(), "node")));
    }
  }

  void CheckLostAgents() {
    const Names lost =
        NodesWhere(nodes_, [](const json& node) { return Text(node, "report") == "stale"; });
    if (lost.empty()) {
      findings_.Ok("agent-lost", "no agent is lost");
      return;
    }
    findings_.Fail(
        "agent-lost",
        fmt::format("{}: the agent is not ready, so what is known there is its last "
                    "report and the Pods that were bound since",
                    Count(lost.size(), "node")),
        "kubectl -n numafit-system describe pod of the agent there; staleNodes says what "
        "such nodes take meanwhile (docs/configuration.md)",
        lost);
  }

  void CheckCountsOnly() {
    const Names counted =
        NodesWhere(nodes_, [](const json& node) { return Text(node, "report") == "counts"; });
    if (counted.empty()) return;
    findings_.Warn("counts-only",
                   fmt::format("{} known by the counts of a NodeResourceTopology alone: who holds "
                               "what, endpoints and unhealthy devices are not seen there",
                               Count(counted.size(), "node")),
                   "let the agent's DaemonSet reach them (deploy/manifests/agent.yaml)", counted);
  }

  static std::string FixOf(const std::string& source) {
    if (source == "configuration") {
      return "give the agent get on nodes/configz and the kubelet's CA "
             "(deploy/manifests/agent-rbac.yaml, kubelet.caFile)";
    }
    if (source == "pod-resources") {
      return "mount the kubelet's folder with pod-resources/kubelet.sock into the agent";
    }
    if (source == "endpoint-map")
      return "correct endpointMap: it names what the host does not have";
    if (source == "rdma-devices" || source == "machine")
      return "mount /sys of the host (paths.root)";
    if (source == "pod-logs") return "mount /var/log/pods of the host";
    if (source == "node") return "give the agent get on nodes (deploy/manifests/agent-rbac.yaml)";
    return "mount the kubelet's --root-dir as a whole, as root (docs/agent.md, Sources)";
  }

  void CheckSources() {
    struct Group {
      Names nodes;
      std::string error;
    };
    std::map<std::string, Group> groups;
    for (const json& node : nodes_) {
      for (const json& each : List(node, "sourceErrors")) {
        const std::string error = Text(each, "error");
        const bool unseen = Text(each, "source") == "node" && error.ends_with(" were ever seen");
        Group& group = groups[unseen ? kUnseenDevices : Text(each, "source")];
        if (group.nodes.empty()) group.error = error.substr(0, kMostErrorText);
        group.nodes.push_back(Text(node, "name"));
      }
    }
    for (const auto& [source, group] : groups) {
      if (source == kUnseenDevices) {
        TellUnseenDevices(group.error, group.nodes);
        continue;
      }
      const bool is_configuration = source == "configuration";
      findings_.Warn(
          is_configuration ? "configz-refused" : "source-error",
          fmt::format("{}: the agent cannot read {} ({}){}", Count(group.nodes.size(), "node"),
                      is_configuration ? "the kubelet's configz" : source, group.error,
                      is_configuration
                          ? ": policies are those of files and flags, which need not be "
                            "what the kubelet runs with"
                          : ": what the report says of it is old, or missing"),
          FixOf(source), group.nodes);
    }
    if (groups.count("configuration") == 0) CheckUnconfirmed();
    if (groups.empty()) findings_.Ok("source-error", "agents can read all their sources");
  }

  // Not that something cannot be read: the Node counts more than the agent has seen.
  void TellUnseenDevices(const std::string& error, const Names& nodes) {
    findings_.Warn(
        "devices-unseen",
        fmt::format("{}: devices were broken before any agent ran there ({}). The kubelet "
                    "counts them when it decides how few NUMA nodes could do, and "
                    "nobody knows where they are: a verdict about a Pod that wants "
                    "many can be wrong",
                    Count(nodes.size(), "node"), error),
        "mend them: once they were healthy they are known; or have the device plugin "
        "withdraw them",
        nodes);
  }

  void CheckUnconfirmed() {
    const Names second_hand = NodesWhere(nodes_, [](const json& node) {
      return At(node, "configurationConfirmed").is_boolean() &&
             !Bool(node, "configurationConfirmed");
    });
    if (second_hand.empty()) {
      findings_.Ok("configz-refused", "no configuration of a kubelet is second-hand");
      return;
    }
    findings_.Warn("configz-refused",
                   fmt::format("{}: the kubelet's configuration was read from files and flags, "
                               "which need not be what it runs with",
                               Count(second_hand.size(), "node")),
                   "set kubelet.url (--kubelet-url) and give the agent get on nodes/configz",
                   second_hand);
  }

  void CheckUnknownNuma() {
    std::map<std::string, Names> by_resource;
    for (const json& node : nodes_) {
      std::set<std::string> resources;
      for (const json& each : List(node, "withoutNuma")) resources.insert(Text(each, "resource"));
      // Of a fleet file.
      if (!node.contains("configurationConfirmed")) {
        for (const char* kind : {"accelerators", "endpoints"}) {
          for (const json& resource : List(node, kind)) {
            for (const json& count : List(resource, "byNuma")) {
              const bool unknown = At(count, "numa").is_null() && Int(count, "all") > 0;
              if (unknown) resources.insert(Text(resource, "resource"));
            }
          }
        }
      }
      // With a single NUMA node there is nothing to know.
      if (List(node, "numa").size() < 2) continue;
      for (const std::string& resource : resources) {
        by_resource[resource].push_back(Text(node, "name"));
      }
    }
    for (const auto& [resource, names] : by_resource) {
      findings_.Warn("numa-unknown",
                     fmt::format("{}: the plugin of {} publishes no NUMA node, and nobody knows "
                                 "where its devices are: kubelet does not align them",
                                 Count(names.size(), "node"), resource),
                     "give its adapters in the agent's endpointMap (docs/agent.md), so that "
                     "misaligned Pods are seen; better: a plugin that publishes NUMA nodes",
                     names);
    }
    if (by_resource.empty()) {
      findings_.Ok("numa-unknown", "the NUMA node of every accelerator and endpoint is known");
    }
  }

  // Nodes with something to align, and NUMA nodes to align it on.
  static bool NeedsAPolicy(const json& node) {
    return HasBothKinds(node) && List(node, "numa").size() > 1;
  }

  void CheckPolicies() {
    const auto with_policy = [&](std::string_view policy) {
      return NodesWhere(nodes_, [&](const json& node) {
        return NeedsAPolicy(node) && Text(node, "topologyManagerPolicy") == policy;
      });
    };
    const std::string fix =
        "set topologyManagerPolicy: single-numa-node (or restricted, for Pods larger than a NUMA "
        "node) in the kubelet's configuration; drain the node first";
    const Names none = with_policy("none");
    if (!none.empty()) {
      findings_.Warn("policy-none",
                     fmt::format("{} with accelerators and endpoints run{} with topology policy "
                                 "none: the kubelet picks devices anywhere, numafit can say "
                                 "\"possible\" at best",
                                 Count(none.size(), "node"), VerbS(none.size())),
                     fix, none);
    }
    const Names best_effort = with_policy("best-effort");
    if (!best_effort.empty()) {
      findings_.Warn("policy-best-effort",
                     fmt::format("{} with accelerators and endpoints run{} with topology policy "
                                 "best-effort: Pods that other schedulers bind may end up apart",
                                 Count(best_effort.size(), "node"), VerbS(best_effort.size())),
                     fix, best_effort);
    }
    if (none.empty() && best_effort.empty()) {
      findings_.Ok("policy-none",
                   "every kubelet with accelerators and endpoints enforces alignment");
    }
  }

  // NUMA nodes and how many devices of what are on each.
  static std::string HardwareOf(const json& node) {
    std::string hardware = At(node, "numa").dump();
    for (const char* kind : {"accelerators", "endpoints"}) {
      for (const json& resource : List(node, kind)) {
        hardware += "\n" + Text(resource, "resource");
        for (const json& count : List(resource, "byNuma")) {
          hardware += fmt::format(" {}", Int(count, "all"));
        }
      }
    }
    return hardware;
  }

  void CheckMixedPolicies() {
    std::map<std::string, std::map<std::string, Names>> by_hardware;
    for (const json& node : nodes_) {
      if (!NeedsAPolicy(node)) continue;
      const std::string policy = fmt::format("{}/{}", Text(node, "topologyManagerPolicy"),
                                             Text(node, "topologyManagerScope"));
      by_hardware[HardwareOf(node)][policy].push_back(Text(node, "name"));
    }
    bool fine = true;
    for (const auto& [hardware, by_policy] : by_hardware) {
      if (by_policy.size() < 2) continue;
      fine = false;
      std::string policies;
      std::pair<std::size_t, Names> fewest{nodes_.size() + 1, {}};
      for (const auto& [policy, names] : by_policy) {
        policies += fmt::format("{}{} on {}", policies.empty() ? "" : ", ", policy, names.size());
        if (names.size() < fewest.first) fewest = {names.size(), names};
      }
      findings_.Warn("mixed-policies",
                     fmt::format("nodes of equal hardware run with different topology policies "
                                 "(policy/scope): {}; the same Pod is admitted here and refused "
                                 "there",
                                 policies),
                     "give nodes of one kind one kubelet configuration", fewest.second);
    }
    if (fine)
      findings_.Ok("mixed-policies", "nodes of equal hardware have equal topology policies");
  }

  void CheckVersions() {
    std::set<std::string> versions;
    const Names unknown = NodesWhere(nodes_, [&](const json& node) {
      const std::string version = Text(node, "kubeletVersion");
      const auto parsed = policy::KubeletVersion::TryParse(version);
      if (version.empty() || (parsed && parsed->IsKnown())) return false;
      versions.insert(version);
      return true;
    });
    if (unknown.empty()) {
      findings_.Ok("kubelet-version", "the rules of every kubelet version are known");
      return;
    }
    findings_.Warn(
        "kubelet-version",
        fmt::format("{} run{} kubelet {}: the rules of 1.{} to 1.{} are known, the "
                    "nearest are used",
                    Count(unknown.size(), "node"), VerbS(unknown.size()), fmt::join(versions, ", "),
                    policy::KubeletVersion::kOldestMinor, policy::KubeletVersion::kNewestMinor),
        "use a numafit that knows this version (numafit version)", unknown);
  }

  void CheckClocks() {
    std::int64_t worst = 0;
    const Names off = NodesWhere(nodes_, [&](const json& node) {
      const std::int64_t ahead = Int(node, "clockAheadSeconds");
      if (ahead <= kMostAheadSeconds && ahead >= -kMostBehindSeconds) return false;
      if (std::abs(ahead) > std::abs(worst)) worst = ahead;
      return true;
    });
    if (off.empty()) {
      findings_.Ok("clock-skew", "the clocks of nodes and extender agree");
      return;
    }
    findings_.Warn(
        "clock-skew",
        fmt::format("{}: the clock is up to {} s {} the extender's{}", Count(off.size(), "node"),
                    std::abs(worst), worst > 0 ? "ahead of" : "behind",
                    worst > 0 ? ": ages and times of reports are wrong"
                              : ", or reports take that long: ages are wrong, or what is "
                                "known is late"),
        "synchronize clocks (chrony, systemd-timesyncd) on the nodes and the extender's "
        "host",
        off);
  }

  void CheckCoolingDown() {
    const Names cooling =
        NodesWhere(nodes_, [](const json& node) { return Int(node, "coolingDown") > 0; });
    if (cooling.empty()) {
      findings_.Ok("cooling-down", "no kubelet has refused what numafit let in a moment ago");
      return;
    }
    findings_.Warn(
        "cooling-down",
        fmt::format("{} refused a Pod that numafit had let in", Count(cooling.size(), "node")),
        "see the log lines kubelet-refused; a case of it is a bug report "
        "(docs/case-format.md)",
        cooling);
  }

  void CheckUnhealthy() {
    std::int64_t devices = 0;
    const Names sick = NodesWhere(nodes_, [&](const json& node) {
      std::int64_t here = 0;
      for (const char* kind : {"accelerators", "endpoints"}) {
        for (const json& resource : List(node, kind)) here += Int(resource, "unhealthy");
      }
      devices += here;
      return here > 0;
    });
    if (sick.empty()) {
      findings_.Ok("unhealthy-devices", "no device is unhealthy");
      return;
    }
    findings_.Warn("unhealthy-devices",
                   fmt::format("{} on {} {} unhealthy: the kubelet counts them when it decides "
                               "what could be aligned, and gives them to nobody",
                               Count(static_cast<std::size_t>(devices), "device"),
                               Count(sick.size(), "node"), devices == 1 ? "is" : "are"),
                   "see the device plugin's log there", sick);
  }

  void CheckMisaligned() {
    std::int64_t containers = 0;
    const Names with = NodesWhere(nodes_, [&](const json& node) {
      const std::int64_t here = Int(node, "misaligned");
      containers += here;
      return here > 0;
    });
    if (with.empty()) {
      findings_.Ok("misaligned", "no running container is known to be misaligned");
      return;
    }
    findings_.Warn("misaligned",
                   fmt::format("{} on {}: accelerators and endpoints on different NUMA nodes, at "
                               "a fraction of the bandwidth",
                               Count(static_cast<std::size_t>(containers), "container"),
                               Count(with.size(), "node")),
                   "numafit pods --misaligned names them; delete and let them be placed again",
                   with);
  }

  const json& nodes_;
  const json& pods_;
  Findings& findings_;
};

}  // namespace

void CheckFleet(const json& nodes, const json& pods, Findings* findings) {
  FleetChecks(nodes, pods, findings).Check();
}

}  // namespace numafit::cli::doctor
