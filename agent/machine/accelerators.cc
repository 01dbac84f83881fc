#include "agent/machine/accelerators.h"

#include <algorithm>
#include <optional>

namespace numafit::agent {
namespace {

constexpr std::string_view kPciDevices = "/bus/pci/devices";

bool IsAcceleratorClass(std::string_view pci_class) {
  return pci_class.starts_with("0x0302") || pci_class.starts_with("0x1200") ||
         pci_class.starts_with("0x0380");
}

}  // namespace

std::vector<PciAccelerator> ReadPciAccelerators(const HostFiles& sys) {
  std::vector<PciAccelerator> accelerators;
  for (const std::string& address : sys.List(kPciDevices)) {
    const std::string folder = std::string(kPciDevices) + "/" + address;
    const std::optional<std::string> pci_class = sys.Line(folder + "/class");
    if (!pci_class.has_value() || !IsAcceleratorClass(*pci_class)) continue;
    if (sys.Exists(folder + "/physfn")) continue;
    accelerators.push_back({address, std::max(-1, sys.Number(folder + "/numa_node").value_or(-1))});
  }
  return accelerators;
}

}  // namespace numafit::agent
