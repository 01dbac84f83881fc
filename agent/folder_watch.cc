#include "agent/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace numafit::agent {
namespace {

constexpr std::uint32_t kEvents = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM |
                                  IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

// k8s.io/kubernetes/pkg/kubelet/util/store writes ".NAME…" and renames it.
bool IsTemporary(std::string_view name) {
  return name.starts_with(".");
}

}  // namespace

FolderWatch::FolderWatch(std::vector<std::string> folders)
    : folders_(std::move(folders)), fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  Rearm();
}

FolderWatch::~FolderWatch() {
  if (fd_ >= 0) ::close(fd_);
}

void FolderWatch::Rearm() {
  if (fd_ < 0) return;
  for (const std::string& folder : folders_) {
    // The same folder gives the same descriptor; one that was made anew a new one.
    const int descriptor = ::inotify_add_watch(fd_, folder.c_str(), kEvents);
    if (descriptor >= 0) watched_[descriptor] = folder;
  }
}

std::vector<std::string> FolderWatch::Take() {
  std::vector<std::string> changed;
  bool rearm = false;
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = fd_ < 0 ? 0 : ::read(fd_, buffer.data(), buffer.size());
    if (got <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = buffer.data() + at + sizeof event;
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        changed.emplace_back();
        continue;
      }
      const auto folder = watched_.find(event.wd);
      if (folder == watched_.end()) continue;
      if (event.len > 0 && IsTemporary(name)) continue;
      changed.push_back(event.len > 0 ? folder->second + "/" + name : folder->second);
      rearm = rearm || (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0 ||
              std::find(folders_.begin(), folders_.end(), changed.back()) != folders_.end();
      if ((event.mask & IN_IGNORED) != 0) watched_.erase(folder);
    }
  }
  if (rearm) Rearm();
  return changed;
}

}  // namespace numafit::agent
