// What the fields of a NodeReport may hold, in one place: CheckNodeReport refuses what is beyond
// it, and so does the API server, whose schema is generated from the same table.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace numafit::api {

// What a text must look like. Empty is always allowed: it is how proto3 says "not known".
enum class TextForm {
  kFree,
  kBytes,  // a decimal number in int64
  kCpus,   // "0-3,8": ids 0 to 4095, ascending ranges
  kTime,   // RFC 3339
};

struct FieldBounds {
  // "DeviceGroup.count": message and field as in node_report.proto. Of a list or a map the bounds
  // on numbers and texts hold for each element.
  std::string_view field;
  std::int32_t minimum = 0;
  std::int32_t maximum = std::numeric_limits<std::int32_t>::max();
  int max_length = 253;  // bytes of a text; 253 is the longest name in Kubernetes
  int max_items = 1024;  // of a list, entries of a map
  TextForm form = TextForm::kFree;
};

// The bounds of a field; the defaults above for one that the table does not name.
FieldBounds BoundsOf(std::string_view message, std::string_view field);
// Those that differ from the defaults.
std::span<const FieldBounds> NodeReportBounds();

// A regular expression (RE2) for the form, without the empty text; empty: none.
std::string_view PatternOf(TextForm form);

}  // namespace numafit::api
