// Where one HTTP/1.1 request begins and ends in a stream of bytes.
//
// The packaged cpp-httplib parses heads leniently and accepts bodies without an end in sight
// (chunks, gzip, two Content-Lengths). So framing is decided here, strictly, before it sees a byte:
// one Content-Length or none, no transfer or content encoding, CRLF line ends only, bounded size
// and number of header lines. What passes has one reading only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace numafit::extender::http {

struct HeadLimits {
  std::size_t max_head_bytes = 64 * 1024;
  int max_header_lines = 100;
  std::size_t max_body_bytes = std::size_t{16} * 1024 * 1024;
};

enum class HeadState {
  kIncomplete,  // more bytes are needed; nothing wrong so far
  kComplete,
  kRefused,  // answer error_status with error, then close
};

struct RequestHead {
  // Through the empty line.
  std::size_t head_bytes = 0;
  std::size_t content_length = 0;
  bool expects_continue = false;
  // Views into the scanned bytes.
  std::string_view method;
  std::string_view path;  // without the query, as sent (no percent-decoding)

  int error_status = 0;
  std::string error;
  // What the refusal counts as in the statistics.
  enum class Refusal { kNone, kMalformed, kHeadTooLarge, kBodyTooLarge, kEncoding };
  Refusal refusal = Refusal::kNone;
};

// Reads `size` bytes at `data`. `scanned` remembers, between calls on a growing buffer, how far the
// end of the head was looked for: start with 0. An `Expect` header is blanked out in place once
// understood (the caller answers it), hence the mutable data.
HeadState ScanHead(char* data, std::size_t size, const HeadLimits& limits, std::size_t* scanned,
                   RequestHead* head);

}  // namespace numafit::extender::http
