// What change of the request would let a Pod in on a node that refuses it, and what of the refusal
// is the kubelet's own fault. Nothing here is guessed: every change is judged on the node as the
// Pod was.
#pragma once

#include <string>
#include <vector>

#include "cache/judge.h"
#include "policy/alignment.h"
#include "policy/demand.h"

namespace numafit::cache {

struct Changes {
  // "with at least 9 CPUs", best first; at most two.
  std::vector<std::string> texts;
  // Sentences about faults of the kubelet that the changes brought to light.
  std::vector<std::string> faults;
};

// `judgement` is JudgeOnNode's. Empty unless the kubelet is what refuses. Cost: up to kMostTries
// judgements.
inline constexpr int kMostTries = 200;
[[nodiscard]] Changes ChangesThatPass(const NodeState& state, const policy::Demand& demand,
                                      const policy::Judgement& judgement);

// Says of a kubelet that is older or newer than the rules known here by which it is judged; empty
// for the others.
[[nodiscard]] std::string VersionNote(const policy::KubeletVersion& version);

}  // namespace numafit::cache
