// RDMA devices of a host, and where PCI devices sit, from sysfs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/host_files.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

// By name; none on a host without any. `sys` stands for "/sys".
//
// The link is "active" when some port is ACTIVE and LinkUp, else the first port's state in small
// letters ("down", "init", "armed", "active_defer"), "" when no port can be read. A device that is
// no PCI function has no PCI fields. `physical_function` is the RDMA device of the physical
// function where there is one, else its PCI address.
std::vector<v1alpha1::RdmaDevice> ReadRdmaDevices(const HostFiles& sys);

// PCI address to NUMA node, of every PCI function whose NUMA node is known.
std::map<std::string, int> ReadPciNumaNodes(const HostFiles& sys);

// "0000:18:00.0"; domains may have more than four digits.
bool IsPciAddress(std::string_view text);

}  // namespace numafit::agent
