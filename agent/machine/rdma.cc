#include "agent/machine/rdma.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

namespace numafit::agent {
namespace {

constexpr std::string_view kInfiniband = "/class/infiniband";
constexpr std::string_view kPciDevices = "/bus/pci/devices";

bool IsHex(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  });
}

// "4: ACTIVE" -> "active"
std::string StateWord(std::string_view line) {
  const std::size_t colon = line.find(':');
  std::string word(Trim(colon == std::string_view::npos ? line : line.substr(colon + 1)));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

std::string LinkOf(const HostFiles& sys, const std::string& folder) {
  std::string first;
  for (const std::string& port : sys.List(folder + "/ports")) {
    const std::optional<std::string> state = sys.Line(folder + "/ports/" + port + "/state");
    if (!state.has_value()) continue;
    const std::string word = StateWord(*state);
    const std::optional<std::string> physical = sys.Line(folder + "/ports/" + port + "/phys_state");
    const bool up = !physical.has_value() || StateWord(*physical) == "linkup";
    if (word == "active" && up) return "active";
    // ACTIVE over a port whose cable is out carries nothing.
    if (first.empty()) first = word == "active" ? "down" : word;
  }
  return first;
}

// PCI functions in a resolved sysfs path, outermost bridge first, the device itself last.
std::vector<std::string> PciFunctions(std::string_view path) {
  std::vector<std::string> functions;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (IsPciAddress(part)) functions.emplace_back(part);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return functions;
}

std::string FirstName(const std::vector<std::string>& names) {
  return names.empty() ? std::string() : names.front();
}

v1alpha1::RdmaDevice ReadDevice(const HostFiles& sys, const std::string& name) {
  v1alpha1::RdmaDevice device;
  const std::string folder = std::string(kInfiniband) + "/" + name;
  const std::string hardware = folder + "/device";
  device.set_name(name);
  device.set_netdev(FirstName(sys.List(hardware + "/net")));
  device.set_numa_node(std::max(-1, sys.Number(hardware + "/numa_node").value_or(-1)));
  device.set_link(LinkOf(sys, folder));
  std::vector<std::string> functions = PciFunctions(sys.RealPath(hardware));
  if (!functions.empty()) {
    device.set_pci_address(functions.back());
    functions.pop_back();
    for (auto at = functions.rbegin(); at != functions.rend(); ++at) device.add_pci_path(*at);
  }
  device.set_virtual_functions(std::max(0, sys.Number(hardware + "/sriov_numvfs").value_or(0)));
  const std::string physical = sys.RealPath(hardware + "/physfn");
  if (!physical.empty()) {
    const std::string rdma = FirstName(sys.List(hardware + "/physfn/infiniband"));
    device.set_physical_function(rdma.empty() ? std::string(BaseName(physical)) : rdma);
    // A virtual function that does not say where it is sits where its physical function sits.
    if (device.numa_node() < 0) {
      device.set_numa_node(std::max(-1, sys.Number(hardware + "/physfn/numa_node").value_or(-1)));
    }
  }
  return device;
}

}  // namespace

bool IsPciAddress(std::string_view text) {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos || first < 4) return false;
  const std::string_view rest = text.substr(first + 1);
  return IsHex(text.substr(0, first)) && rest.size() == 7 && IsHex(rest.substr(0, 2)) &&
         rest[2] == ':' && IsHex(rest.substr(3, 2)) && rest[5] == '.' && IsHex(rest.substr(6));
}

std::vector<v1alpha1::RdmaDevice> ReadRdmaDevices(const HostFiles& sys) {
  std::vector<v1alpha1::RdmaDevice> devices;
  for (const std::string& name : sys.List(kInfiniband)) devices.push_back(ReadDevice(sys, name));
  return devices;
}

std::map<std::string, int> ReadPciNumaNodes(const HostFiles& sys) {
  std::map<std::string, int> nodes;
  for (const std::string& address : sys.List(kPciDevices)) {
    const std::optional<int> node =
        sys.Number(std::string(kPciDevices) + "/" + address + "/numa_node");
    if (node.has_value() && *node >= 0) nodes[address] = *node;
  }
  return nodes;
}

}  // namespace numafit::agent
