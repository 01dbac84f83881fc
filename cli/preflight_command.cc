// numafit preflight: a host's topology, before anything is installed on it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/host_files.h"
#include "agent/kubelet/configuration.h"
#include "agent/machine/accelerators.h"
#include "agent/machine/numa.h"
#include "agent/machine/rdma.h"
#include "cli/command.h"
#include "cli/source.h"
#include "cli/table.h"

namespace numafit::cli {
namespace {

using nlohmann::json;

constexpr std::array<Option, 2> kOptions = {{
    {.name = "root", .letter = 0, .value_name = "FOLDER", .help = "what stands for / of the host"},
    kOutputOption,
}};

// A setting that nobody names is not known: a kubelet's default is not what it will run with.
std::string OrUnknown(const std::string& word) {
  return word.empty() ? "unknown" : word;
}

json TopologyOf(const agent::HostFiles& host, const agent::HostFiles& proc) {
  const absl::StatusOr<std::vector<std::string>> command = agent::FindKubeletCommand(proc);
  const absl::StatusOr<v1alpha1::Kubelet> kubelet = agent::ReadConfigurationFiles(
      host, command.ok() ? *command : std::vector<std::string>(), "/var/lib/kubelet/config.yaml");
  const v1alpha1::Kubelet read = kubelet.ok() ? *kubelet : v1alpha1::Kubelet();
  json topology = {{"policy", OrUnknown(read.topology_manager_policy())},
                   {"scope", OrUnknown(read.topology_manager_scope())},
                   {"cpuManagerPolicy", OrUnknown(read.cpu_manager_policy())},
                   {"memoryManagerPolicy", OrUnknown(read.memory_manager_policy())},
                   {"kubeletRuns", command.ok()}};
  if (!kubelet.ok()) {
    topology["note"] = std::string(kubelet.status().message());
  } else if (read.topology_manager_policy().empty()) {
    topology["note"] = "the kubelet's configuration was read and names no topologyManagerPolicy";
  } else {
    topology["note"] = "from files and flags; the kubelet was not asked";
  }
  return topology;
}

json NumaOf(const v1alpha1::NumaNode& node, const std::vector<v1alpha1::RdmaDevice>& rdma,
            const std::vector<agent::PciAccelerator>& accelerators) {
  json cpus = json::array();
  json sockets = json::array();
  for (const v1alpha1::Cores& cores : node.cores()) {
    for (const std::string& threads : cores.threads()) cpus.push_back(threads);
    if (std::find(sockets.begin(), sockets.end(), json(cores.socket())) == sockets.end()) {
      sockets.push_back(cores.socket());
    }
  }
  json endpoints = json::array();
  for (const v1alpha1::RdmaDevice& device : rdma) {
    if (device.numa_node() == node.id()) endpoints.push_back(device.name());
  }
  json cards = json::array();
  for (const agent::PciAccelerator& card : accelerators) {
    if (card.numa_node == node.id()) cards.push_back(card.pci_address);
  }
  return {{"id", node.id()},         {"sockets", sockets},    {"cpus", cpus},
          {"memory", node.memory()}, {"accelerators", cards}, {"rdmaDevices", endpoints}};
}

json RdmaOf(const v1alpha1::RdmaDevice& device) {
  return {{"name", device.name()},
          {"netdev", device.netdev()},
          {"numaNode", device.numa_node()},
          {"pciAddress", device.pci_address()},
          {"link", device.link()},
          {"physicalFunction", device.physical_function()},
          {"virtualFunctions", device.virtual_functions()}};
}

std::string Join(const json& list) {
  std::string text;
  for (const json& item : list) {
    text += text.empty() ? "" : ",";
    text += item.is_string() ? item.get<std::string>() : item.dump();
  }
  return text.empty() ? "-" : text;
}

std::string Gibibytes(const json& bytes) {
  const std::string text = bytes.get<std::string>();
  return fmt::format("{:.1f} GiB", std::strtod(text.c_str(), nullptr) / (1024.0 * 1024.0 * 1024.0));
}

std::string Render(const json& host, const Terminal& terminal) {
  const json& topology = host["topology"];
  std::string text = fmt::format(
      "topology policy: {}\nscope: {}\nCPU manager: {}\nmemory manager: {}\n({})\n\n",
      topology["policy"].get<std::string>(), topology["scope"].get<std::string>(),
      topology["cpuManagerPolicy"].get<std::string>(),
      topology["memoryManagerPolicy"].get<std::string>(), topology["note"].get<std::string>());
  Table nodes({"NUMA", "SOCKET", "CPUS", "MEMORY", "ACCELERATORS", "RDMA DEVICES"});
  for (const json& node : host["numaNodes"]) {
    nodes.Add({{node["id"].dump()},
               {Join(node["sockets"])},
               {Join(node["cpus"])},
               {Gibibytes(node["memory"])},
               {fmt::format("{}", node["accelerators"].size())},
               {Join(node["rdmaDevices"])}});
  }
  text += nodes.Render(terminal);
  for (const json& device : host["rdmaDevices"]) {
    if (device["link"] == "active" && device["numaNode"] != -1) continue;
    text += fmt::format("\n{}: link {}, NUMA node {}", device["name"].get<std::string>(),
                        OrUnknown(device["link"].get<std::string>()),
                        device["numaNode"] == -1 ? "unknown" : device["numaNode"].dump());
  }
  for (const json& address : host["acceleratorsWithoutNuma"]) {
    text += fmt::format("\naccelerator {}: NUMA node unknown", address.get<std::string>());
  }
  if (text.back() != '\n') text += '\n';
  return text;
}

int Run(const Arguments& arguments) {
  bool as_json = false;
  if (absl::Status status = CheckOutput(arguments, as_json); !status.ok()) return Fail(status);
  const agent::HostFiles host(arguments.Value("root"));
  const agent::HostFiles sys(host.Path("/sys"));
  const agent::HostFiles proc(host.Path("/proc"));
  const absl::StatusOr<std::vector<v1alpha1::NumaNode>> nodes = agent::ReadNumaNodes(sys);
  if (!nodes.ok()) return Fail(nodes.status());
  const std::vector<v1alpha1::RdmaDevice> rdma = agent::ReadRdmaDevices(sys);
  const std::vector<agent::PciAccelerator> accelerators = agent::ReadPciAccelerators(sys);
  json answer = {{"topology", TopologyOf(host, proc)},
                 {"numaNodes", json::array()},
                 {"rdmaDevices", json::array()},
                 {"acceleratorsWithoutNuma", json::array()}};
  for (const v1alpha1::NumaNode& node : *nodes) {
    answer["numaNodes"].push_back(NumaOf(node, rdma, accelerators));
  }
  for (const v1alpha1::RdmaDevice& device : rdma) answer["rdmaDevices"].push_back(RdmaOf(device));
  for (const agent::PciAccelerator& card : accelerators) {
    if (card.numa_node < 0) answer["acceleratorsWithoutNuma"].push_back(card.pci_address);
  }
  const std::string output =
      as_json ? answer.dump(2) + "\n" : Render(answer, Terminal::OfStandardOutput());
  std::fwrite(output.data(), 1, output.size(), stdout);
  return kYes;
}

}  // namespace

const Command kPreflightCommand = {
    .name = "preflight",
    .summary = "Show this host's NUMA topology, before anything is installed",
    .usage = "numafit preflight [--root FOLDER] [-o json]",
    .details =
        "Reads sysfs and the kubelet's configuration files; needs no cluster and changes nothing.\n"
        "The policy is what a readable configuration names, else unknown, never a default.\n\n"
        "Examples:\n"
        "  numafit preflight\n"
        "  numafit preflight --root /host -o json | jq .topology.policy\n",
    .options = kOptions,
    .run = Run};

}  // namespace numafit::cli
