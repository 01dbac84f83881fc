#include "policy/admit.h"

#include "policy/admission.h"

namespace numafit::policy {

std::string_view RefusalReasonName(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kNone:
      return "";
    case RefusalReason::kTopologyAffinityError:
      return "TopologyAffinityError";
    case RefusalReason::kUnexpectedAdmissionError:
      return "UnexpectedAdmissionError";
    case RefusalReason::kSmtAlignmentError:
      return "SMTAlignmentError";
    case RefusalReason::kEmptyPodSharedPoolError:
      return "EmptyPodSharedPoolError";
    case RefusalReason::kPanic:
      return "<panic>";
  }
  return "";
}

void Apply(const Topology& topology, const Outcome& outcome, Usage& usage) {
  if (topology.HasBooks()) {
    usage.compute() = outcome.compute;
  }
  usage.Add(outcome.held.devices);
  if (!outcome.admitted) usage.Release(topology, outcome.held);
}

Verdict AdmitResult::verdict() const {
  if (truncated && !same_verdict) return Verdict::kUnknown;
  bool admits = false;
  bool refuses = false;
  for (const Outcome& outcome : outcomes) (outcome.admitted ? admits : refuses) = true;
  if (admits && refuses) return Verdict::kDepends;
  return admits ? Verdict::kAdmitted : Verdict::kRefused;
}

AdmitResult Admit(const Topology& topology, const Usage& usage, const Demand& demand,
                  int max_outcomes) {
  AdmitResult result;
  const auto visit = [&](const Outcome& outcome) {
    if (static_cast<int>(result.outcomes.size()) == max_outcomes) {
      result.truncated = true;
      return false;
    }
    result.outcomes.push_back(outcome);
    return true;
  };
  Admission admission(topology, usage, demand, visit);
  admission.Run();
  // Without enforcement a merge only says where to look first, and counts decide; but the memory
  // manager may refuse what it is told.
  const bool counts_decide =
      !Enforces(topology.kubelet().policy) && topology.memory_manager() == nullptr;
  result.same_verdict = counts_decide || !admission.asked_after_choice();
  result.same_affinities = !admission.asked_after_choice();
  if (admission.intractable()) {
    result.intractable = true;
    result.endless = admission.endless();
    result.truncated = true;
    result.same_verdict = false;
  }
  return result;
}

void ForEachOutcome(const Topology& topology, const Usage& usage, const Demand& demand,
                    absl::FunctionRef<bool(const Outcome&)> visit) {
  Admission(topology, usage, demand, visit).Run();
}

}  // namespace numafit::policy
