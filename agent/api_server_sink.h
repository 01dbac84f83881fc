// Publishes to the Kubernetes API server, as the NodeReport object that is named after the node.
#pragma once

#include <memory>
#include <string>

#include "agent/report_sink.h"
#include "api/objects.h"
#include "kube/client.h"

namespace numafit::agent {

class ApiServerSink : public ReportSink {
 public:
  // `client` must outlive it.
  explicit ApiServerSink(kube::Client& client) : client_(client) {}

  // A stored object that cannot be read as a report counts as none.
  absl::StatusOr<std::int32_t> LastGeneration(const std::string& node) override;
  std::shared_ptr<const v1alpha1::NodeReportStatus> TakeLast() override;
  // The report belongs to the Node, as far as that may be known: Kubernetes' garbage collector
  // removes it with the Node. NotFound: there is no Node.
  absl::Status Publish(const std::string& node, const v1alpha1::NodeReportStatus& report) override;
  // Also no: it belongs to a Node of that name that is gone. While there is no Node: yes.
  absl::StatusOr<bool> Stands(const std::string& node, std::int32_t generation) override;

  // The node's Node; who it is, is remembered.
  absl::StatusOr<api::Node> LookAtNode(const std::string& node);

 private:
  kube::Client& client_;
  std::string node_uid_;  // empty: not known
  std::shared_ptr<const v1alpha1::NodeReportStatus> last_;
};

}  // namespace numafit::agent
