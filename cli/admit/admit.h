// `numafit admit`: replays cases through the mirror of the kubelet's admission.
//
// One case a line in, one answer a line out, in order, flushed after each: a judge can ask and
// wait. The form of both is docs/case-format.md. The state that a case goes through may be several
// at once, because the kubelet's pick is random: the answer says what can happen.
#pragma once

#include <iosfwd>
#include <string>

namespace numafit::cli {

// The answer to one case, without a newline. A malformed case is answered too (`error`).
[[nodiscard]] std::string AnswerCase(const std::string& line);

// Answers every line of `in` that is not empty. 0, or 2 when `out` cannot be written.
int RunAdmit(std::istream& in, std::ostream& out);

}  // namespace numafit::cli
