// Files that people write are read the same way everywhere: api/yaml_tree.h.
#pragma once

#include "api/yaml_tree.h"

namespace numafit::cache {

using api::KindName;
using api::ParseYaml;
using api::ReadTextFile;
using api::YamlToJson;
using api::YamlTree;

}  // namespace numafit::cache
