// Reports to the API server, as NodeReport objects.
#pragma once

#include "agent/report_sink.h"
#include "kube/client.h"

namespace numafit::agent {

class ApiServerSink : public ReportSink {
 public:
  // `client` must outlive it.
  explicit ApiServerSink(kube::Client& client) : client_(client) {}

  absl::StatusOr<std::int32_t> LastGeneration(const std::string& node) override;
  absl::Status Publish(const std::string& node, const v1alpha1::NodeReportStatus& report) override;

 private:
  kube::Client& client_;
};

}  // namespace numafit::agent
