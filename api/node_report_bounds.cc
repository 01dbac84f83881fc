#include "api/node_report_bounds.h"

#include <array>

namespace numafit::api {
namespace {

// NUMA node ids fit in 64 bits everywhere in numafit, as in the kubelet's bit mask.
constexpr int kLastNuma = 63;
// Devices of one group: far above what a host has, low enough that sums stay in int32.
constexpr int kMostDevices = 1 << 20;
// "0,2,4,…,4094" and some more.
constexpr int kLongestCpus = 20'480;
constexpr int kMostGroups = 4096;

constexpr std::array kBounds = {
    FieldBounds{.field = "NodeReportStatus.observed_time", .form = TextForm::kTime},
    FieldBounds{.field = "NodeReportStatus.sources", .max_items = 64},
    FieldBounds{.field = "NodeReportStatus.numa_nodes", .max_items = kLastNuma + 1},
    FieldBounds{.field = "NodeReportStatus.pods", .max_items = 4096},
    FieldBounds{.field = "NodeReportStatus.default_cpus",
                .max_length = kLongestCpus,
                .form = TextForm::kCpus},
    FieldBounds{.field = "NodeReportStatus.memory_books", .max_items = kLastNuma + 1},
    FieldBounds{.field = "NodeReportStatus.rdma_devices", .max_items = 4096},
    FieldBounds{.field = "Source.read_time", .form = TextForm::kTime},
    FieldBounds{.field = "Source.error", .max_length = 4096},
    FieldBounds{.field = "Kubelet.reserved_system_cpus",
                .max_length = kLongestCpus,
                .form = TextForm::kCpus},
    FieldBounds{.field = "Kubelet.reserved_memory", .max_items = kLastNuma + 1},
    FieldBounds{.field = "MemoryReservation.numa_node", .maximum = kLastNuma},
    FieldBounds{.field = "MemoryReservation.limits", .max_items = 64, .form = TextForm::kBytes},
    FieldBounds{.field = "NumaNode.id", .maximum = kLastNuma},
    FieldBounds{.field = "NumaNode.memory", .form = TextForm::kBytes},
    FieldBounds{.field = "NumaNode.hugepages", .max_items = 64},
    // ACPI's SLIT has a byte for each.
    FieldBounds{.field = "NumaNode.distances", .maximum = 255, .max_items = kLastNuma + 1},
    FieldBounds{.field = "NumaNode.cores", .max_items = 4096},
    // Virtual machines say -1 where there is no socket.
    FieldBounds{.field = "Cores.socket", .minimum = -1},
    FieldBounds{.field = "Cores.uncore_cache", .minimum = -1},
    FieldBounds{.field = "Cores.threads",
                .max_length = kLongestCpus,
                .max_items = 64,
                .form = TextForm::kCpus},
    FieldBounds{.field = "Resource.groups", .max_items = kMostGroups},
    FieldBounds{.field = "DeviceGroup.endpoint", .max_length = 512},
    // Some plugins publish -1, and the kubelet then finds the device nowhere.
    FieldBounds{.field = "DeviceGroup.numa_nodes",
                .minimum = -1,
                .maximum = kLastNuma,
                .max_items = kLastNuma + 2},
    FieldBounds{.field = "DeviceGroup.count", .maximum = kMostDevices},
    FieldBounds{
        .field = "DeviceGroup.actual_numa_nodes", .maximum = kLastNuma, .max_items = kLastNuma + 1},
    FieldBounds{.field = "Pod.devices", .max_items = kMostGroups},
    FieldBounds{.field = "Pod.cpus", .max_length = kLongestCpus, .form = TextForm::kCpus},
    FieldBounds{.field = "Pod.memory", .max_items = 64},
    FieldBounds{.field = "Container.devices", .max_items = kMostGroups},
    FieldBounds{.field = "Container.cpus", .max_length = kLongestCpus, .form = TextForm::kCpus},
    FieldBounds{.field = "Container.memory", .max_items = 64},
    FieldBounds{.field = "HeldDevices.group", .maximum = kMostGroups - 1},
    FieldBounds{.field = "HeldDevices.count", .maximum = kMostDevices},
    FieldBounds{.field = "HeldMemory.numa_nodes", .maximum = kLastNuma, .max_items = kLastNuma + 1},
    FieldBounds{.field = "HeldMemory.bytes", .form = TextForm::kBytes},
    FieldBounds{.field = "MemoryBook.numa_node", .maximum = kLastNuma},
    FieldBounds{.field = "MemoryBook.cells", .maximum = kLastNuma, .max_items = kLastNuma + 1},
    FieldBounds{.field = "MemoryBook.free", .max_items = 64, .form = TextForm::kBytes},
    FieldBounds{.field = "MemoryBook.reserved", .max_items = 64, .form = TextForm::kBytes},
    FieldBounds{.field = "RdmaDevice.numa_node", .minimum = -1, .maximum = kLastNuma},
    FieldBounds{.field = "RdmaDevice.pci_path", .max_items = 64},
};

}  // namespace

FieldBounds BoundsOf(std::string_view message, std::string_view field) {
  for (const FieldBounds& bounds : kBounds) {
    const std::string_view name = bounds.field;
    if (name.size() == message.size() + 1 + field.size() && name.starts_with(message) &&
        name.ends_with(field) && name[message.size()] == '.') {
      return bounds;
    }
  }
  return {};
}

std::span<const FieldBounds> NodeReportBounds() {
  return kBounds;
}

std::string_view PatternOf(TextForm form) {
  switch (form) {
    case TextForm::kBytes:
      return "^[0-9]{1,19}$";
    case TextForm::kCpus:
      return "^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$";
    case TextForm::kFree:
    case TextForm::kTime:
      break;
  }
  return "";
}

}  // namespace numafit::api
