// Tells when something in a few folders changed (inotify).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace numafit::agent {

// Not thread-safe. Files that are replaced by a rename, created and deleted ones, and sockets are
// seen; a folder that does not exist yet is tried again at each Rearm, and tells of itself through
// the folder above it where that one is watched too.
class FolderWatch {
 public:
  explicit FolderWatch(std::vector<std::string> folders);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // To poll for reading; -1 when the system gives no more watches (then only polling helps).
  [[nodiscard]] int fd() const { return fd_; }

  // Watches folders that have come since; cheap.
  void Rearm();

  // Takes what happened: paths that changed, without the temporary files that the kubelet writes
  // before it renames them. "" for a folder says that events were lost.
  std::vector<std::string> Take();

 private:
  const std::vector<std::string> folders_;
  int fd_ = -1;
  std::map<int, std::string> watched_;  // by watch descriptor
};

}  // namespace numafit::agent
