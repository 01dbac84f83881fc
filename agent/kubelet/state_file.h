// What the readers of the kubelet's state files share. For .cc files only: it includes
// nlohmann/json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/json_reader.h"

namespace numafit::agent {

// A JSON object. InvalidArgument for anything else, an empty or cut-off file included.
absl::StatusOr<nlohmann::json> ParseObject(std::string_view text);

// DataLoss unless one of `forms` (texts of the value as Go writes it) has the checksum.
absl::Status VerifyChecksum(std::uint64_t checksum, const std::vector<std::string>& forms);

// A state file of the CPU or the memory manager. Since 1.37 the truth is JSON inside the string
// `data`, with a checksum of that string; the fields beside it are for older kubelets.
struct StateFile {
  nlohmann::json fields;
  bool verified = false;  // by the checksum of `data`
};
absl::StatusOr<StateFile> OpenStateFile(std::string_view text);

// Like JsonReader::Int for what Go calls uint64.
std::uint64_t ReadUint64(const api::JsonReader& place);
// A list of NUMA ids; absent and null are empty.
std::vector<int> ReadNumaIds(const api::JsonReader& place);

}  // namespace numafit::agent
