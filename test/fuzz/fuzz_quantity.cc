// Quantities: any text parses or is refused, and what was parsed prints a form that reads back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/quantity.h"
#include "api/resource_class.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using numafit::api::EndpointKey;
  using numafit::api::Quantity;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto quantity = Quantity::Parse(text); quantity.ok()) {
    const auto again = Quantity::Parse(quantity->ToString());
    if (!again.ok() || *again != *quantity) std::abort();
  }
  static const numafit::api::ResourceClasses classes({{"*a*b*", {}}, {"x*y", {}}});
  static_cast<void>(classes.Classify(text));
  // A key is a piece of the id, and never longer than it.
  const std::string_view key = EndpointKey(text);
  if (!text.starts_with(key)) std::abort();
  return 0;
}
