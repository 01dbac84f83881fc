#include "extender/scheduler_service.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "cache/judge.h"
#include "extender/args_reader.h"
#include "extender/json_text.h"
#include "extender/ranking.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"

namespace numafit::extender {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

constexpr std::string_view kNoPod = "numafit: the request names no Pod";

void AppendErrorAnswer(std::string_view error, std::string* body) {
  body->append(
      R"({"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":)");
  AppendJsonString(error, body);
  body->push_back('}');
}

// An answer with the kept nodes, in the form in which they came and nothing about the others.
template <typename PositionOf>
void AppendKept(const Args& args, std::size_t count, PositionOf position_of, std::string* body) {
  const bool whole = args.form == Args::Form::kNodes;
  body->append(whole ? R"({"Nodes":{"metadata":{},"items":[)" : R"({"Nodes":null,"NodeNames":[)");
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) body->push_back(',');
    if (whole) {
      body->append(args.nodes[position_of(i)]);
    } else {
      AppendJsonString(args.names[position_of(i)], body);
    }
  }
  body->append(whole ? R"(]},"NodeNames":null,)" : "],");
  body->append(R"("FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""})");
}

}  // namespace

// What one thread keeps between calls, so that the hot path allocates next to nothing.
struct SchedulerService::Scratch {
  ArgsReader reader;
  Args args;
  Ranking ranking;
  // By position in the request: why the node is refused, kFits when it is not.
  std::vector<policy::Reason> reasons;
  // By node index: the node that came after it last time. kube-scheduler's order changes little
  // from call to call, so that most names are found without hashing. The last entry is for the
  // first name.
  std::vector<std::int32_t> next;
  // By node index: the call in which it was named last, to see names that come twice.
  std::vector<std::uint32_t> named;
  std::uint32_t call = 0;
  NameTable names;
};

struct SchedulerService::Outcome {
  prometheus::Counter* counter = nullptr;
  std::string_view result;
  std::size_t fit = 0;
  std::size_t answered = 0;
  std::string best;
  std::string error;
};

SchedulerService::SchedulerService(Options options, Parts parts)
    : options_(std::move(options)), parts_(parts) {
  for (int i = 0; i < options_.threads; ++i) scratch_.push_back(std::make_unique<Scratch>());
}

SchedulerService::~SchedulerService() = default;

void SchedulerService::Filter(const http::Request& request, http::Response& response) {
  const Clock::time_point start = Clock::now();
  Scratch& scratch = *scratch_[static_cast<std::size_t>(request.thread)];
  const absl::Status read = scratch.reader.Read(request.body, &scratch.args);
  if (!read.ok()) {
    response.status = 400;
    http::AppendError(std::string(read.message()), &response.body);
    parts_.metrics.filter_total.malformed->Increment();
    parts_.log.Write(LogLevel::kWarn, LogLine("filter")
                                          .Text("result", "malformed")
                                          .Text("error", std::string(read.message()))
                                          .Text("remote", request.remote));
    return;
  }
  const Outcome outcome = Answer(scratch, &response.body);
  outcome.counter->Increment();
  const double seconds = Seconds(start);
  parts_.metrics.filter_seconds->Observe(seconds);
  if (!parts_.log.Enabled(LogLevel::kInfo)) return;
  LogLine line("filter");
  line.Text("pod", scratch.args.pod.FullName())
      .Text("result", outcome.result)
      .Int("nodes", static_cast<std::int64_t>(scratch.args.names.size()))
      .Int("fit", static_cast<std::int64_t>(outcome.fit))
      .Int("answered", static_cast<std::int64_t>(outcome.answered));
  if (!outcome.best.empty()) line.Text("best", outcome.best);
  if (!outcome.error.empty()) line.Text("error", outcome.error);
  line.Int("us", static_cast<std::int64_t>(seconds * 1e6));
  if (!parts_.log.Decision(line, options_.now_ms())) parts_.metrics.log_dropped_total->Increment();
}

SchedulerService::Outcome SchedulerService::Answer(Scratch& scratch, std::string* body) {
  Args& args = scratch.args;
  Outcome outcome;
  outcome.counter = parts_.metrics.filter_total.error;
  outcome.result = "error";
  if (!args.has_pod) {
    outcome.error = kNoPod;
    AppendErrorAnswer(outcome.error, body);
    return outcome;
  }
  const std::string uid = args.pod.metadata.uid;
  const std::int64_t now = options_.now_ms();
  parts_.offers.Forget(uid);
  parts_.offers.ForgetOld(now);

  PodQuestion question;
  const absl::Status asked = AskAboutPod(args.pod, options_.rules, &question);
  if (!asked.ok()) {
    outcome.error = "numafit: " + std::string(asked.message());
    AppendErrorAnswer(outcome.error, body);
    return outcome;
  }
  auto remembered = std::make_shared<RememberedPod>();
  remembered->pod = args.pod;
  remembered->demand = question.demand;
  parts_.pods.Remember(std::move(remembered));

  if (question.demand.AsksForNoDevice()) {
    AppendKept(
        args, args.names.size(), [](std::size_t i) { return i; }, body);
    outcome.counter = parts_.metrics.filter_total.passed;
    outcome.result = "passed";
    outcome.fit = outcome.answered = args.names.size();
    return outcome;
  }
  const std::uint64_t moment = parts_.wake_up.moment();
  Look(scratch, question, options_.best_nodes);
  const std::vector<Ranked>& ranked = scratch.ranking.Finish();
  if (ranked.empty()) {
    AnswerNoneFits(scratch, body);
    parts_.wake_up.Refused(args.pod, question, args.names.size(), moment);
    outcome.counter = parts_.metrics.filter_total.none_fits;
    outcome.result = "none_fits";
    return outcome;
  }
  parts_.wake_up.Fits(uid);
  AppendKept(
      args, ranked.size(), [&ranked](std::size_t i) { return ranked[i].position; }, body);
  outcome.counter = parts_.metrics.filter_total.fits;
  outcome.result = "fits";
  outcome.fit = scratch.ranking.added();
  outcome.answered = ranked.size();
  outcome.best = args.names[ranked.front().position];
  if (ranked.front().index >= 0) parts_.offers.Set(uid, ranked.front().index, now);
  return outcome;
}

// Verdicts of all names, into scratch.ranking and scratch.reasons.
void SchedulerService::Look(Scratch& scratch, const PodQuestion& question, std::size_t best) {
  const Args& args = scratch.args;
  const int own_offer = parts_.offers.NodeOf(args.pod.metadata.uid);
  const std::string key = question.Key();
  scratch.ranking.Reset(best);
  scratch.reasons.assign(args.names.size(), policy::Reason::kFits);

  const cache::Fleet& fleet = parts_.fleet;
  const cache::Fleet::ReadGuard guard(fleet);
  const std::size_t nodes = fleet.size();
  scratch.names.Follow(fleet, guard);
  if (scratch.next.size() != nodes + 1) {
    scratch.next.resize(nodes + 1);
    for (std::size_t i = 0; i < nodes; ++i) scratch.next[i] = static_cast<std::int32_t>(i + 1);
    scratch.next[nodes] = 0;
    scratch.named.assign(nodes, 0);
  }
  ++scratch.call;
  const std::uint64_t* const states = fleet.StateIds(guard);
  const bool has_nominees = fleet.HasNominees(guard);
  cache::VerdictStore::Session session(parts_.verdicts, key, nodes);
  std::size_t previous = nodes;
  for (std::uint32_t position = 0; position < args.names.size(); ++position) {
    const std::string_view name = args.names[position];
    int index = scratch.next[previous];
    if (!scratch.names.Is(index, name)) index = fleet.FindNode(guard, name, -1);
    if (index < 0) {
      if (options_.unknown_nodes == UnknownNodes::kPass) {
        scratch.ranking.Add(position, -1, 0, std::numeric_limits<int>::max());
      } else {
        scratch.reasons[position] = policy::Reason::kNoReport;
      }
      continue;
    }
    const auto at = static_cast<std::size_t>(index);
    scratch.next[previous] = index;
    previous = at;
    if (std::exchange(scratch.named[at], scratch.call) == scratch.call) continue;
    cache::Verdict verdict = session.At(index, states[at], [&] {
      const policy::Judgement judgement =
          cache::JudgeOnNode(*fleet.State(guard, index), question.demand, question.strategy);
      return cache::Verdict{judgement.score, judgement.reason};
    });
    if (has_nominees && verdict.fits()) {
      const cache::Nominees* const nominees = fleet.NomineesOf(guard, index);
      if (nominees != nullptr &&
          !nominees->LeavesRoom(*fleet.State(guard, index), args.pod.metadata.uid,
                                args.pod.priority, question.demand)) {
        verdict.reason = policy::Reason::kKeptForNominee;
      }
    }
    if (verdict.reason == policy::Reason::kNoReport &&
        options_.unknown_nodes == UnknownNodes::kPass) {
      scratch.ranking.Add(position, -1, 0, std::numeric_limits<int>::max());
      continue;
    }
    if (!verdict.fits()) {
      scratch.reasons[position] = verdict.reason;
      continue;
    }
    const int offers = parts_.offers.count(index) - (index == own_offer ? 1 : 0);
    scratch.ranking.Add(position, index, verdict.score, offers);
  }
}

// FailedNodes would make the scheduler spin (docs/extender-protocol.md), so that every refusal is
// an unresolvable one.
void SchedulerService::AnswerNoneFits(const Scratch& scratch, std::string* body) {
  const Args& args = scratch.args;
  const bool whole = args.form == Args::Form::kNodes;
  body->append(whole ? R"({"Nodes":{"metadata":{},"items":[]},"NodeNames":null,)"
                     : R"({"Nodes":null,"NodeNames":[],)");
  body->append(R"("FailedNodes":{},"FailedAndUnresolvableNodes":{)");
  bool first = true;
  for (std::size_t i = 0; i < args.names.size(); ++i) {
    if (scratch.reasons[i] == policy::Reason::kFits) continue;  // a name that came twice
    if (!std::exchange(first, false)) body->push_back(',');
    AppendJsonString(args.names[i], body);
    body->push_back(':');
    AppendJsonString(policy::ReasonText(scratch.reasons[i]), body);
  }
  body->append(R"(},"Error":""})");
}

void SchedulerService::Prioritize(const http::Request& request, http::Response& response) {
  const Clock::time_point start = Clock::now();
  Scratch& scratch = *scratch_[static_cast<std::size_t>(request.thread)];
  const absl::Status read = scratch.reader.Read(request.body, &scratch.args);
  if (!read.ok()) {
    response.status = 400;
    http::AppendError(std::string(read.message()), &response.body);
    parts_.metrics.prioritize_malformed_total->Increment();
    return;
  }
  parts_.metrics.prioritize_total->Increment();
  const Args& args = scratch.args;
  PodQuestion question;
  response.body.push_back('[');
  // Hosts that are left out get 0, and so does everybody when the Pod cannot be read.
  if (args.has_pod && AskAboutPod(args.pod, options_.rules, &question).ok() &&
      !question.demand.AsksForNoDevice()) {
    Look(scratch, question, 0);
    const std::vector<Ranked>& ranked = scratch.ranking.Finish();
    for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
      if (rank > 0) response.body.push_back(',');
      response.body.append(R"({"Host":)");
      AppendJsonString(args.names[ranked[rank].position], &response.body);
      response.body.append(R"(,"Score":)");
      AppendInt(PriorityOfRank(rank, ranked.size()), &response.body);
      response.body.push_back('}');
    }
    // Other extenders may have taken the node that filter offered.
    if (!ranked.empty() && ranked.front().index >= 0) {
      parts_.offers.Set(args.pod.metadata.uid, ranked.front().index, options_.now_ms());
    }
  }
  response.body.push_back(']');
  parts_.metrics.prioritize_seconds->Observe(Seconds(start));
}

}  // namespace numafit::extender
