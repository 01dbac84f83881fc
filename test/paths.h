// Where the tests find what they read and start.
#pragma once

#include <string>

namespace numafit::test {

// The repository's root, absolute.
[[nodiscard]] std::string SourceDir();
// The folder that the build's programs are in, absolute.
[[nodiscard]] std::string BinaryDir();

}  // namespace numafit::test
