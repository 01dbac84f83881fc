#include "agent/host_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "kube/read_file.h"

namespace numafit::agent {

namespace fs = std::filesystem;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<int> ParseInt(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return number;
}

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

HostFiles::HostFiles(std::string root) : root_(std::move(root)) {
  while (!root_.empty() && root_.back() == '/') root_.pop_back();
}

std::string HostFiles::Path(std::string_view path) const {
  return root_ + std::string(path);
}

absl::StatusOr<std::string> HostFiles::Read(std::string_view path) const {
  return kube::ReadFile(Path(path));
}

std::optional<std::string> HostFiles::Line(std::string_view path) const {
  const absl::StatusOr<std::string> text = Read(path);
  if (!text.ok()) return std::nullopt;
  return std::string(Trim(*text));
}

std::optional<int> HostFiles::Number(std::string_view path) const {
  const std::optional<std::string> line = Line(path);
  return line.has_value() ? ParseInt(*line) : std::nullopt;
}

std::vector<std::string> HostFiles::List(std::string_view path) const {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(Path(path), fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool HostFiles::Exists(std::string_view path) const {
  std::error_code error;
  return fs::exists(Path(path), error);
}

std::string HostFiles::RealPath(std::string_view path) const {
  std::error_code error;
  const fs::path real = fs::canonical(Path(path), error);
  return error ? std::string() : real.string();
}

std::optional<std::int64_t> HostFiles::ModifiedAt(std::string_view path) const {
  struct stat status {};
  if (::stat(Path(path).c_str(), &status) != 0) return std::nullopt;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace numafit::agent
