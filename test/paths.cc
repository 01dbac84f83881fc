#include "test/paths.h"

namespace numafit::test {

// This is the one object that names its checkout, so that all others are the same in each and
// ccache finds them.
std::string SourceDir() {
  return NUMAFIT_SOURCE_DIR;
}

std::string BinaryDir() {
  return NUMAFIT_BINARY_DIR;
}

}  // namespace numafit::test
