#include "api/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace numafit::api {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t SkipDigits(std::string_view text, std::size_t at) {
  while (at < text.size() && IsDigit(text[at])) ++at;
  return at;
}

// The factor that a suffix stands for: 10^decimal * 1024^binary.
struct Factor {
  std::int64_t decimal = 0;
  int binary = 0;
};

std::optional<Factor> ParseExponent(std::string_view digits) {
  if (digits.size() > 1 && digits[0] == '+' && IsDigit(digits[1])) digits.remove_prefix(1);
  std::int64_t exponent = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, exponent);
  if (error != std::errc() || stop != end) return std::nullopt;
  // Far past both ends of what fits: keeps the sums below from overflowing.
  return Factor{std::clamp<std::int64_t>(exponent, -1'000'000'000, 1'000'000'000), 0};
}

std::optional<Factor> ParseSuffix(std::string_view suffix) {
  if (suffix.empty()) return Factor{};
  constexpr std::string_view kUpper = "KMGTPE";
  const std::size_t power = kUpper.find(suffix[0]);
  if (suffix.size() == 2 && suffix[1] == 'i' && power != std::string_view::npos) {
    return Factor{0, static_cast<int>(power) + 1};
  }
  if (suffix.size() == 1) {
    switch (suffix[0]) {
      case 'n':
        return Factor{-9, 0};
      case 'u':
        return Factor{-6, 0};
      case 'm':
        return Factor{-3, 0};
      case 'k':
        return Factor{3, 0};
      default:
        // "K" alone is no suffix, and "E" alone is exa, not an exponent.
        if (power == std::string_view::npos || power == 0) return std::nullopt;
        return Factor{3 * (static_cast<std::int64_t>(power) + 1), 0};
    }
  }
  if (suffix[0] == 'e' || suffix[0] == 'E') return ParseExponent(suffix.substr(1));
  return std::nullopt;
}

// digits * 1024, in place; `digits` is a decimal number, most significant digit first.
void MultiplyBy1024(std::string& digits) {
  unsigned carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    carry += static_cast<unsigned>(*digit - '0') * 1024U;
    *digit = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  if (carry != 0) digits.insert(0, std::to_string(carry));
}

// |digits * 10^exponent| rounded up, saturating at 2^63 - 1.
std::int64_t Scale(std::string digits, std::int64_t exponent) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return 0;
  bool round_up = false;
  if (exponent < 0) {
    const auto size = static_cast<std::int64_t>(digits.size());
    const auto cut = static_cast<std::size_t>(std::max<std::int64_t>(size + exponent, 0));
    round_up = digits.find_first_not_of('0', cut) != std::string::npos;
    digits.resize(cut);
  } else {
    if (static_cast<std::int64_t>(digits.size()) + exponent > 19) return kMax;
    digits.append(static_cast<std::size_t>(exponent), '0');
  }
  if (digits.empty()) digits = "0";
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc()) return kMax;
  return round_up && value != kMax ? value + 1 : value;
}

absl::Status Malformed(std::string_view text, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not a quantity: expected {}", text.substr(0, 64), expected));
}

}  // namespace

Quantity Quantity::FromInt(std::int64_t value) {
  if (value > kMax / 1000) return Quantity(kMax);
  if (value < kMin / 1000) return Quantity(kMin);
  return Quantity(value * 1000);
}

// The grammar is that of apimachinery's parseQuantityString, oddities included: a missing number
// ("Ki", "-", ".") reads as zero.
absl::StatusOr<Quantity> Quantity::Parse(std::string_view text) {
  if (text.empty()) return Malformed(text, "a number such as 4, 500m or 16Gi");
  const bool negative = text[0] == '-';
  const std::size_t start = negative || text[0] == '+' ? 1 : 0;
  std::size_t at = SkipDigits(text, start);
  std::string digits(text.substr(start, at - start));
  std::int64_t exponent = 3;  // thousandths
  if (at < text.size() && text[at] == '.') {
    const std::size_t stop = SkipDigits(text, at + 1);
    digits += text.substr(at + 1, stop - at - 1);
    exponent -= static_cast<std::int64_t>(stop - at - 1);
    at = stop;
  }
  const std::optional<Factor> factor = ParseSuffix(text.substr(at));
  if (!factor.has_value()) {
    return Malformed(text, at == start ? "a number such as 4, 500m or 16Gi"
                                       : "one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, or e and "
                                         "an exponent, after the number");
  }
  for (int i = 0; i < factor->binary; ++i) MultiplyBy1024(digits);
  const std::int64_t magnitude = Scale(std::move(digits), exponent + factor->decimal);
  return Quantity(negative ? -magnitude : magnitude);
}

std::int64_t Quantity::value() const {
  const std::int64_t rest = milli_ % 1000;
  return milli_ / 1000 + (rest > 0 ? 1 : 0) - (rest < 0 ? 1 : 0);
}

std::string Quantity::ToString() const {
  if (milli_ % 1000 == 0) return fmt::format("{}", milli_ / 1000);
  return fmt::format("{}m", milli_);
}

}  // namespace numafit::api
