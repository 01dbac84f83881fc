// Kubernetes resource quantities ("500m", "16Gi", "1e3", "4").
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace numafit::api {

// A quantity in thousandths of its unit, saturating at the ends of int64: enough for every
// resource that numafit reads (CPU in milli, bytes up to 8 PiB, device counts). Values finer than
// 1/1000 are rounded up, as apimachinery's resource.Quantity.MilliValue does.
class Quantity {
 public:
  constexpr Quantity() = default;
  static constexpr Quantity FromMilli(std::int64_t milli) { return Quantity(milli); }
  static Quantity FromInt(std::int64_t value);

  // Accepts apimachinery's syntax: sign, decimal number, and one of n u m k M G T P E, Ki Mi Gi
  // Ti Pi Ei or a decimal exponent. InvalidArgument names the text that is wrong.
  static absl::StatusOr<Quantity> Parse(std::string_view text);

  [[nodiscard]] constexpr std::int64_t milli() const { return milli_; }
  // Rounded up to the next integer, as Quantity.Value does.
  [[nodiscard]] std::int64_t value() const;
  [[nodiscard]] bool IsZero() const { return milli_ == 0; }
  // The shortest plain form: "4", "500m". Not apimachinery's canonical form.
  [[nodiscard]] std::string ToString() const;

  constexpr auto operator<=>(const Quantity&) const = default;

 private:
  constexpr explicit Quantity(std::int64_t milli) : milli_(milli) {}
  std::int64_t milli_ = 0;
};

}  // namespace numafit::api
