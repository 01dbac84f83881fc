#include "extender/check_service.h"

#include <chrono>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"

namespace numafit::extender {
namespace {

using workloads::CheckVerdict;
using workloads::QuotaHolder;

// Without any news: patience ends, and messages that were held back are due.
constexpr std::int64_t kRoundWhileWaitingMs = 2'000;

// A number that differs whenever some node's state does.
std::uint64_t StateOf(const cache::Fleet& fleet) {
  const cache::Fleet::ReadGuard guard(fleet);
  const std::uint64_t* const ids = fleet.StateIds(guard);
  std::uint64_t sum = 14'695'981'039'346'656'037U;  // FNV-1a, by word
  for (std::size_t i = 0; i < fleet.size(); ++i) sum = (sum ^ ids[i]) * 1'099'511'628'211U;
  return sum;
}

}  // namespace

CheckService::CheckService(Options options, Source source, Parts parts)
    : options_(std::move(options)), source_(std::move(source)), parts_(parts) {}

CheckService::~CheckService() = default;

void CheckService::Stop() {
  thread_.Stop();
}

bool CheckService::IsDue() {
  const std::uint64_t version = source_.version();
  const std::uint64_t fleet = StateOf(parts_.fleet);
  const std::int64_t now = options_.now_ms();
  // Half of a core at most.
  if (now - last_round_ms_ < round_took_ms_) return false;
  const bool waited = unfinished_ && now - last_round_ms_ >= kRoundWhileWaitingMs;
  if (version == seen_version_ && fleet == seen_fleet_ && !waited) return false;
  seen_version_ = version;
  seen_fleet_ = fleet;
  return true;
}

void CheckService::Step() {
  const std::string version = source_.kueue();
  if (version.empty() || !IsDue()) return;
  const std::int64_t begin = options_.now_ms();
  unfinished_ = false;
  const KueueSetup::Snapshot setup = source_.setup();
  const std::set<std::string> checks = KeepActive(version, setup.checks);
  if (checks.empty()) {
    parts_.metrics.check_waiting_workloads->Set(0);
  } else {
    DecideAll(version, setup, checks);
  }
  last_round_ms_ = options_.now_ms();
  round_took_ms_ = last_round_ms_ - begin;
}

std::set<std::string> CheckService::KeepActive(
    const std::string& version, const std::map<std::string, api::AdmissionCheck>& all) {
  std::set<std::string> ours;
  const cache::Fleet::Stats fleet = parts_.fleet.stats();
  for (const auto& [name, check] : all) {
    if (check.controller_name != workloads::kCheckController) continue;
    ours.insert(name);
    kube::CheckActiveRequest wanted;
    wanted.version = version;
    wanted.name = name;
    wanted.active = true;
    wanted.reason = "Active";
    wanted.message = "numafit decides whether the Pods of Workloads would find a place";
    if (check.has_parameters) {
      wanted.active = false;
      wanted.reason = "BadParametersRef";
      wanted.message = "numafit takes no spec.parameters: remove them";
    } else if (fleet.nodes == 0 && !options_.check.admit_unjudged) {
      wanted.active = false;
      wanted.reason = "NoInventory";
      wanted.message = "no node has an inventory: are the agents running?";
    }
    const api::AdmissionCheck::Active& now = check.active;
    if (now.status == (wanted.active ? "True" : "False") && now.reason == wanted.reason &&
        now.message == wanted.message && now.observed_generation == check.generation) {
      continue;
    }
    wanted.observed_generation = check.generation;
    wanted.since = options_.wall_ms() / 1'000;
    const absl::Status status = kube::ApplyCheckActive(parts_.client, wanted);
    NoteWrite(status);
    if (!status.ok()) {
      unfinished_ = true;
      continue;
    }
    parts_.log.Write(wanted.active ? LogLevel::kInfo : LogLevel::kWarn,
                     LogLine("admission-check")
                         .Text("check", name)
                         .Text("active", wanted.active ? "True" : "False")
                         .Text("reason", wanted.reason)
                         .Text("why", wanted.message));
  }
  return ours;
}

void CheckService::AddOwnWrites(std::vector<QuotaHolder>& holders) {
  std::map<Key, Written> before;
  before.swap(written_);
  for (QuotaHolder& holder : holders) {
    for (api::AdmissionCheckState& check : holder.checks) {
      const Key key(holder.uid, check.name);
      const auto written = before.find(key);
      if (written == before.end()) continue;
      // Something newer: it has our write in it, or has made it void.
      if (written->second.request.resource_version != holder.resource_version) continue;
      if (written->second.certain) {
        written_.insert(*written);
      } else if (!Send(key, written->second.request).ok() && !written_.contains(key)) {
        continue;
      }
      check.state = written->second.request.state;
    }
  }
}

absl::Status CheckService::Send(const Key& key, kube::CheckStateRequest request) {
  const absl::Status status = kube::ApplyCheckState(parts_.client, request);
  NoteWrite(status);
  const bool refused = absl::IsAborted(status) || absl::IsNotFound(status) ||
                       absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
                       absl::IsUnauthenticated(status);
  if (!refused) written_[key] = {std::move(request), status.ok()};
  if (!status.ok()) unfinished_ = true;
  return status;
}

bool CheckService::IsWorthWriting(const QuotaHolder& holder, const CheckVerdict& verdict) {
  if (verdict.is_new) return true;
  for (const api::AdmissionCheckState& check : holder.checks) {
    if (check.name == verdict.check && check.message == verdict.message) return false;
  }
  const auto told = told_ms_.find({verdict.workload_uid, verdict.check});
  if (told == told_ms_.end()) return true;
  if (options_.now_ms() - told->second >= options_.message_ms) return true;
  unfinished_ = true;
  return false;
}

void CheckService::DecideAll(const std::string& version, const KueueSetup::Snapshot& setup,
                             const std::set<std::string>& checks) {
  std::vector<QuotaHolder> holders = source_.holders();
  AddOwnWrites(holders);
  const std::unique_ptr<cache::WhatIf> plan = parts_.fleet.MakeWhatIf(options_.strategy);
  const workloads::CheckInputs inputs{.holders = holders,
                                      .checks = checks,
                                      .flavors = setup.flavors,
                                      .nodes = setup.nodes,
                                      .fleet = parts_.fleet,
                                      .now = options_.wall_ms() / 1'000};
  const std::vector<CheckVerdict> verdicts = workloads::Decide(inputs, *plan, options_.check);
  absl::flat_hash_map<std::string, const QuotaHolder*> by_uid;
  for (const QuotaHolder& holder : holders) by_uid[holder.uid] = &holder;
  int waiting = 0;
  int writes = 0;
  std::map<Key, std::int64_t> told;
  for (const CheckVerdict& verdict : verdicts) {
    const Key key(verdict.workload_uid, verdict.check);
    if (verdict.state != "Ready") {
      ++waiting;
      const auto before = told_ms_.find(key);
      if (before != told_ms_.end()) told.insert(*before);
    }
    const QuotaHolder& holder = *by_uid.at(verdict.workload_uid);
    if (!IsWorthWriting(holder, verdict)) continue;
    if (writes++ >= options_.writes) {
      unfinished_ = true;
      // What follows was decided with this one let in.
      if (verdict.state == "Ready") break;
      continue;
    }
    Write(version, holder, verdict);
    if (verdict.state != "Ready") told[key] = options_.now_ms();
  }
  told_ms_ = std::move(told);
  unfinished_ = unfinished_ || waiting > 0;
  parts_.metrics.check_waiting_workloads->Set(waiting);
}

void CheckService::Write(const std::string& version, const QuotaHolder& holder,
                         const CheckVerdict& verdict) {
  kube::CheckStateRequest request;
  request.version = version;
  request.workload_namespace = holder.namespace_;
  request.workload_name = holder.name;
  request.workload_uid = holder.uid;
  request.resource_version = holder.resource_version;
  request.check = verdict.check;
  request.state = verdict.state;
  request.message = verdict.message;
  request.since = verdict.since;
  if (!Send({holder.uid, verdict.check}, std::move(request)).ok() || !verdict.is_new) return;
  if (verdict.state == "Ready") parts_.metrics.check_total.ready->Increment();
  if (verdict.state == "Retry") parts_.metrics.check_total.retry->Increment();
  parts_.log.Write(LogLevel::kInfo, LogLine("admission-check-state")
                                        .Text("workload", holder.FullName())
                                        .Text("check", verdict.check)
                                        .Text("state", verdict.state)
                                        .Text("message", verdict.message));
}

void CheckService::NoteWrite(const absl::Status& status) {
  if (status.ok()) {
    error_.clear();
    return;
  }
  // Somebody has changed the object meanwhile, or it is gone: its news decide again.
  if (absl::IsAborted(status) || absl::IsNotFound(status)) {
    parts_.metrics.check_total.conflict->Increment();
    return;
  }
  parts_.metrics.check_total.error->Increment();
  if (error_ == status.message()) return;
  error_ = std::string(status.message());
  parts_.log.Write(LogLevel::kWarn, LogLine("admission-check-write").Text("error", error_));
}

void CheckService::Start(std::function<bool()> is_current) {
  thread_.Start(std::chrono::milliseconds(options_.period_ms),
                [this, is_current = std::move(is_current)] {
                  if (is_current()) Step();
                });
}

}  // namespace numafit::extender
