// Publishes to the Kubernetes API server, as the NodeReport object that is named after the node.
#pragma once

#include <memory>
#include <string>

#include "agent/report_sink.h"
#include "kube/client.h"

namespace numafit::agent {

class ApiServerSink : public ReportSink {
 public:
  // `client` must outlive it.
  explicit ApiServerSink(kube::Client& client) : client_(client) {}

  // A stored object that cannot be read as a report counts as none.
  absl::StatusOr<std::int32_t> LastGeneration(const std::string& node) override;
  std::shared_ptr<const v1alpha1::NodeReportStatus> TakeLast() override;
  absl::Status Publish(const std::string& node, const v1alpha1::NodeReportStatus& report) override;

 private:
  kube::Client& client_;
  std::shared_ptr<const v1alpha1::NodeReportStatus> last_;
};

}  // namespace numafit::agent
