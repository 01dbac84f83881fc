// Where the hardware behind a device really is, for plugins that tell the kubelet nothing: pools of
// shared adapters, slots that stand for all adapters, partitions whose card is picked late.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/node_report.pb.h"

namespace numafit::agent {

// A rule of the configuration. Patterns are texts in which '*' stands for any run of characters.
struct EndpointRule {
  std::string resource;                   // pattern
  std::string devices = "*";              // pattern of the device id
  std::vector<std::string> rdma_devices;  // patterns of RDMA devices' names
  std::vector<std::string> netdevs;       // patterns of network devices' names
  std::vector<std::string> pci_addresses;
  std::vector<int> numa_nodes;
};

[[nodiscard]] bool MatchesPattern(std::string_view pattern, std::string_view text);

// Immutable; the vectors and the map must outlive it.
class EndpointMap {
 public:
  EndpointMap(const std::vector<EndpointRule>& rules,
              const std::vector<v1alpha1::RdmaDevice>& rdma_devices,
              const std::map<std::string, int>& pci_numa_nodes)
      : rules_(rules), rdma_devices_(rdma_devices), pci_numa_nodes_(pci_numa_nodes) {}

  // Sorted; empty: not known. The first rule that matches decides; without one
  // - an id that is or ends in a PCI address sits where that function sits,
  // - one whose last named part is a network or RDMA device ("ib0:ib0v3:0000") where that one sits,
  // - "rdma.io/hca" slots stand for every adapter of the host.
  [[nodiscard]] std::vector<int> NumaNodes(const std::string& resource,
                                           const std::string& device_id) const;

  // Names in the rules that match nothing on this host, as one text; empty: none.
  [[nodiscard]] std::string Unmatched() const;

 private:
  [[nodiscard]] std::vector<int> Apply(const EndpointRule& rule) const;
  [[nodiscard]] std::vector<int> FromId(std::string_view device_id) const;

  const std::vector<EndpointRule>& rules_;
  const std::vector<v1alpha1::RdmaDevice>& rdma_devices_;
  const std::map<std::string, int>& pci_numa_nodes_;
};

}  // namespace numafit::agent
