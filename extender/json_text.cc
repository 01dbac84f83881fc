#include "extender/json_text.h"

#include <charconv>
#include <cstddef>
#include <cstring>

namespace numafit::extender {
namespace {

// True when none of the eight bytes needs a look: printable ASCII except '"' and '\\'.
bool AllPlain(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::uint64_t kHigh = 0x8080808080808080ULL;
  const auto has_zero = [](std::uint64_t x) { return (x - kOnes) & ~x & kHigh; };
  const std::uint64_t control = (word - kOnes * 0x20) & ~word & kHigh;
  return ((word & kHigh) | control | has_zero(word ^ (kOnes * '"')) |
          has_zero(word ^ (kOnes * '\\'))) == 0;
}

// Length of the well-formed UTF-8 sequence at `at`, 0 when there is none (RFC 3629).
std::size_t SequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(at);
  const unsigned second = byte(at + 1);
  if (first >= 0xC2 && first <= 0xDF) return tail(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!tail(at + 1) || !tail(at + 2)) return 0;
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!tail(at + 1) || !tail(at + 2) || !tail(at + 3)) return 0;
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second > 0x8F) return 0;
    return 4;
  }
  return 0;
}

void AppendControl(unsigned char c, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '\n':
      out->append("\\n");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\r':
      out->append("\\r");
      return;
    default:
      out->append("\\u00");
      out->push_back(kHex[c >> 4]);
      out->push_back(kHex[c & 0xF]);
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  std::size_t done = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if (AllPlain(word)) {
        at += 8;
        continue;
      }
    }
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++at;
      continue;
    }
    if (c >= 0x80) {
      const std::size_t length = SequenceLength(text, at);
      if (length > 0) {
        at += length;
        continue;
      }
    }
    out->append(text.substr(done, at - done));
    if (c >= 0x80) {
      out->append("\xEF\xBF\xBD");
    } else if (c < 0x20) {
      AppendControl(c, out);
    } else {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    }
    done = ++at;
  }
  out->append(text.substr(done));
  out->push_back('"');
}

void AppendInt(std::int64_t value, std::string* out) {
  char buffer[24];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out->append(buffer, static_cast<std::size_t>(result.ptr - buffer));
}

}  // namespace numafit::extender
