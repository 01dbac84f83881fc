#include "kube/http/response_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace numafit::kube {
namespace {

absl::Status Malformed(std::string_view what) {
  return absl::DataLossError(fmt::format("malformed HTTP answer: {}", what));
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool EqualFold(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// The whole text is one number.
template <typename T>
bool ParseNumber(std::string_view text, int base, T& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && stop == end;
}

}  // namespace

bool ResponseParser::ReadsLines() const {
  switch (state_) {
    case State::kStatusLine:
    case State::kHeader:
    case State::kChunkSize:
    case State::kChunkEnd:
    case State::kTrailer:
      return true;
    default:
      return false;
  }
}

absl::Status ResponseParser::Feed(std::string_view bytes,
                                  const std::function<absl::Status(std::string_view)>& on_body) {
  started_ = started_ || !bytes.empty();
  while (!bytes.empty()) {
    if (state_ == State::kDone) {
      keep_alive_ = false;  // bytes that nobody asked for
      return absl::OkStatus();
    }
    if (ReadsLines()) {
      const std::size_t newline = bytes.find('\n');
      const std::size_t taken = std::min(newline, bytes.size() - 1) + 1;
      line_bytes_ += taken;
      if (line_bytes_ > kMaxHeaderBytes) return Malformed("header above 64 KiB");
      line_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (newline == std::string_view::npos) return absl::OkStatus();
      line_.pop_back();
      if (!line_.empty() && line_.back() == '\r') line_.pop_back();
      absl::Status status = Line(line_);
      line_.clear();
      if (!status.ok()) return status;
      continue;
    }
    line_bytes_ = 0;
    const std::size_t taken =
        state_ == State::kUntilEnd
            ? bytes.size()
            : static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), body_left_));
    const std::string_view piece = bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (state_ != State::kUntilEnd && (body_left_ -= taken) == 0) {
      state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
    }
    if (absl::Status status = on_body(piece); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ResponseParser::FeedEnd() {
  keep_alive_ = false;
  if (state_ == State::kUntilEnd) state_ = State::kDone;
  if (state_ == State::kDone) return absl::OkStatus();
  return absl::UnavailableError(started_ ? "the connection ended inside an answer"
                                         : "the connection ended before an answer");
}

absl::Status ResponseParser::Line(std::string_view line) {
  switch (state_) {
    case State::kStatusLine:
      return StatusLine(line);
    case State::kHeader:
      return line.empty() ? HeaderEnd() : HeaderLine(line);
    case State::kChunkSize:
      return ChunkSizeLine(line);
    case State::kChunkEnd:
      if (!line.empty()) return Malformed("no line end after a chunk");
      state_ = State::kChunkSize;
      return absl::OkStatus();
    default:  // kTrailer
      if (line.empty()) state_ = State::kDone;
      return absl::OkStatus();
  }
}

absl::Status ResponseParser::StatusLine(std::string_view line) {
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ' ||
      !ParseNumber(line.substr(9, 3), 10, status_) || status_ < 100 ||
      (line.size() > 12 && line[12] != ' ')) {
    return Malformed(fmt::format("status line \"{}\"", line.substr(0, 40)));
  }
  keep_alive_ = line[7] != '0';
  state_ = State::kHeader;
  return absl::OkStatus();
}

absl::Status ResponseParser::ContentLength(std::string_view value) {
  std::uint64_t length = 0;
  if (!ParseNumber(value, 10, length) || (has_length_ && length != body_left_)) {
    return Malformed(fmt::format("Content-Length \"{}\"", value.substr(0, 40)));
  }
  has_length_ = true;
  body_left_ = length;
  return absl::OkStatus();
}

absl::Status ResponseParser::HeaderLine(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line[0] == ' ' || line[0] == '\t') {
    return Malformed(fmt::format("header line \"{}\"", line.substr(0, 40)));
  }
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = Trim(line.substr(colon + 1));
  if (EqualFold(name, "Content-Length")) return ContentLength(value);
  if (EqualFold(name, "Transfer-Encoding")) {
    if (!EqualFold(value, "chunked")) {
      return Malformed(fmt::format("Transfer-Encoding \"{}\"", value.substr(0, 40)));
    }
    chunked_ = true;
  } else if (EqualFold(name, "Content-Encoding")) {
    if (!EqualFold(value, "identity")) {
      return Malformed(fmt::format("Content-Encoding \"{}\"", value.substr(0, 40)));
    }
  } else if (EqualFold(name, "Content-Type")) {
    content_type_ = value;
  } else if (EqualFold(name, "Connection")) {
    if (EqualFold(value, "close")) keep_alive_ = false;
  } else if (EqualFold(name, "Retry-After")) {
    // The form with a date is not used by the API server.
    int seconds = 0;
    if (ParseNumber(value, 10, seconds)) retry_after_seconds_ = std::clamp(seconds, 0, 3600);
  }
  return absl::OkStatus();
}

absl::Status ResponseParser::HeaderEnd() {
  if (status_ < 200) {
    if (status_ == 101) return Malformed("it switched protocols");
    *this = ResponseParser();
    started_ = true;
    return absl::OkStatus();
  }
  if (status_ == 204 || status_ == 304) {
    state_ = State::kDone;
  } else if (chunked_) {
    if (has_length_) return Malformed("Content-Length beside chunks");
    state_ = State::kChunkSize;
  } else if (has_length_) {
    state_ = body_left_ == 0 ? State::kDone : State::kLength;
  } else {
    state_ = State::kUntilEnd;
    keep_alive_ = false;
  }
  return absl::OkStatus();
}

absl::Status ResponseParser::ChunkSizeLine(std::string_view line) {
  const std::string_view digits = Trim(line.substr(0, line.find(';')));
  if (!ParseNumber(digits, 16, body_left_)) {
    return Malformed(fmt::format("chunk size \"{}\"", line.substr(0, 40)));
  }
  state_ = body_left_ == 0 ? State::kTrailer : State::kChunkData;
  return absl::OkStatus();
}

}  // namespace numafit::kube
