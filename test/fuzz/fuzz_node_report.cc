// NodeReports in JSON: any bytes are read or refused, what was read survives a round trip, and what
// was read can be checked.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/node_report.h"
#include "api/pod_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace numafit::api;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto report = NodeReportFromJson(text);
  if (report.ok()) {
    const std::string written = NodeReportToJson(*report);
    const auto again = NodeReportFromJson(written);
    if (!again.ok() || NodeReportToJson(*again) != written) std::abort();
  }
  if (const auto value = ParseJson(text, "report"); value.ok()) {
    const auto lenient = ReadNodeReport(*value);
    if (lenient.ok() && lenient->problem.ok() != (lenient->status != nullptr)) std::abort();
    if (report.ok() && lenient.ok()) {
      const auto check = CheckNodeReport(*report->status);
      // What passes the check may still be the report of another node.
      if (!check.ok() && lenient->problem != check) std::abort();
    }
  }
  return 0;
}
