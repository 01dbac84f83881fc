// Reading below a folder that stands for "/": the host's own, a mount of it in a container, or a
// made-up machine of a test.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numafit::agent {

// Paths are given as on the host ("/sys/class/infiniband"). Immutable; safe to share between
// threads. Links are followed as the system does: an absolute one leaves the folder.
class HostFiles {
 public:
  // Empty and "/" alike: the machine itself.
  explicit HostFiles(std::string root = "");

  // Where the file really is.
  [[nodiscard]] std::string Path(std::string_view path) const;
  // The whole file, at most 16 MiB; errors carry the path.
  [[nodiscard]] absl::StatusOr<std::string> Read(std::string_view path) const;
  // The text without white space at its ends; nothing when it cannot be read.
  [[nodiscard]] std::optional<std::string> Line(std::string_view path) const;
  // A decimal number; nothing when there is none.
  [[nodiscard]] std::optional<int> Number(std::string_view path) const;
  // Names in a folder, sorted; none when it cannot be read.
  [[nodiscard]] std::vector<std::string> List(std::string_view path) const;
  [[nodiscard]] bool Exists(std::string_view path) const;
  // The path with all links resolved; empty when it does not exist. Only its end means something
  // (the part that stands for "/" is still in it).
  [[nodiscard]] std::string RealPath(std::string_view path) const;
  // Nanoseconds since the epoch; nothing when it does not exist.
  [[nodiscard]] std::optional<std::int64_t> ModifiedAt(std::string_view path) const;

 private:
  std::string root_;  // without '/' at its end
};

// Without white space at both ends.
[[nodiscard]] std::string_view Trim(std::string_view text);
// A decimal number and nothing else.
[[nodiscard]] std::optional<int> ParseInt(std::string_view text);
// The part after the last '/'.
[[nodiscard]] std::string_view BaseName(std::string_view path);

}  // namespace numafit::agent
