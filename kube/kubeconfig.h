// The text of a kubeconfig file, without touching the disk. LoadKubeconfig in kube/client.h is the
// way in; this is apart so that it can be tested and fuzzed.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "kube/client.h"

namespace numafit::kube {

// Reads a file that the kubeconfig names; the path is as written there.
using ReadReferencedFile = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// `name` is the file's name in errors. token_file is left as written.
absl::StatusOr<Credentials> ParseKubeconfig(const std::string& text, const std::string& name,
                                            const ReadReferencedFile& read_file);

}  // namespace numafit::kube
