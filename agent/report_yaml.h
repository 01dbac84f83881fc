// A NodeReport object as text: as the API server would show it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

// The object of that name, `apiVersion`, `kind`, `metadata` and `status`, as YAML. Texts that YAML
// would read as something else are quoted, so that the text can be applied as it is.
absl::StatusOr<std::string> ReportYaml(const std::string& node,
                                       const v1alpha1::NodeReportStatus& status);

}  // namespace numafit::agent
