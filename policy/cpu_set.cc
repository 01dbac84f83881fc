#include "policy/cpu_set.h"

#include <charconv>

#include "absl/status/status.h"

namespace numafit::policy {
namespace {

// A whole number without sign, nothing before or behind it.
bool ReadId(std::string_view text, int& id) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  return error == std::errc() && stop == end && id >= 0 && id < CpuSet::kMaxIds;
}

// "3" or "0-3".
bool AddPart(std::string_view part, CpuSet& set) {
  const std::size_t dash = part.find('-');
  int first = 0;
  int last = 0;
  if (!ReadId(part.substr(0, dash), first)) return false;
  if (!ReadId(dash == std::string_view::npos ? part : part.substr(dash + 1), last)) return false;
  for (int id = first; id <= last; ++id) set.Add(id);
  return first <= last;
}

}  // namespace

std::string FormatCpuSet(const CpuSet& set) {
  std::string text;
  int first = -1;
  int last = -1;
  const auto write = [&] {
    if (first < 0) return;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += '-' + std::to_string(last);
  };
  set.ForEach([&](int id) {
    if (first >= 0 && id == last + 1) {
      last = id;
      return;
    }
    write();
    first = last = id;
  });
  write();
  return text;
}

absl::StatusOr<CpuSet> ParseCpuSet(std::string_view text) {
  absl::StatusOr<CpuSet> set = CpuSet();
  bool more = !text.empty();
  while (more && set.ok()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    if (!AddPart(part, *set)) {
      set = absl::InvalidArgumentError("not CPUs: \"" + std::string(part) +
                                       "\"; wanted is a list like 0-3,8");
    }
  }
  return set;
}

}  // namespace numafit::policy
