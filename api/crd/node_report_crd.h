// The CustomResourceDefinition of NodeReports, made from api/node_report.proto: its messages are
// the schema, its comments the descriptions, api/node_report_bounds.h the bounds.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace numafit::api {

// The text of deploy/manifests/crd-nodereports.yaml. `descriptors` is what
// `protoc --include_source_info --descriptor_set_out` writes of api/node_report.proto: a program
// knows its messages, but not their comments.
absl::StatusOr<std::string> NodeReportCrd(std::string_view descriptors);

}  // namespace numafit::api
