// filter and prioritize: what kube-scheduler asks while it looks for a node.
// docs/extender-protocol.md
//
// Steps of filter: read the request; make the question; look every name up and take its verdict
// (a look-up per node, an admission per node state that is new to this shape); rank what fits;
// answer the best `best_nodes` and nothing about the rest, or, when nothing fits, every node with
// its reason. Neither call reserves anything or waits for anything.
//
// Thread-safe; each thread of the server has scratch of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/fleet.h"
#include "cache/verdicts.h"
#include "extender/decision_log.h"
#include "extender/http/parked_server.h"
#include "extender/metrics.h"
#include "extender/name_table.h"
#include "extender/offers.h"
#include "extender/pod_memory.h"
#include "extender/pod_question.h"
#include "extender/wake_up.h"

namespace numafit::extender {

enum class UnknownNodes {
  kRefuse,  // a node without inventory is refused (numafit: no report from this node)
  kPass,    // it is passed, after all nodes that were judged
};

class SchedulerService {
 public:
  struct Options {
    PodRules rules;
    std::size_t best_nodes = 64;  // 0: all
    UnknownNodes unknown_nodes = UnknownNodes::kRefuse;
    int threads = 1;
    std::function<std::int64_t()> now_ms;  // monotonic
  };
  // Everything outlives the service.
  struct Parts {
    const cache::Fleet& fleet;
    cache::VerdictStore& verdicts;
    Offers& offers;
    PodMemory& pods;
    WakeUp& wake_up;
    Metrics& metrics;
    DecisionLog& log;
  };

  SchedulerService(Options options, Parts parts);
  ~SchedulerService();

  void Filter(const http::Request& request, http::Response& response);
  void Prioritize(const http::Request& request, http::Response& response);

 private:
  struct Scratch;
  // What became of the question, for the metrics and the log.
  struct Outcome;

  Outcome Answer(Scratch& scratch, std::string* body);
  void Look(Scratch& scratch, const PodQuestion& question, std::size_t best);
  static void AnswerNoneFits(const Scratch& scratch, std::string* body);

  const Options options_;
  Parts parts_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

}  // namespace numafit::extender
