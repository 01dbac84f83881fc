// Where a text stops being JSON, for the answer to whoever sent it. Slow path: simdjson tells fast
// that a text is wrong, and not where.
#pragma once

#include <string>
#include <string_view>

namespace numafit::extender {

// "malformed JSON at byte 17: …" (bytes counted from 1), or empty when the text is JSON.
std::string DescribeJsonError(std::string_view text);

}  // namespace numafit::extender
