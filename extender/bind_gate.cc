#include "extender/bind_gate.h"

#include <algorithm>
#include <utility>

#include "extender/http/parked_server.h"
#include "extender/json_text.h"
#include "fmt/format.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"

namespace numafit::extender {
namespace {

// After these the bind may have happened, or may be tried again.
bool MayHaveHappened(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

std::string_view ResultName(BindGate::Result result) {
  switch (result) {
    case BindGate::Result::kBound:
      return "bound";
    case BindGate::Result::kRefused:
      return "refused";
    case BindGate::Result::kAlready:
      return "already";
    case BindGate::Result::kError:
      break;
  }
  return "error";
}

// Texts are stable: kube-scheduler puts them into the Pod's condition, and one that changes would
// make the Pod retry itself.
constexpr char kBoundElsewhere[] = "numafit: the Pod is bound to another node";
constexpr char kGone[] = "numafit: the Pod is gone";
constexpr char kUnreachable[] = "numafit: the API server cannot be reached";
constexpr char kUnknown[] = "numafit: the API server did not say whether the Pod was bound";

}  // namespace

// Holds other calls for the same Pod back.
class BindGate::Turn {
 public:
  Turn(BindGate& gate, const std::string& uid) : gate_(gate), uid_(uid) {
    std::unique_lock<std::mutex> lock(gate_.turn_mutex_);
    gate_.turn_changed_.wait(lock, [this] { return gate_.in_turn_.insert(uid_).second; });
  }
  ~Turn() {
    {
      const std::lock_guard<std::mutex> lock(gate_.turn_mutex_);
      gate_.in_turn_.erase(uid_);
    }
    gate_.turn_changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  BindGate& gate_;
  const std::string uid_;
};

BindGate::BindGate(Options options, Parts parts) : options_(std::move(options)), parts_(parts) {}

void BindGate::Serve(const http::Request& request, http::Response& response) {
  absl::StatusOr<api::ExtenderBindingArgs> args = api::ParseExtenderBindingArgs(request.body);
  if (!args.ok()) {
    response.status = 400;
    http::AppendError(std::string(args.status().message()), &response.body);
    return;
  }
  const Answer answer = Bind(*args);
  response.body.append(R"({"Error":)");
  AppendJsonString(answer.error, &response.body);
  response.body.push_back('}');
}

BindGate::Answer BindGate::Bind(const api::ExtenderBindingArgs& args) {
  const std::int64_t began_ms = options_.now_ms();
  Answer answer;
  if (args.pod_uid.empty() || args.pod_name.empty() || args.node.empty()) {
    answer.error = "numafit: bind needs PodName, PodNamespace, PodUID and Node";
    Record(args, answer, began_ms);
    return answer;
  }
  const Turn turn(*this, args.pod_uid);
  parts_.offers.Forget(args.pod_uid);

  kube::BindRequest request;
  request.pod_namespace = args.pod_namespace;
  request.pod_name = args.pod_name;
  request.pod_uid = args.pod_uid;
  request.node = args.node;

  const Found found = FindDemand(args);
  if (!found.ok) {
    answer.error = found.error;
    Record(args, answer, began_ms);
    return answer;
  }
  bool reserved = false;
  if (!found.demand.AsksForNoDevice()) {
    const cache::Fleet::ReserveResult place =
        parts_.fleet.Reserve(args.node, args.pod_uid, args.pod_namespace + "/" + args.pod_name,
                             found.demand, found.priority);
    const bool unknown_node = place.judgement.reason == policy::Reason::kNoReport;
    const bool passed = unknown_node && options_.unknown_nodes == UnknownNodes::kPass;
    if (!passed && (!place.error.empty() || !place.judgement.fits())) {
      answer.result = Result::kRefused;
      answer.error = place.error.empty() || unknown_node
                         ? std::string(policy::ReasonText(place.judgement.reason))
                         : "numafit: " + place.error;
      Record(args, answer, began_ms);
      return answer;
    }
    reserved = !passed;
    if (!place.placement.empty()) {
      request.annotations.emplace("numafit.io/placement", place.placement);
    }
  }
  answer = Post(request);
  if (answer.error == kUnknown) {
    parts_.metrics.bind_unknown_total->Increment();
    if (reserved) {
      const api::MutexLock lock(open_mutex_);
      open_.push_back(request);
      parts_.metrics.bind_unresolved->Set(static_cast<double>(open_.size()));
    }
  } else if (reserved && answer.error.empty()) {
    parts_.fleet.Commit(args.pod_uid);
  } else if (reserved) {
    parts_.fleet.Release(args.pod_uid);
  }
  if (answer.error.empty()) parts_.pods.Forget(args.pod_uid);
  Record(args, answer, began_ms);
  return answer;
}

BindGate::Found BindGate::FindDemand(const api::ExtenderBindingArgs& args) {
  Found found;
  if (const auto remembered = parts_.pods.Find(args.pod_uid); remembered != nullptr) {
    found.ok = true;
    found.demand = remembered->demand;
    found.priority = remembered->pod.priority;
    return found;
  }
  // Filter was answered by another replica, or before a restart.
  const absl::StatusOr<api::Pod> pod = parts_.client.GetPod(args.pod_namespace, args.pod_name);
  if (!pod.ok()) {
    found.error = absl::IsNotFound(pod.status()) ? kGone : kUnreachable;
    return found;
  }
  if (pod->metadata.uid != args.pod_uid) {
    found.error = kGone;
    return found;
  }
  PodQuestion question;
  const absl::Status asked = AskAboutPod(*pod, options_.rules, &question);
  if (!asked.ok()) {
    found.error = "numafit: " + std::string(asked.message());
    return found;
  }
  found.ok = true;
  found.demand = std::move(question.demand);
  found.priority = pod->priority;
  return found;
}

BindGate::Answer BindGate::Post(const kube::BindRequest& request) {
  const std::int64_t deadline = options_.now_ms() + options_.budget_ms;
  std::int64_t pause = options_.first_pause_ms;
  for (int attempt = 0;; ++attempt) {
    if (attempt > 0) parts_.metrics.bind_retries_total->Increment();
    const absl::Status status = parts_.client.Bind(request);
    if (status.ok()) return {Result::kBound, ""};
    if (absl::IsNotFound(status)) return {Result::kError, kGone};
    const bool conflict = absl::IsAborted(status) || absl::IsAlreadyExists(status);
    if (!conflict && !MayHaveHappened(status)) {
      return {Result::kError, fmt::format("numafit: {}", std::string(status.message()))};
    }
    const Place place = Locate(request);
    switch (place) {
      case Place::kHere:
        return {conflict && attempt == 0 ? Result::kAlready : Result::kBound, ""};
      case Place::kElsewhere:
        return {Result::kError, kBoundElsewhere};
      case Place::kGone:
        return {Result::kError, kGone};
      case Place::kNowhere:
        if (conflict) {
          return {Result::kError, fmt::format("numafit: {}", std::string(status.message()))};
        }
        break;
      case Place::kUnknown:
        break;
    }
    if (options_.now_ms() + pause >= deadline) {
      return {Result::kError, place == Place::kNowhere ? kUnreachable : kUnknown};
    }
    options_.sleep_ms(pause);
    pause *= 2;
  }
}

BindGate::Place BindGate::Locate(const kube::BindRequest& request) {
  const absl::StatusOr<api::Pod> pod =
      parts_.client.GetPod(request.pod_namespace, request.pod_name);
  if (absl::IsNotFound(pod.status())) return Place::kGone;
  if (!pod.ok()) return Place::kUnknown;
  if (pod->metadata.uid != request.pod_uid) return Place::kGone;
  if (pod->node_name.empty()) return Place::kNowhere;
  return pod->node_name == request.node ? Place::kHere : Place::kElsewhere;
}

std::size_t BindGate::Settle() {
  std::vector<kube::BindRequest> open;
  {
    const api::MutexLock lock(open_mutex_);
    open.swap(open_);
  }
  std::vector<kube::BindRequest> left;
  for (kube::BindRequest& request : open) {
    const Turn turn(*this, request.pod_uid);
    switch (Locate(request)) {
      case Place::kHere:
        parts_.fleet.Commit(request.pod_uid);
        break;
      case Place::kUnknown:
        left.push_back(std::move(request));
        break;
      case Place::kElsewhere:
      case Place::kNowhere:
      case Place::kGone:
        parts_.fleet.Release(request.pod_uid);
        break;
    }
  }
  const api::MutexLock lock(open_mutex_);
  open_.insert(open_.end(), std::make_move_iterator(left.begin()),
               std::make_move_iterator(left.end()));
  parts_.metrics.bind_unresolved->Set(static_cast<double>(open_.size()));
  return open_.size();
}

void BindGate::Record(const api::ExtenderBindingArgs& args, const Answer& answer,
                      std::int64_t began_ms) {
  const std::int64_t now = options_.now_ms();
  prometheus::Counter* counter = parts_.metrics.bind_total.error;
  if (answer.result == Result::kBound) counter = parts_.metrics.bind_total.bound;
  if (answer.result == Result::kRefused) counter = parts_.metrics.bind_total.refused;
  if (answer.result == Result::kAlready) counter = parts_.metrics.bind_total.already;
  counter->Increment();
  parts_.metrics.bind_seconds->Observe(static_cast<double>(now - began_ms) / 1000.0);
  if (!parts_.log.Enabled(LogLevel::kInfo)) return;
  LogLine line("bind");
  line.Text("pod", args.pod_namespace + "/" + args.pod_name)
      .Text("node", args.node)
      .Text("result", ResultName(answer.result));
  if (!answer.error.empty()) line.Text("error", answer.error);
  line.Int("ms", now - began_ms);
  if (!parts_.log.Decision(line, now)) parts_.metrics.log_dropped_total->Increment();
}

}  // namespace numafit::extender
