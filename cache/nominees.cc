#include "cache/nominees.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>

#include "policy/admit.h"
#include "policy/alignment.h"

namespace numafit::cache {
namespace {

using Usages = std::set<policy::Usage>;

bool Fits(const NodeState& state, const Usages& usages, const policy::Demand& demand) {
  policy::NodeKnowledge knowledge;
  knowledge.usages.assign(usages.begin(), usages.end());
  return policy::Judge(*state.topology, knowledge, demand, nullptr).fits();
}

// What may be in use once the kubelet has been asked about this Pod as well.
Usages After(const NodeState& state, const Usages& before, const policy::Demand& demand) {
  Usages after;
  for (const policy::Usage& usage : before) {
    for (const policy::Outcome& outcome : policy::Admit(*state.topology, usage, demand).outcomes) {
      policy::Usage next = usage;
      policy::Apply(*state.topology, outcome, next);
      after.insert(std::move(next));
    }
  }
  return after;
}

}  // namespace

bool operator<(const Nomination& a, const Nomination& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  return std::tie(a.creation_time, a.uid) < std::tie(b.creation_time, b.uid);
}

Nominees::Nominees(std::vector<Nomination> nominations) : nominations_(std::move(nominations)) {
  std::sort(nominations_.begin(), nominations_.end());
}

bool Nominees::LeavesRoom(const NodeState& state, std::string_view uid, std::int32_t priority,
                          const policy::Demand& demand) const {
  const auto most = static_cast<std::size_t>(state.max_states);
  Usages without(state.knowledge.usages.begin(), state.knowledge.usages.end());
  Usages with = After(state, without, demand);
  for (const Nomination& nominee : nominations_) {
    if (nominee.uid == uid || nominee.priority < priority) break;
    // More than anybody looks at: nobody's room is given away.
    const bool known = !without.empty() && !with.empty();
    if (!known || without.size() > most || with.size() > most) return false;
    if (Fits(state, without, *nominee.demand) && !Fits(state, with, *nominee.demand)) return false;
    without = After(state, without, *nominee.demand);
    with = After(state, with, *nominee.demand);
  }
  return true;
}

}  // namespace numafit::cache
