// NodeReports (api/node_report.proto) as Kubernetes objects: read from JSON, written as JSON,
// checked.
//
// The JSON is proto3's: keys in lowerCamelCase (the names of the .proto file are read too), values
// that are zero left out, unknown keys ignored, null the same as absent. Numbers are integer
// literals in the range of int32; unlike other readers of proto3 JSON this one takes neither "5"
// nor 5.0 for 5, and neither does the API server (its schema is
// deploy/manifests/crd-nodereports.yaml).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/objects.h"

namespace numafit::v1alpha1 {
class NodeReportStatus;
}

namespace numafit::api {

inline constexpr char kNodeReportApiVersion[] = "numafit.io/v1alpha1";
inline constexpr char kNodeReportKind[] = "NodeReport";
// Largest report, as JSON text and in memory. etcd holds no object above 1.5 MiB; a host of 8
// accelerators and 8 endpoints with 64 tokens each needs a few KiB.
inline constexpr std::size_t kMaxNodeReportBytes = std::size_t{1} << 20;

// Most devices of a report, all resources together: each costs whoever reads it some bytes. A host
// of 16 accelerators has about 12,000 tokens when every family of every plugin is served.
inline constexpr std::int64_t kMaxReportedDevices = 65'536;

// A plain value; copies share the status, which nobody changes once it is here.
struct NodeReport {
  ObjectMeta metadata;  // the name is the node's; the object is cluster-scoped
  std::shared_ptr<const v1alpha1::NodeReportStatus> status;
  // Of a report that a watch brings: why its status cannot be used, which is null then.
  absl::Status problem;
};

// InvalidArgument: longer than kMaxNodeReportBytes, malformed JSON with the byte position, another
// apiVersion or kind, no status, or the path of a field of the wrong type
// ("status.resources[0].groups[1].count: expected an integer, got a string"). The content is not
// checked otherwise: see CheckNodeReport.
absl::StatusOr<NodeReport> NodeReportFromJson(std::string_view text);
// The same from a parsed document, without the bound on its length.
absl::StatusOr<NodeReport> NodeReportFromJsonValue(const nlohmann::json& value);

// For watches, where one bad object must not hide the others: read and checked, also whether it is
// the report of the node that it is named after; what is wrong goes into `problem`. InvalidArgument
// only when not even the metadata can be read.
absl::StatusOr<NodeReport> ReadNodeReport(const nlohmann::json& value);

// The object with apiVersion and kind; `problem` is not written. Equal reports give equal text.
// A null status is written as an empty one.
std::string NodeReportToJson(const NodeReport& report);
// Only what goes under `status`.
std::string NodeReportStatusToJson(const v1alpha1::NodeReportStatus& status);

// OK when a report can be worked with. InvalidArgument names the first field that cannot be right,
// as its path in the object, and its value:
//   * larger than kMaxNodeReportBytes;
//   * a number, a list, a text or the form of a text out of the bounds of api/node_report_bounds.h;
//   * two NUMA nodes, two resources, two memory books or two Pods that are the same one (Pods: by
//   uid,
//     without one by namespace and name);
//   * devices held of a resource or a group that is not listed, more of a group than it has, more
//   by
//     a container than by its Pod;
//   * a group that has NUMA nodes and says that it has no topology;
//   * a text that is not UTF-8;
//   * more than kMaxReportedDevices devices.
// Cost: linear in the report.
absl::Status CheckNodeReport(const v1alpha1::NodeReportStatus& status);

}  // namespace numafit::api
