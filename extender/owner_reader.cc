#include "extender/owner_reader.h"

#include <chrono>
#include <cstddef>
#include <utility>

namespace numafit::extender {
namespace {

constexpr std::size_t kMostRefusedKinds = 100;

}  // namespace

OwnerReader::OwnerReader(Options options, Parts parts, Tell tell)
    : options_(options),
      parts_(parts),
      tell_(std::move(tell)),
      reader_(parts.client, &cancel_),
      thread_([this] { Run(); }) {}

OwnerReader::~OwnerReader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  cancel_.Set();
  changed_.notify_all();
  thread_.join();
}

void OwnerReader::Ask(std::vector<workloads::OwnerQuestion> questions) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
    for (workloads::OwnerQuestion& question : questions) {
      if (question.owner.uid != reading_) waiting_.push_back(std::move(question));
    }
  }
  changed_.notify_all();
}

void OwnerReader::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const workloads::OwnerQuestion question = std::move(waiting_.front());
    waiting_.pop_front();
    reading_ = question.owner.uid;
    lock.unlock();
    const bool answered = Read(question);
    lock.lock();
    reading_.clear();
    const std::chrono::milliseconds pause(answered ? options_.pause_ms : options_.after_failure_ms);
    if (changed_.wait_for(lock, pause, [this] { return stopping_; })) return;
  }
}

bool OwnerReader::Read(const workloads::OwnerQuestion& question) {
  const api::OwnerReference& owner = question.owner;
  const absl::StatusOr<api::ObjectMeta> metadata = reader_.Read({.api_version = owner.api_version,
                                                                 .kind = owner.kind,
                                                                 .namespace_ = question.namespace_,
                                                                 .name = owner.name});
  std::optional<api::OwnerReference> controller;
  if (metadata.ok()) {
    // One that was made again under the same name is not the Pod's.
    if (metadata->uid == owner.uid) {
      for (const api::OwnerReference& each : metadata->owners) {
        if (each.controller) controller = each;
      }
    }
  } else {
    const absl::Status& status = metadata.status();
    const bool is_final = absl::IsPermissionDenied(status) || absl::IsNotFound(status) ||
                          absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
                          absl::IsUnimplemented(status);
    if (!is_final) return false;
    if (!absl::IsNotFound(status)) LogRefusal(question, status);
  }
  tell_(question, std::move(controller));
  return true;
}

void OwnerReader::LogRefusal(const workloads::OwnerQuestion& question, const absl::Status& status) {
  const std::string kind = question.owner.api_version + " " + question.owner.kind;
  if (refused_.size() >= kMostRefusedKinds || !refused_.insert(kind).second) return;
  // Without the right its Pods count as nobody's.
  parts_.log.Write(LogLevel::kWarn, LogLine("owner-unreadable")
                                        .Text("kind", kind)
                                        .Text("namespace", question.namespace_)
                                        .Text("name", question.owner.name)
                                        .Text("error", std::string(status.message())));
}

}  // namespace numafit::extender
