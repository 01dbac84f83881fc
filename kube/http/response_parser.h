// An HTTP/1.1 response, read piece by piece.
//
// Not cpp-httplib's client: this one bounds every line it has not understood yet (httplib matches
// status lines with std::regex, which recurses), can be cancelled in every wait, and knows whether
// any byte of an answer has arrived, which decides whether a request may be sent again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace numafit::kube {

// Feed bytes in pieces of any size. Interim (1xx) responses are skipped. Bodies by Content-Length,
// chunked, or up to the end of the connection; no content codings (none are asked for). Malformed
// or oversized input is DataLoss; after an error the parser is of no further use. Not thread-safe.
class ResponseParser {
 public:
  static constexpr std::size_t kMaxHeaderBytes = std::size_t{64} << 10;

  // Calls on_body(piece) for each piece of the body and stops at its first error.
  absl::Status Feed(std::string_view bytes,
                    const std::function<absl::Status(std::string_view)>& on_body);
  // The connection ended. Unavailable when the response was not complete.
  absl::Status FeedEnd();

  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] bool has_header() const { return state_ >= State::kLength; }
  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  // Valid with has_header().
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& content_type() const { return content_type_; }
  [[nodiscard]] int retry_after_seconds() const { return retry_after_seconds_; }
  // The connection can carry another request. Valid with done().
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }

 private:
  enum class State {
    kStatusLine,
    kHeader,
    kLength,    // body of known length
    kUntilEnd,  // body up to the end of the connection
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailer,
    kDone,
  };

  absl::Status Line(std::string_view line);
  absl::Status StatusLine(std::string_view line);
  absl::Status HeaderLine(std::string_view line);
  absl::Status ContentLength(std::string_view value);
  absl::Status HeaderEnd();
  absl::Status ChunkSizeLine(std::string_view line);
  [[nodiscard]] bool ReadsLines() const;

  State state_ = State::kStatusLine;
  std::string line_;             // an incomplete line
  std::size_t line_bytes_ = 0;   // of header, chunk sizes and trailer since the last body byte
  std::uint64_t body_left_ = 0;  // of the body or the chunk
  bool started_ = false;
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
  int status_ = 0;
  int retry_after_seconds_ = 0;
  std::string content_type_;
};

}  // namespace numafit::kube
