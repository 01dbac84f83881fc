// The reference of a NodeReport's fields for people, made from api/node_report.proto.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace numafit::api {

// The text of docs/node-report-fields.md. `descriptors` as in node_report_crd.h.
absl::StatusOr<std::string> NodeReportFields(std::string_view descriptors);

}  // namespace numafit::api
