// Request heads: any bytes are framed or refused, and the same whether they come at once or one by
// one.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "extender/http/request_head.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace numafit::extender::http;
  const HeadLimits limits{.max_head_bytes = 512, .max_header_lines = 8, .max_body_bytes = 1000};
  std::string whole(reinterpret_cast<const char*>(data), size);
  std::string growing;
  growing.reserve(size);
  RequestHead at_once;
  RequestHead stepwise;
  std::size_t scanned = 0;
  const HeadState first = ScanHead(whole.data(), whole.size(), limits, &scanned, &at_once);
  HeadState last = HeadState::kIncomplete;
  scanned = 0;
  for (std::size_t i = 0; i < size && last == HeadState::kIncomplete; ++i) {
    growing.push_back(static_cast<char>(data[i]));
    last = ScanHead(growing.data(), growing.size(), limits, &scanned, &stepwise);
  }
  if (first == HeadState::kComplete &&
      (last != first || stepwise.content_length != at_once.content_length ||
       stepwise.head_bytes != at_once.head_bytes || at_once.content_length > 1000)) {
    std::abort();
  }
  if (first == HeadState::kRefused && at_once.error.empty()) std::abort();
  return 0;
}
