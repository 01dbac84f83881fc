// The pools of Mellanox's k8s-rdma-shared-dev-plugin: which adapters are behind their tokens.
//
// The plugin tells the kubelet tokens and no NUMA node, and gives all adapters of a pool with every
// token. Which ones these are is in its configuration (the ConfigMap that it mounts as
// config.json). Source: github.com/Mellanox/k8s-rdma-shared-dev-plugin, pkg/types and
// pkg/resources.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/endpoint_map.h"
#include "agent/host_files.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

// An adapter is in a pool when every list that is not empty has it.
struct SharedPool {
  std::string resource;                 // "rdma/hca_shared_devices_a"
  std::vector<std::string> vendors;     // PCI vendors, "15b3"
  std::vector<std::string> devices;     // PCI devices, "1017"
  std::vector<std::string> drivers;     // "mlx5_core"
  std::vector<std::string> netdevs;     // "ens1f0np0"
  std::vector<std::string> link_types;  // "ether", "infiniband"
  bool operator==(const SharedPool&) const = default;
};

// The plugin's JSON. InvalidArgument names `file`, the path in it and the value: what the plugin
// itself does not start with (no pool, a name twice, neither selectors nor devices), and selectors
// that this version does not know, because they would make a pool smaller than we think. Other keys
// that are not known are ignored.
absl::StatusOr<std::vector<SharedPool>> ParseSharedPools(std::string_view text,
                                                         const std::string& file);

// As a rule: the pool's adapters among `rdma_devices`. What is not in there (vendor, driver, kind
// of link) comes from `sys`, which stands for "/sys". A pool that has no adapter here gives a rule
// that names none: the same ConfigMap serves all nodes.
EndpointRule RuleOf(const SharedPool& pool, const std::vector<v1alpha1::RdmaDevice>& rdma_devices,
                    const HostFiles& sys);

}  // namespace numafit::agent
