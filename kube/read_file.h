// A whole small file, without exceptions.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace numafit::kube {

// At most 16 MiB. NotFound, or whatever else the system says, with the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace numafit::kube
