// HTTP answers: in one piece or byte by byte, the result is the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kube/http/response_parser.h"

namespace {

struct Result {
  bool ok;
  bool done;
  int status;
  std::string body;
  std::string content_type;
  bool operator==(const Result&) const = default;
};

Result Parse(std::string_view text, std::size_t piece) {
  numafit::kube::ResponseParser parser;
  Result result{};
  const auto on_body = [&](std::string_view part) {
    result.body.append(part);
    return absl::OkStatus();
  };
  absl::Status status;
  for (std::size_t at = 0; at < text.size() && status.ok() && !parser.done(); at += piece) {
    status = parser.Feed(text.substr(at, piece), on_body);
  }
  if (status.ok()) status = parser.FeedEnd();
  result.ok = status.ok();
  result.done = parser.done();
  result.status = result.ok ? parser.status() : 0;
  result.content_type = result.ok ? parser.content_type() : "";
  if (!result.ok) result.body.clear();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!(Parse(text, size + 1) == Parse(text, 1))) std::abort();
  return 0;
}
