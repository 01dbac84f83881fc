// Case lines (docs/case-format.md): any line is read or refused with a reason, and what was read is
// replayed: the answer is JSON and has an entry for each step until the kubelet is no more.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/admit/admit.h"
#include "cli/admit/case.h"

namespace {

// A replay may take seconds on a big machine, by right: such cases are only read.
bool IsShort(const numafit::cli::Case& value) {
  std::size_t devices = 0;
  for (const auto& [resource, list] : value.devices) devices += list.size();
  return value.machine.numa.size() <= 4 && value.steps.size() <= 6 && devices <= 24;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string line(reinterpret_cast<const char*>(data), size);
  const numafit::cli::ParsedCase parsed = numafit::cli::ParseCase(line);
  if (!parsed.value.ok()) {
    if (parsed.value.status().message().empty()) std::abort();
    return 0;
  }
  if (!IsShort(*parsed.value)) return 0;
  const auto answer = nlohmann::json::parse(numafit::cli::AnswerCase(line));
  if (answer.contains("error")) return 0;
  const auto& steps = answer.at("steps");
  const std::size_t expected = parsed.value->steps.size();
  // A kubelet that does not start again ends the case.
  const bool ends = !steps.empty() && !steps.back().value("restarted", true);
  if (steps.size() > expected || (steps.size() < expected && !ends)) std::abort();
  return 0;
}
