#include "agent/kubelet/go_dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace numafit::agent {

std::uint32_t Fnv32a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619U;
  }
  return hash;
}

std::string DumpInts(const std::vector<int>& values) {
  return fmt::format("[{}]", fmt::join(values, " "));
}

std::string DumpStrings(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, " "));
}

}  // namespace numafit::agent
