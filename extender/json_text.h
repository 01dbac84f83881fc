// Writing JSON text by hand: answers and log lines, into buffers that are kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace numafit::extender {

// Appends `text` as a JSON string, quotes included. Control characters, quotes and backslashes are
// escaped; bytes that are not UTF-8 become U+FFFD, so the output is always valid JSON.
void AppendJsonString(std::string_view text, std::string* out);

void AppendInt(std::int64_t value, std::string* out);

}  // namespace numafit::extender
