// Accelerators of a host as its PCI bus shows them: for people, before a device plugin is there to
// ask.
#pragma once

#include <string>
#include <vector>

#include "agent/host_files.h"

namespace numafit::agent {

struct PciAccelerator {
  std::string pci_address;
  int numa_node = -1;  // -1: not known
};

// Physical functions that are 3D controllers, processing accelerators, or display controllers
// without a screen of their own (classes 0302, 1200, 0380), by address. Graphics cards for screens
// are none. `sys` stands for "/sys".
std::vector<PciAccelerator> ReadPciAccelerators(const HostFiles& sys);

}  // namespace numafit::agent
