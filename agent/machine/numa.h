// NUMA nodes, CPUs, caches and memory from sysfs, as the kubelet reads them (through cadvisor,
// utils/sysinfo): what its managers decide with.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "agent/host_files.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

// By id. `sys` stands for "/sys". NUMA nodes without CPUs or without memory are there too; CPUs
// that are offline are not.
//
// A core is what has one core_id and one physical_package_id within a NUMA node. Its uncore cache
// is the first of level 3 or more that is not shared by exactly the CPUs of its NUMA node; -1 where
// there is none, or where a cache of an earlier core cannot be read (cadvisor gives up there).
//
// NotFound where the kernel shows no NUMA nodes; InvalidArgument names the file and its text.
absl::StatusOr<std::vector<v1alpha1::NumaNode>> ReadNumaNodes(const HostFiles& sys);

}  // namespace numafit::agent
