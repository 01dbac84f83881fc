#include "policy/kubelet_version.h"

#include <charconv>

namespace numafit::policy {
namespace {

// Reads a number at the front of `text` and drops it; false when there is none.
bool TakeNumber(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<KubeletVersion> KubeletVersion::TryParse(std::string_view text) {
  KubeletVersion version;
  if (text.starts_with('v')) text.remove_prefix(1);
  if (!TakeNumber(text, version.major) || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  if (!TakeNumber(text, version.minor)) return std::nullopt;
  return version;
}

KubeletVersion KubeletVersion::Parse(std::string_view text) {
  return TryParse(text).value_or(KubeletVersion{});
}

}  // namespace numafit::policy
