// The extender's wire format: any bytes are read or refused, and what was read can be written.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/extender.h"

namespace {

template <typename T>
void RoundTrip(const absl::StatusOr<T>& value, absl::StatusOr<T> (*parse)(std::string_view)) {
  if (!value.ok()) return;
  if (!parse(numafit::api::ToJson(*value)).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace numafit::api;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  RoundTrip(ParseExtenderBindingArgs(text), ParseExtenderBindingArgs);
  RoundTrip(ParseExtenderArgs(text), ParseExtenderArgs);
  RoundTrip(ParseExtenderFilterResult(text), ParseExtenderFilterResult);
  RoundTrip(ParseHostPriorityList(text), ParseHostPriorityList);
  RoundTrip(ParseExtenderBindingResult(text), ParseExtenderBindingResult);
  RoundTrip(ParseExtenderPreemptionResult(text), ParseExtenderPreemptionResult);
  static_cast<void>(ParseExtenderPreemptionArgs(text).ok());
  return 0;
}
