#include "agent/api_server_sink.h"

#include <memory>
#include <utility>

#include "api/node_report.h"

namespace numafit::agent {

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
  object.status = std::make_shared<const v1alpha1::NodeReportStatus>(report);
  return client_.ApplyNodeReport(object);
}

}  // namespace numafit::agent
