#include "agent/api_server_sink.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "api/node_report.h"

namespace numafit::agent {
namespace {

api::OwnerReference OwnerOf(const std::string& node, const std::string& uid) {
  return {.kind = "Node", .name = node, .uid = uid, .api_version = "v1"};
}

}  // namespace

absl::StatusOr<std::int32_t> ApiServerSink::LastGeneration(const std::string& node) {
  const absl::StatusOr<api::NodeReport> stored = client_.GetNodeReport(node);
  last_.reset();
  if (stored.ok()) {
    if (stored->status == nullptr) return 0;
    if (api::CheckNodeReport(*stored->status).ok()) last_ = stored->status;
    return stored->status->generation();
  }
  // NotFound is also what an API server without the CustomResourceDefinition says; then Publish
  // says so.
  if (absl::IsNotFound(stored.status()) || absl::IsInvalidArgument(stored.status())) return 0;
  return stored.status();
}

std::shared_ptr<const v1alpha1::NodeReportStatus> ApiServerSink::TakeLast() {
  return std::exchange(last_, nullptr);
}

absl::Status ApiServerSink::Publish(const std::string& node,
                                    const v1alpha1::NodeReportStatus& report) {
  api::NodeReport object;
  object.metadata.name = node;
  // Without a right to look at Nodes the report has no owner.
  if (node_uid_.empty() && absl::IsNotFound(LookAtNode(node).status())) {
    return absl::NotFoundError("there is no Node " + node + " that the report could belong to");
  }
  if (!node_uid_.empty()) object.metadata.owners = {OwnerOf(node, node_uid_)};
  object.status = std::make_shared<const v1alpha1::NodeReportStatus>(report);
  return client_.ApplyNodeReport(object);
}

absl::StatusOr<bool> ApiServerSink::Stands(const std::string& node, std::int32_t generation) {
  // A Node that is gone needs no report.
  if (absl::IsNotFound(LookAtNode(node).status())) return true;
  const absl::StatusOr<api::NodeReport> stored = client_.GetNodeReport(node);
  if (absl::IsNotFound(stored.status())) return false;
  if (!stored.ok()) return stored.status();
  if (stored->status == nullptr || stored->status->generation() != generation) return false;
  if (node_uid_.empty()) return true;
  const std::vector<api::OwnerReference>& owners = stored->metadata.owners;
  return std::find(owners.begin(), owners.end(), OwnerOf(node, node_uid_)) != owners.end();
}

absl::StatusOr<api::Node> ApiServerSink::LookAtNode(const std::string& node) {
  absl::StatusOr<api::Node> found = client_.GetNode(node);
  if (found.ok()) node_uid_ = found->metadata.uid;
  // It may come back as another one.
  if (absl::IsNotFound(found.status())) node_uid_.clear();
  return found;
}

}  // namespace numafit::agent
