#include "extender/http/request_head.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>

#include "fmt/format.h"

namespace numafit::extender::http {
namespace {

using Refusal = RequestHead::Refusal;

HeadState Refuse(RequestHead* head, Refusal refusal, int status, std::string error) {
  head->refusal = refusal;
  head->error_status = status;
  head->error = std::move(error);
  return HeadState::kRefused;
}

HeadState Malformed(RequestHead* head, std::string error) {
  return Refuse(head, Refusal::kMalformed, 400, std::move(error));
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// RFC 9110 token characters: what a header name is made of.
bool IsToken(std::string_view text) {
  if (text.empty()) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::strchr("!#$%&'*+-.^_`|~", c) != nullptr;
  });
}

std::optional<std::size_t> ParseLength(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::size_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::size_t>(c - '0');
  }
  return value;
}

// The offset just after the empty line, or 0. Looks at new bytes only.
std::size_t FindHeadEnd(const char* data, std::size_t size, std::size_t* scanned) {
  const std::size_t from = *scanned > 3 ? *scanned - 3 : 0;
  const std::string_view text(data, size);
  const std::size_t at = text.find("\r\n\r\n", from);
  *scanned = size;
  return at == std::string_view::npos ? 0 : at + 4;
}

bool ReadRequestLine(std::string_view line, RequestHead* head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return false;
  head->method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (!IsToken(head->method) || target.empty() || target.find(' ') != std::string_view::npos) {
    return false;
  }
  head->path = target.substr(0, target.find('?'));
  return line.substr(last + 1).starts_with("HTTP/1.");
}

struct Seen {
  bool content_length = false;
};

HeadState ReadHeader(std::string_view name, std::string_view value, const HeadLimits& limits,
                     Seen* seen, RequestHead* head) {
  if (EqualsIgnoringCase(name, "Content-Length")) {
    const std::optional<std::size_t> length = ParseLength(value);
    if (!length.has_value() || seen->content_length) {
      return Malformed(head, "Content-Length must be one plain number, given once");
    }
    seen->content_length = true;
    head->content_length = *length;
    if (*length > limits.max_body_bytes) {
      return Refuse(head, Refusal::kBodyTooLarge, 413,
                    fmt::format("the body has {} bytes, the limit is {} bytes (bodyLimit)", *length,
                                limits.max_body_bytes));
    }
  } else if (EqualsIgnoringCase(name, "Transfer-Encoding")) {
    return Refuse(head, Refusal::kEncoding, 411,
                  "Transfer-Encoding is not accepted, send a Content-Length");
  } else if (EqualsIgnoringCase(name, "Content-Encoding")) {
    return Refuse(head, Refusal::kEncoding, 415,
                  "Content-Encoding is not accepted, send the body as it is");
  } else if (EqualsIgnoringCase(name, "Expect")) {
    if (!EqualsIgnoringCase(value, "100-continue")) {
      return Refuse(head, Refusal::kMalformed, 417, "only Expect: 100-continue is known");
    }
    head->expects_continue = true;
  }
  return HeadState::kComplete;
}

}  // namespace

HeadState ScanHead(char* data, std::size_t size, const HeadLimits& limits, std::size_t* scanned,
                   RequestHead* head) {
  *head = RequestHead{};
  const std::size_t end = FindHeadEnd(data, size, scanned);
  if ((end == 0 && size > limits.max_head_bytes) || end > limits.max_head_bytes) {
    return Refuse(head, Refusal::kHeadTooLarge, 431,
                  fmt::format("the request head is longer than {} bytes", limits.max_head_bytes));
  }
  if (end == 0) return HeadState::kIncomplete;
  head->head_bytes = end;

  int line_number = 0;
  Seen seen;
  for (std::size_t at = 0; at + 2 < end; ++line_number) {
    const std::size_t line_end = std::string_view(data, end).find("\r\n", at);
    const std::string_view line(data + at, line_end - at);
    char* const line_data = data + at;
    at = line_end + 2;
    if (std::any_of(line.begin(), line.end(), [](char c) {
          return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
        })) {
      return Malformed(head, "a control character in the request head");
    }
    if (line_number == 0) {
      if (!ReadRequestLine(line, head)) return Malformed(head, "not an HTTP/1.1 request line");
      continue;
    }
    if (line_number > limits.max_header_lines) {
      return Refuse(head, Refusal::kHeadTooLarge, 431,
                    fmt::format("more than {} header lines", limits.max_header_lines));
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
      return Malformed(head, "a header line without a plain name before the colon");
    }
    const HeadState state =
        ReadHeader(line.substr(0, colon), Trim(line.substr(colon + 1)), limits, &seen, head);
    if (state == HeadState::kRefused) return state;
    // httplib would answer it a second time.
    if (EqualsIgnoringCase(line.substr(0, colon), "Expect")) std::memcpy(line_data, "X-Seen", 6);
  }
  return HeadState::kComplete;
}

}  // namespace numafit::extender::http
