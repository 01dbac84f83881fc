#include "agent/kubelet/state_file.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "agent/kubelet/go_dump.h"

namespace numafit::agent {

using api::JsonReader;
using nlohmann::json;

absl::StatusOr<json> ParseObject(std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("the file is empty");
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return absl::InvalidArgumentError(fmt::format("no JSON, or cut off ({} bytes)", text.size()));
  }
  if (!document.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("expected an object, got {}", document.type_name()));
  }
  return document;
}

absl::Status VerifyChecksum(std::uint64_t checksum, const std::vector<std::string>& forms) {
  std::uint32_t found = 0;
  for (const std::string& form : forms) {
    found = Fnv32a(form);
    if (found == checksum) return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("checksum: the file says {}, its content has {}", checksum, found));
}

absl::StatusOr<StateFile> OpenStateFile(std::string_view text) {
  absl::StatusOr<json> document = ParseObject(text);
  if (!document.ok()) return document.status();
  const auto data = document->find("data");
  if (data == document->end() || data->is_null()) return StateFile{*std::move(document), false};
  absl::Status status;
  const JsonReader root(*document, status);
  const std::string inner = root["data"].String();
  const std::uint64_t checksum = ReadUint64(root["dataChecksum"]);
  if (!status.ok()) return status;
  status = VerifyChecksum(checksum, {"(string)" + inner});
  if (!status.ok()) return status;
  absl::StatusOr<json> fields = ParseObject(inner);
  if (!fields.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("data: {}", std::string(fields.status().message())));
  }
  return StateFile{*std::move(fields), true};
}

std::uint64_t ReadUint64(const JsonReader& place) {
  // Sizes beyond int64 are no sizes.
  return static_cast<std::uint64_t>(place.Int(0, std::numeric_limits<std::int64_t>::max()));
}

std::vector<int> ReadNumaIds(const JsonReader& place) {
  std::vector<int> ids;
  place.ForEach([&ids](const JsonReader& id) { ids.push_back(static_cast<int>(id.Int(0, 4095))); });
  return ids;
}

}  // namespace numafit::agent
