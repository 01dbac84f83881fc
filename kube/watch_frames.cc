#include "kube/watch_frames.h"

#include <fmt/format.h>

namespace numafit::kube {
namespace {

absl::Status TooLarge(std::size_t size) {
  return absl::DataLossError(
      fmt::format("watch frame of {} bytes from the API server: {} are the most that is read", size,
                  WatchFrames::kMaxFrame));
}

}  // namespace

bool WatchFrames::Next(std::string_view bytes, std::size_t& start, std::size_t& size,
                       std::size_t& end) {
  if (encoding_ == Encoding::kProtobuf) {
    if (bytes.size() < 4) return false;
    size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
    start = 4;
    end = start + size;
    if (size > kMaxFrame) status_ = TooLarge(size);
    return status_.ok() && bytes.size() >= end;
  }
  const std::size_t newline = bytes.find('\n', searched_);
  const std::size_t length = newline == std::string_view::npos ? bytes.size() : newline;
  if (length > kMaxFrame) status_ = TooLarge(length);
  searched_ = newline == std::string_view::npos ? bytes.size() : 0;
  start = 0;
  size = length;
  end = newline + 1;
  return status_.ok() && newline != std::string_view::npos;
}

absl::Status WatchFrames::Feed(std::string_view bytes,
                               const std::function<absl::Status(std::string_view)>& visit) {
  if (!status_.ok()) return status_;
  // Whole frames are visited where they lie; only an incomplete one is copied.
  const bool copied = !rest_.empty();
  if (copied) rest_.append(bytes);
  std::string_view todo = copied ? std::string_view(rest_) : bytes;
  std::size_t start = 0;
  std::size_t size = 0;
  std::size_t end = 0;
  while (status_.ok() && Next(todo, start, size, end)) {
    // Blank lines between JSON events mean nothing.
    const bool blank =
        encoding_ == Encoding::kJson &&
        todo.substr(start, size).find_first_not_of(" \t\r") == std::string_view::npos;
    if (!blank) status_ = visit(todo.substr(start, size));
    todo.remove_prefix(end);
  }
  if (!status_.ok()) return status_;
  if (copied) {
    rest_.erase(0, rest_.size() - todo.size());
  } else {
    rest_.assign(todo);
  }
  return absl::OkStatus();
}

}  // namespace numafit::kube
