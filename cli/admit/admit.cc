#include "cli/admit/admit.h"

#include <istream>
#include <ostream>

#include "cli/admit/case.h"
#include "cli/admit/replay.h"
#include "nlohmann/json.hpp"

namespace numafit::cli {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Answer(const Case& replayed, Json& answer) {
  Replay replay(replayed);
  if (absl::Status status = replay.Start(); !status.ok()) return status;
  Json steps = Json::array();
  for (std::size_t i = 0; i < replayed.steps.size() && !replay.ended(); ++i) {
    Json step;
    if (absl::Status status = replay.Play(replayed.steps[i], step); !status.ok()) {
      return {status.code(), "steps[" + std::to_string(i) + "]: " + std::string(status.message())};
    }
    steps.push_back(std::move(step));
  }
  answer["steps"] = std::move(steps);
  return absl::OkStatus();
}

}  // namespace

std::string AnswerCase(const std::string& line) {
  const ParsedCase parsed = ParseCase(line);
  Json answer = Json::object();
  if (!parsed.id.empty()) answer["id"] = Json::parse(parsed.id);
  const absl::Status status =
      parsed.value.ok() ? Answer(*parsed.value, answer) : parsed.value.status();
  if (!status.ok()) answer["error"] = std::string(status.message());
  if (absl::IsUnimplemented(status)) answer["unsupported"] = true;
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int RunAdmit(std::istream& in, std::ostream& out) {
  std::string line;
  while (std::getline(in, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    out << AnswerCase(line) << '\n' << std::flush;
    if (!out) return 2;
  }
  return 0;
}

}  // namespace numafit::cli
