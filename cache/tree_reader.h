// Files that people write are read the same way everywhere: api/tree_reader.h.
#pragma once

#include "api/tree_reader.h"
#include "cache/yaml_tree.h"

namespace numafit::cache {

using api::TreeReader;

}  // namespace numafit::cache
