// The rows of a NodeReport that stand for devices: a part of Assemble.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "agent/device_memory.h"
#include "agent/endpoint_map.h"
#include "api/node_report.pb.h"
#include "api/resource_class.h"

namespace numafit::agent {

// What a device is a token of, as a DeviceGroup names it.
[[nodiscard]] std::string EndpointOf(const api::ResourceClasses& classes,
                                     const std::string& resource, const std::string& id);

// Which group of its resource a device is in.
class DeviceGroups {
 public:
  // Adds `table` to the report, and remembers where each device went.
  DeviceGroups(const DeviceTable& table, const api::ResourceClasses& classes,
               const EndpointMap& endpoints, v1alpha1::NodeReportStatus* report);

  // Position of the device's group; -1 for a device that is not in the table.
  [[nodiscard]] int GroupOf(const std::string& resource, const std::string& id) const;

 private:
  std::map<std::string, std::map<std::string, int>> groups_;
};

}  // namespace numafit::agent
