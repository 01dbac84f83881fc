// The kubelet's checksum of its state files: FNV-1a (32 bits) of a text form of the Go value
// (k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum, k8s.io/utils/dump.ForHash, which is
// spew's "%#v" with sorted keys). The form names Go's types, so the readers of each file write it
// out for theirs; these are the parts that they share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace numafit::agent {

[[nodiscard]] std::uint32_t Fnv32a(std::string_view text);

// "[0 1]": the elements of a slice inside a typed one; `null` slices are "<nil>".
[[nodiscard]] std::string DumpInts(const std::vector<int>& values);
[[nodiscard]] std::string DumpStrings(const std::vector<std::string>& values);

}  // namespace numafit::agent
