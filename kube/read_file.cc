#include "kube/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace numafit::kube {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

absl::Status Error(const std::string& path, int error) {
  std::string text = fmt::format("{}: {}", path, std::generic_category().message(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Error(path, errno);
  std::string text;
  std::array<char, 16384> buffer;
  int error = 0;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    error = got < 0 ? errno : text.size() > kMaxBytes ? EFBIG : 0;
    if (error != 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  if (error != 0) return Error(path, error);
  return text;
}

}  // namespace numafit::kube
