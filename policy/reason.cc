#include "policy/alignment.h"

namespace numafit::policy {

std::string_view AlignmentName(Alignment alignment) {
  switch (alignment) {
    case Alignment::kImpossible:
      return "impossible";
    case Alignment::kPossible:
      return "possible";
    case Alignment::kGuaranteed:
      return "guaranteed";
    case Alignment::kNotNeeded:
      return "not-needed";
  }
  return "";
}

std::string_view ReasonCode(Reason reason) {
  switch (reason) {
    case Reason::kFits:
      return "fits";
    case Reason::kNumaFragmented:
      return "numa-fragmented";
    case Reason::kNeverFits:
      return "never-fits";
    case Reason::kKubeletRefuses:
      return "kubelet-refuses";
    case Reason::kEndpointsNotDistinct:
      return "endpoints-not-distinct";
    case Reason::kNotGuaranteed:
      return "not-guaranteed";
    case Reason::kSettling:
      return "settling";
    case Reason::kCoolingDown:
      return "cooling-down";
    case Reason::kKeptForNominee:
      return "kept-for-nominee";
    case Reason::kNoReport:
      return "no-report";
    case Reason::kStaleReport:
      return "stale-report";
    case Reason::kKubeletAway:
      return "kubelet-away";
    case Reason::kUnsupported:
      return "unsupported";
  }
  return "";
}

std::string_view ReasonText(Reason reason) {
  switch (reason) {
    case Reason::kFits:
      return "numafit: the Pod fits";
    case Reason::kNumaFragmented:
      return "numafit: enough is free but not together on one NUMA node";
    case Reason::kNeverFits:
      return "numafit: this hardware cannot align the request even when empty";
    case Reason::kKubeletRefuses:
      return "numafit: kubelet would refuse the Pod";
    case Reason::kEndpointsNotDistinct:
      return "numafit: not enough distinct endpoints";
    case Reason::kNotGuaranteed:
      return "numafit: alignment is possible but not guaranteed";
    case Reason::kSettling:
      return "numafit: earlier Pods have not shown yet where they landed";
    case Reason::kCoolingDown:
      return "numafit: kubelet refused this shape here a moment ago";
    case Reason::kKeptForNominee:
      return "numafit: room is kept for a Pod that is nominated to this node";
    case Reason::kNoReport:
      return "numafit: no report from this node";
    case Reason::kStaleReport:
      return "numafit: report of this node is too old";
    case Reason::kKubeletAway:
      return "numafit: kubelet of this node does not answer";
    case Reason::kUnsupported:
      return "numafit: this node's configuration cannot be judged";
  }
  return "";
}

}  // namespace numafit::policy
